"""The tool that times the demo in fresh clones, on a clone whose demo only prints."""

import json
import subprocess

import pytest
from benchmarks.demo import measure

RESULT = {
    "phases": {"training": 1.5},
    "seconds": 1.5,
    "epsilon": 4.0,
    "delta": 1e-5,
    "base": {"mrr": 0.5},
    "private": {"mrr": 0.6},
    "gain": {"mrr": [0.1, 0.05, 0.15]},
    "test_relations": 8,
}


@pytest.fixture
def repository(tmp_path):
    place = tmp_path / "repository"
    (place / "scripts").mkdir(parents=True)
    demo = place / "scripts" / "demo"
    line = f"echo '{json.dumps(RESULT)}'"
    demo.write_text(f"#!/usr/bin/env bash\necho words\npwd >&2\n{line}\n")
    demo.chmod(0o755)
    for command in (
        ["init", "-q"],
        ["add", "scripts/demo"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "demo"],
    ):
        subprocess.run(["git", *command], cwd=place, check=True)
    return place


def test_times_and_results_of_a_fresh_clone_are_returned(repository):
    result = measure(repository)
    assert result["phases"] == RESULT["phases"]
    assert result["gain"] == RESULT["gain"]
    assert len(result["commit"]) == 40
    assert result["installation_seconds"] < 60


def test_a_demo_that_fails_is_no_result(repository):
    (repository / "scripts" / "demo").write_text("#!/usr/bin/env bash\nexit 1\n")
    commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "fails"]
    subprocess.run(["git", *commit], cwd=repository, check=True)
    with pytest.raises(subprocess.CalledProcessError):
        measure(repository)
