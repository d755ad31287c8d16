"""A process of a group killed at any moment ends the run everywhere; resumed, it ends bit for bit as if nothing was."""

import json
import os
import subprocess
import sys
import tempfile

import pytest

KILLS = 6


@pytest.fixture(scope="module")
def found():
    quick = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=quick) as home:
        done = subprocess.run(
            [sys.executable, "-m", "tests.training.killing_groups", home, str(KILLS), "3"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_first_and_other_processes_were_killed_and_nobody_went_on_alone(found):
    assert len(found["killed"]) >= KILLS
    assert {victim for _, victim, _ in found["killed"]} >= {0, 1}
    for size, victim, codes in found["killed"]:
        assert len(codes) == size
        assert codes[victim] == "killed"


def test_all_runs_end_with_the_same_bits_and_every_step_counted_once(found):
    assert found["runs"]
    for run in found["runs"]:
        assert run == found["whole"]
    assert found["whole"]["counted"] == 40
    assert found["whole"]["branches"] == 1
    assert found["whole"]["metrics"]
    assert not found["whole"]["key"]
    assert not found["whole"]["left"]
