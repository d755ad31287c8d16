"""A few killed runs end with the same bits, each step and each run counted once."""

import json
import subprocess
import sys


def test_killed_runs_end_as_if_nothing_had_happened():
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.soak", "--kills", "8", "--seed", "5"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    found = json.loads(done.stdout)
    assert found["failures"] == []
    assert found["kills"] >= 8
    assert sum(found["kills by phase"].values()) == found["kills"]
    assert found["runs"] > 0
