"""What several tests of training need."""

import pytest

from reldp.noise import GaussianNoise


@pytest.fixture
def noise_by_address(monkeypatch):
    """Noise that does not depend on the sum, to compare sums that differ in their last bits."""

    def draw(self, total, step, branch):
        return self.draw(step, branch, total.nbytes // 8)

    monkeypatch.setattr(GaussianNoise, "draw_for", draw)
