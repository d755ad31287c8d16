"""Settings of a loss: stated once, and readable without torch."""

import subprocess
import sys
from dataclasses import asdict

import pytest

from reldp._validate import LOSSES
from reldp.errors import ConfigError
from reldp.losses import make_loss
from reldp.losses.settings import LossSettings
from reldp.training.config import LearningSettings


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_learning_settings_have_the_same_defaults(name):
    defaults = asdict(LossSettings())
    assert asdict(LearningSettings().loss_settings(defaults["pairing"])) == defaults
    described = make_loss(name).describe()
    described.pop("margin", None)
    assert described == {setting: defaults[setting] for setting in described}


@pytest.mark.parametrize("settings", [LossSettings, LearningSettings])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"loss": "infonce", "objective": "hinge"}, "left out for the loss infonce, got 'hinge'"),
        ({"loss": "distmult", "distance": "l1"}, "left out for the loss distmult, got 'l1'"),
        ({"loss": "distmult", "objective": "softmax"}, "one of infonce, logistic, hinge"),
        ({"loss": "transe", "distance": "l3"}, "one of l2, l1"),
    ],
)
def test_settings_of_typed_losses_are_refused_beside_others(settings, change, said):
    with pytest.raises(ConfigError, match=said):
        settings(**change)
    assert settings(loss="transe", objective="hinge", distance="l1").distance == "l1"


@pytest.mark.parametrize("settings", [LossSettings, LearningSettings])
@pytest.mark.parametrize(
    "change",
    [{"loss": "l2"}, {"score": "l1"}, {"pairing": "none"}, {"temperature": 0}, {"margin": -1.0}]
    + [{"matryoshka_dims": dims} for dims in ([], [0], [2.5], [4, 4], "ab", 3)],
)
def test_both_refuse_the_same_values(settings, change):
    with pytest.raises(ConfigError, match=f"`{next(iter(change))}` must be"):
        settings(**change)


def test_settings_are_read_without_torch():
    code = "import sys, reldp.losses.settings, reldp.training.config; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "torch" not in done.stdout.split()
