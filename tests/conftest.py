"""Settings for the whole suite."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from reldp.noise import GaussianNoise

settings.register_profile("suite", deadline=None)  # machines are busy
settings.load_profile("suite")


def pytest_configure():
    """Tests of signals need them also where the suite runs under nohup, or in the background of a script."""
    for name, handler in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
        if signal.getsignal(getattr(signal, name)) is signal.SIG_IGN:
            signal.signal(getattr(signal, name), handler)


@pytest.fixture(autouse=True, scope="session")
def _plain_torch_folder(tmp_path_factory):
    """Private sizes are stored in the user's state folder: tests get a folder of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELDP_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def _no_known_graphs():
    """Tests use the same small graphs with a budget and without, and with releases of sizes and without."""
    names = "budget_graphs.private.json", "noted_sizes.private.json"
    known = [Path(os.environ["RELDP_STATE_DIR"], name) for name in names]
    for place in known:
        place.unlink(missing_ok=True)
    yield
    for place in known:  # fixtures of the next module are made before this one
        place.unlink(missing_ok=True)


@pytest.fixture(autouse=True, scope="session")
def _on_the_cpu():
    """Tests run on the CPU unless they name a device, also where there is a GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reldp.encoders.device.default_device", lambda: "cpu")
        yield


@pytest.fixture(autouse=True, scope="session")
def _included_losses_are_checked_once():
    """Hundreds of steps train with InfoNCE on a few widths: the check of a loss depends on little else.

    Losses of tests are checked every time, and tests of the check itself call it directly.
    """
    # Here, because the process that hands the tests out to workers needs no torch.
    from reldp.training.loss_check import check_loss
    from reldp.training.loss_hash import loss_sha256

    checked = set()

    def check_once(objective):
        encoder = objective.encoder
        if not objective.is_included or objective.loss_parameters:
            return check_loss(objective)
        known = (
            loss_sha256(objective.loss), objective.splits_tuples, objective.num_negatives,
            objective.num_types, encoder.dim, str(encoder.device),
        )  # fmt: skip
        if known in checked:
            return objective.remember_loss()
        check_loss(objective)
        return checked.add(known)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reldp.training.step.check_loss", check_once)
        patch.setattr("reldp.training.trainer.check_loss", check_once)
        yield


@pytest.fixture(autouse=True, scope="session")
def _known_costs():
    """Hundreds of tests account for the same few plans."""
    from tests.known_costs import remember_costs

    with pytest.MonkeyPatch.context() as patch:
        remember_costs(patch)
        yield


@pytest.fixture
def noise_by_address(monkeypatch):
    """Noise that does not depend on the sum, to compare sums that differ in their last bits."""

    def draw(self, total, step, branch):
        return self.draw(step, branch, total.nbytes // 8)

    monkeypatch.setattr(GaussianNoise, "draw_for", draw)
