"""Without a terminal there is a line every 30 seconds, and none for a short run."""

import math

import pytest

from reldp.training import log_lines as module
from reldp.training.log_lines import log_lines


def run(monkeypatch, seconds_per_step, steps, spent=lambda step: step / 100):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    with log_lines(0, steps, spent) as advance:
        for step in range(1, steps + 1):
            now[0] += seconds_per_step
            advance(step)


def test_lines_come_every_30_seconds_and_at_the_end(monkeypatch, capsys):
    run(monkeypatch, 10.0, 8)
    lines = capsys.readouterr().err.splitlines()
    assert "sensitive" in lines.pop(0)
    assert [line.partition(",")[0] for line in lines] == [
        "reldp: (sensitive) step 3 of 8",
        "reldp: (sensitive) step 6 of 8",
        "reldp: (sensitive) step 8 of 8",
    ]
    assert lines[0].endswith("about 0.1 steps/s, 50 s left, epsilon <= 0.03")


def test_lines_are_coarse_and_epsilon_covers_the_steps_that_are_hidden(monkeypatch, capsys):
    run(monkeypatch, 0.37, 2500, spent=float)
    lines = capsys.readouterr().err.splitlines()[1:]
    assert all(line.startswith("reldp: (sensitive) step ") for line in lines)
    assert lines[0] == (
        "reldp: (sensitive) step 75 of 2,500, about 3 steps/s, 14 min left, epsilon <= 100"
    )  # step 82, 2.7 steps/s, 806 s at 3 steps/s
    assert lines[-1].startswith("reldp: (sensitive) step 2,500 of 2,500, about 3 steps/s, 0 s left")
    # The control: steps that the exact lines would show.
    assert all(int(line.split()[3].replace(",", "")) % 25 == 0 for line in lines)


def test_epsilon_is_rounded_up(monkeypatch, capsys):
    run(monkeypatch, 40.0, 1, spent=lambda step: 3.00041)
    assert capsys.readouterr().err.endswith("epsilon <= 3.001\n")


def test_a_short_run_prints_nothing(monkeypatch, capsys):
    run(monkeypatch, 0.1, 20)
    assert capsys.readouterr().err == ""


def test_lines_are_ascii_and_a_closed_log_does_not_stop_training(monkeypatch, capsys):
    run(monkeypatch, 40.0, 2, spent=lambda step: math.inf)
    assert capsys.readouterr().err.isascii()

    def closed(*arguments, **options):
        raise BrokenPipeError

    monkeypatch.setattr("builtins.print", closed)
    run(monkeypatch, 40.0, 3)


@pytest.mark.parametrize(
    ("seconds", "words"), [(3, "10 s"), (75, "80 s"), (121, "3 min"), (7260, "3 h")]
)
def test_times_are_in_words(seconds, words):
    assert module._duration(seconds) == words
