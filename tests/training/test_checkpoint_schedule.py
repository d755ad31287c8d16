"""Checkpoints come by steps, and more often where public rows show that steps are slow."""

import pytest
import torch

from reldp.processes import Processes
from reldp.runs.ledger import read_ledger
from reldp.runs.run_folder import RunFolder
from reldp.training import Trainer, checkpoint_schedule
from reldp.training.checkpoint_schedule import CheckpointSchedule
from reldp.training.config import LoggingSettings
from reldp.training.estimate import StepEstimate
from tests.training.small import small_parts

torch.set_num_threads(1)


def slow(monkeypatch, seconds):
    found = StepEstimate(
        microbatch_seconds=seconds, num_microbatches=1, noise_seconds=0.0, peak_bytes=0
    )
    monkeypatch.setattr(checkpoint_schedule, "estimate_step", lambda step: found)


@pytest.mark.parametrize(
    ("seconds", "minutes", "steps"),
    [
        (0.01, 5, 100),
        (3.0, 5, 100),
        (3.1, 5, 64),
        (10, 5, 16),
        (400, 5, 1),
        (10, 1, 4),
        (99, 0, 100),
    ],
)
def test_the_interval_is_a_power_of_two_that_takes_at_most_the_time(
    monkeypatch, seconds, minutes, steps
):
    slow(monkeypatch, seconds)
    logging = LoggingSettings(checkpoint_minutes=minutes)
    made = checkpoint_schedule.checkpoint_schedule(logging, None)
    assert made.short_interval == steps
    assert made.interval == 100


def test_steps_are_reserved_up_to_the_next_checkpoint():
    schedule = CheckpointSchedule(interval=10, short_interval=4)
    due = [step for step in range(1, 26) if schedule.is_due(step, stop=25)]
    assert due == [4, 8, 10, 12, 16, 20, 24, 25]
    for step in range(24):
        after = step + schedule.steps_to_next(step)
        assert after == next(d for d in due if d > step)


def test_a_slow_run_saves_often_and_a_fast_one_by_steps(tmp_path, monkeypatch):
    named = {}
    for name, seconds in (("fast", 0.1), ("slow", 100.0)):
        slow(monkeypatch, seconds)
        Trainer(*small_parts(), checkpoint_every=5).fit(tmp_path / name)
        entries = read_ledger(RunFolder(tmp_path / name).ledger).entries
        named[name] = [e["step"] for e in entries if e["kind"] == "checkpoint"]
        reserved = [e["stop"] for e in entries if e["kind"] == "reserve"]
        assert reserved == named[name]
    assert named == {"fast": [5, 10, 12], "slow": [2, 4, 5, 6, 8, 10, 12]}


def test_all_processes_use_the_interval_of_the_first(monkeypatch):
    """They measure different times; one that saves at another step would wait for the others."""

    class Second(Processes):
        def from_first(self, make, about=""):
            return b"4"

    slow(monkeypatch, 30.0)
    monkeypatch.setattr(checkpoint_schedule, "join_processes", lambda: Second(1, 2))
    made = checkpoint_schedule.checkpoint_schedule(LoggingSettings(checkpoint_minutes=5), None)
    assert made.short_interval == 4
