"""Lines of metrics: nothing sensitive unless asked for, compared with what they replace."""

import math
from dataclasses import replace

import pytest
import torch

from reldp.errors import RunError
from reldp.runs.run_folder import RunFolder
from reldp.training.config import TrainingConfig
from reldp.training.metrics import MetricsLog, ReexecutionDiffers, progress_bar
from reldp.training.step_report import StepReport

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


SENSITIVE = TrainingConfig.make(log_sensitive=True)


def test_by_default_a_line_holds_nothing_that_depends_on_the_data_without_noise(tmp_path):
    run = RunFolder(tmp_path)
    with MetricsLog(run, TrainingConfig.make(), 0, 0) as log:
        log.write(0, 0.1, REPORT, weights())
    (line,) = run.read_lines(run.metrics)
    assert set(line) == {"step", "branch", "learning_rate", "weights"}


def test_what_is_written_does_not_depend_on_report_or_time(tmp_path, monkeypatch):
    """Byte for byte the same file, whatever the step met and however long it took."""
    files = []
    for index, report in enumerate((REPORT, replace(REPORT, num_tuples=9, loss=7.0))):
        run = RunFolder(tmp_path / str(index))
        run.path.mkdir()
        clock = iter(float(index + 3 * tick) for tick in range(100))
        monkeypatch.setattr("reldp.training.metrics.time.perf_counter", lambda c=clock: next(c))
        with MetricsLog(run, TrainingConfig.make(), 0, 0) as log:
            log.write(0, 0.1, report, weights())
        files.append(run.metrics.read_bytes())
    assert files[0] == files[1]


def test_asked_for_sensitive_values_are_marked_and_what_is_no_number_is_left_out(tmp_path, capsys):
    run = RunFolder(tmp_path)
    with MetricsLog(run, SENSITIVE, 0, 0) as log:
        assert "log_sensitive is on" in capsys.readouterr().err.splitlines()[0]
        log.write(0, 0.1, REPORT, weights())
    line = run.read_lines(run.metrics)[0]
    assert line["sensitive"].pop("seconds") >= 0
    assert line["sensitive"] == {
        "num_tuples": 3,
        "overflow": False,
        "loss": 0.5,
        "clipped_share": 0.25,
        "num_nonfinite": 0,
    }
    assert len(line["weights"]) == 16


def test_a_resumed_log_drops_later_lines_and_a_torn_one(tmp_path):
    run = RunFolder(tmp_path)
    with MetricsLog(run, TrainingConfig.make(), 0, 0) as log:
        for step in range(5):
            log.write(step, 0.1, REPORT, weights(step))
    with run.metrics.open("a") as file:
        file.write('{"step": 5, "bra')
    with MetricsLog(run, TrainingConfig.make(), 3, 0) as log:
        assert [line["step"] for line in run.read_lines(run.metrics)] == [0, 1, 2]
        log.write(3, 0.1, REPORT, weights(3))
        with pytest.raises(ReexecutionDiffers):
            log.write(4, 0.1, REPORT, weights(4.5))
    with MetricsLog(run, TrainingConfig.make(), 3, 1) as log:
        log.write(3, 0.1, REPORT, weights(9))  # another branch owes nothing to this one


def test_a_step_that_was_logged_is_compared_whatever_is_logged_now(tmp_path):
    run = RunFolder(tmp_path)
    with MetricsLog(run, TrainingConfig.make(), 0, 0) as log:
        log.write(3, 0.1, REPORT, weights(3))
    with (
        MetricsLog(run, TrainingConfig.make(log_every=2), 0, 0) as log,
        pytest.raises(ReexecutionDiffers),
    ):
        log.write(3, 0.1, REPORT, weights(4))


def test_weights_are_hashed_only_where_steps_repeat(tmp_path):
    run = RunFolder(tmp_path)
    with MetricsLog(run, TrainingConfig.make(device="cuda"), 0, 0) as log:
        log.write(0, 0.1, REPORT, weights())
    assert run.read_lines(run.metrics)[0]["weights"] == ""


def test_lines_come_every_so_often(tmp_path):
    run = RunFolder(tmp_path)
    with MetricsLog(run, TrainingConfig.make(log_every=3), 0, 0) as log:
        for step in range(7):
            log.write(step, 0.1, REPORT, weights())
    assert [line["step"] for line in run.read_lines(run.metrics)] == [0, 3, 6]


def test_the_progress_bar_shows_steps_epsilon_and_rate(capsys):
    with progress_bar(True, 0, 4, lambda step: 0.5 * step) as advance:
        for step in range(1, 5):
            advance(step)
    said = capsys.readouterr().err
    assert "4/4" in said
    assert "epsilon <= 2" in said
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
    assert "infinite" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line", ["{}", '{"step": "0", "branch": 0, "weights": ""}', '{"step": 0, "branch": 0}']
)
def test_lines_that_no_run_wrote_are_refused(tmp_path, line):
    run = RunFolder(tmp_path)
    run.metrics.write_text(line + "\n")
    with pytest.raises(RunError, match=r"metrics\.jsonl must hold the lines that the run wrote"):
        MetricsLog(run, TrainingConfig.make(), 0, 0)
