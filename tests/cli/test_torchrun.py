"""Commands under torchrun: one run, one certificate, printed once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reldp.cli.main import main
from reldp.cli.torchrun import num_processes, refuse_dry_run
from reldp.errors import ConfigError
from reldp.reporting import verify
from tests.training.ports import free_port
from tests.training.small import small_graph

ROOT = Path(__file__).parents[2]
ARGUMENTS = (
    *("train", "graph", "--target-epsilon", "8", "--num-steps", "12", "--max-degree", "4"),
    *("--expected-batch-size", "20", "--num-negatives", "3", "--json"),
)


def torchrun(home, *arguments, processes=2):
    """Run a command in some processes; return what they printed."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)),
            *("--master-port", str(free_port()), "-m", "reldp", *arguments),
        ],
        cwd=home,
        env=os.environ | {"PYTHONPATH": paths, "RELDP_STATE_DIR": str(home / "state")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    home = tmp_path_factory.mktemp("torchrun")
    small_graph().write(home / "graph")
    return home, torchrun(home, *ARGUMENTS)


def test_two_processes_train_one_run_and_one_of_them_prints(trained):
    home, done = trained
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["steps"]["counted"] == 12
    assert done.stderr.count("in 2 processes") == 1
    assert done.stderr.count("sizes are private") == 1
    (folder,) = [place for place in home.iterdir() if place.name.startswith("graph-")]
    assert verify(folder)
    assert not (folder / "key").exists()


def test_private_sizes_are_released_once(trained):
    home, _ = trained
    stored = json.loads((home / "graph" / "sizes.private.json").read_text())
    assert len(stored["releases"]) == 1


@pytest.mark.parametrize("command", ["audit", "demo", "inspect", "verify"])
def test_commands_for_one_process_are_refused_in_several(monkeypatch, capsys, command):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main([command, "--help"]) == 2
    assert f"reldp {command} must run in one process, got 2" in capsys.readouterr().err
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert main([command, "--help"]) == 0


@pytest.mark.parametrize("name", ["MAX_RESTARTS", "RESTART_COUNT"])
def test_restarts_need_a_folder_or_each_would_be_a_run_of_its_own(
    tmp_path, monkeypatch, capsys, name
):
    monkeypatch.chdir(tmp_path)
    small_graph().write(tmp_path / "graph")
    monkeypatch.setenv(f"TORCHELASTIC_{name}", "2")
    before = sorted(tmp_path.iterdir())
    assert main([*ARGUMENTS]) == 2
    assert "--output must be given where torchrun restarts processes" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


def test_a_dry_run_is_for_one_process(monkeypatch):
    refuse_dry_run(1)
    with pytest.raises(ConfigError, match="`dry_run` must be used in one process, got 2"):
        refuse_dry_run(2)
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert num_processes() == 1  # not of torchrun
    monkeypatch.setenv("RANK", "0")
    assert num_processes() == 4
