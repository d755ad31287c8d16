"""Lines of metrics: marked, replaced on replay, compared with what they replace."""

import json
import math
import sys
from types import SimpleNamespace

import pytest
import torch

from reldp.errors import MissingDependency
from reldp.reporting.run_folder import RunFolder
from reldp.training.config import TrainingConfig
from reldp.training.metrics import MetricsLog, ReplayDiffers, progress_bar
from reldp.training.step import StepReport

REPORT = StepReport(
    num_tuples=3,
    overflow=False,
    loss=0.5,
    median_norm=math.nan,
    clipped_share=0.25,
    num_nonfinite=0,
)


def weights(value=1.0):
    return {"w": torch.tensor([value])}


def test_numbers_that_are_none_are_left_out_and_the_rest_is_marked(tmp_path):
    run = RunFolder(tmp_path)
    with MetricsLog(run, TrainingConfig(), 0, 0) as log:
        log.write(0, 0.1, REPORT, weights())
    line = run.read_lines(run.metrics)[0]
    assert line["not_private"] == {
        "num_tuples": 3,
        "overflow": False,
        "loss": 0.5,
        "clipped_share": 0.25,
        "num_nonfinite": 0,
    }
    assert len(line["weights"]) == 16


def test_a_resumed_log_drops_later_lines_and_a_torn_one(tmp_path):
    run = RunFolder(tmp_path)
    with MetricsLog(run, TrainingConfig(), 0, 0) as log:
        for step in range(5):
            log.write(step, 0.1, REPORT, weights(step))
    with run.metrics.open("a") as file:
        file.write('{"step": 5, "bra')
    with MetricsLog(run, TrainingConfig(), 3, 0) as log:
        assert [line["step"] for line in run.read_lines(run.metrics)] == [0, 1, 2]
        log.write(3, 0.1, REPORT, weights(3))
        with pytest.raises(ReplayDiffers):
            log.write(4, 0.1, REPORT, weights(4.5))
    with MetricsLog(run, TrainingConfig(), 3, 1) as log:
        log.write(3, 0.1, REPORT, weights(9))  # another branch owes nothing to this one


def test_a_step_that_was_logged_is_compared_whatever_is_logged_now(tmp_path):
    run = RunFolder(tmp_path)
    with MetricsLog(run, TrainingConfig(), 0, 0) as log:
        log.write(3, 0.1, REPORT, weights(3))
    with (
        MetricsLog(run, TrainingConfig(log_every=2), 0, 0) as log,
        pytest.raises(ReplayDiffers),
    ):
        log.write(3, 0.1, REPORT, weights(4))


def test_weights_are_hashed_only_where_steps_repeat(tmp_path):
    run = RunFolder(tmp_path)
    with MetricsLog(run, TrainingConfig(device="cuda"), 0, 0) as log:
        log.write(0, 0.1, REPORT, weights())
    assert run.read_lines(run.metrics)[0]["weights"] == ""


def test_lines_come_every_so_often(tmp_path):
    run = RunFolder(tmp_path)
    with MetricsLog(run, TrainingConfig(log_every=3), 0, 0) as log:
        for step in range(7):
            log.write(step, 0.1, REPORT, weights())
    assert [line["step"] for line in run.read_lines(run.metrics)] == [0, 3, 6]


def test_the_progress_bar_shows_steps_epsilon_and_rate(capsys):
    with progress_bar(True, 0, 4, lambda step: 0.5 * step) as advance:
        for step in range(1, 5):
            advance(step)
    said = capsys.readouterr().err
    assert "4/4" in said
    assert "epsilon ≤ 2" in said
    assert "steps/s" in said


def test_no_bar_means_no_pricing(capsys):
    def never(step):
        raise AssertionError("priced for nobody")

    with progress_bar(False, 0, 4, never) as advance:
        advance(1)
    with progress_bar(None, 0, 4, never) as advance:  # no terminal here
        advance(1)
    assert capsys.readouterr().err == ""


def test_an_infinite_epsilon_is_shown_as_such(capsys):
    with progress_bar(True, 0, 1, lambda step: math.inf) as advance:
        advance(1)
    assert "∞" in capsys.readouterr().err


def test_weights_and_biases_gets_the_same_numbers_under_marked_names(tmp_path, monkeypatch):
    logged = []
    started = SimpleNamespace(log=lambda values, step: logged.append((step, values)))
    fake = SimpleNamespace(init=lambda **settings: started)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    with MetricsLog(RunFolder(tmp_path), TrainingConfig(wandb_project="p"), 0, 0) as log:
        log.write(0, 0.1, REPORT, weights())
    assert logged[0][0] == 0
    assert logged[0][1]["learning_rate"] == 0.1
    assert logged[0][1]["not_private/loss"] == 0.5


@pytest.mark.parametrize(
    ("module", "settings"),
    [("wandb", {"wandb_project": "p"}), ("torch.utils.tensorboard", {"tensorboard": True})],
)
def test_a_logger_that_is_not_installed_is_named(tmp_path, monkeypatch, module, settings):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependency, match="must be installed"):
        MetricsLog(RunFolder(tmp_path), TrainingConfig(**settings), 0, 0)
    json.dumps(settings)
