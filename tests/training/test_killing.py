"""A run killed at any moment and resumed ends bit for bit like one that was left alone."""

import json
import os
import subprocess
import sys
import tempfile

import pytest

RUNS = 25


@pytest.fixture(scope="module")
def found():
    """25 trainings killed at random moments, and one killed at each way a flush can be cut off."""
    # A kill leaves the system's own memory of files alone, so a disk in memory shows the same.
    quick = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=quick) as home:
        done = subprocess.run(
            [sys.executable, "-m", "tests.training.killing", home, str(RUNS), "7"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_all_runs_killed_at_random_moments_end_with_the_same_bits(found):
    assert len(found["random"]) == RUNS
    for run in found["random"]:
        assert run["weights"] == found["whole"]["weights"]
        assert run["files"] == found["whole"]["files"]


def test_every_run_really_was_killed(found):
    assert all(run["kills"] > 0 for run in found["random"])
    assert sum(run["kills"] for run in found["random"]) > RUNS


def test_runs_killed_at_every_kind_of_flush_end_with_the_same_bits(found):
    assert len(found["flushes"]) >= 25
    for run in found["flushes"]:
        assert run["weights"] == found["whole"]["weights"]
        assert run["files"] == found["whole"]["files"]


def test_the_ledger_is_exact_and_nothing_is_left_lying_about(found):
    for run in [found["whole"], *found["random"], *found["flushes"]]:
        assert run["counted"] == 40
        assert run["branches"] == 1
        assert run["metrics"]
        assert not run["key"]
        assert not run["left"]
