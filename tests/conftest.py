"""Settings for the whole suite."""

import pytest

from reldp.noise import GaussianNoise


@pytest.fixture(autouse=True, scope="session")
def _own_state_folder(tmp_path_factory):
    """Private sizes are stored in the user's state folder: tests get a folder of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELDP_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _on_the_cpu():
    """Tests run on the CPU unless they name a device, also where there is a GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reldp.encoders.device.default_device", lambda: "cpu")
        yield


@pytest.fixture
def noise_by_address(monkeypatch):
    """Noise that does not depend on the sum, to compare sums that differ in their last bits."""

    def draw(self, total, step, branch):
        return self.draw(step, branch, total.nbytes // 8)

    monkeypatch.setattr(GaussianNoise, "draw_for", draw)
