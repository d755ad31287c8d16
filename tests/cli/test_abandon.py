"""``reldp abandon`` destroys the key and says what stays spent."""

import json

import pytest
import torch

from reldp.cli.main import main
from reldp.runs.run_folder import RunFolder, read_plan
from tests.training.interrupted import failing_at, stopped
from tests.training.small import small_graph, small_parts

torch.set_num_threads(1)


def test_the_epsilon_that_stays_spent_is_printed(tmp_path, monkeypatch, capsys):
    run = stopped(monkeypatch, tmp_path / "run", *small_parts())
    assert main(["abandon", str(run)]) == 0
    assert "that of all planned steps" in capsys.readouterr().out
    assert not (run / "key").exists()
    assert main(["abandon", str(run), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["steps"] == 8
    plan = read_plan(RunFolder(run))
    assert printed["epsilon"] == plan.epsilon()  # the decision may have been made by results
    assert printed["epsilon_of_steps"] == plan.epsilon(num_steps=8)
    assert main(["verify", str(run)]) == 3
    assert "The run was abandoned" in capsys.readouterr().err
    assert main(["abandon", str(tmp_path)]) == 2


@pytest.mark.parametrize("command", ["abandon", "finish"])
def test_a_key_that_was_overwritten_and_not_removed_is_none(tmp_path, monkeypatch, capsys, command):
    """A kill between the two leaves 32 zeros, with which everybody could compute the noise."""
    small_graph().write(tmp_path / "graph")
    run = tmp_path / "run"
    flags = ["--max-degree", "4", "--num-negatives", "2", "--num-steps", "12", "--delta", "1e-4"]
    flags += ["--expected-batch-size", "8", "--sizes", "public", "--noise-multiplier", "3"]
    train = ["train", str(tmp_path / "graph"), "-o", str(run), *flags, "--checkpoint-every", "4"]
    end = [command, str(run), *(["--decided-by", "time"] if command == "finish" else [])]
    with monkeypatch.context() as patch:
        failing_at(patch, 6)
        assert main(train) == 70
    with monkeypatch.context() as patch:
        patch.setattr("reldp.runs.key.remove_durably", killed)
        assert main(end) == 130
    assert (run / "key").read_bytes() == bytes(32)
    before = (run / "ledger.jsonl").read_bytes()
    capsys.readouterr()
    assert main(train) == 2
    assert "what is left of one that was being destroyed" in capsys.readouterr().err
    assert (run / "ledger.jsonl").read_bytes() == before
    assert main(end) == 0
    assert not (run / "key").exists()
    assert main(["verify", str(run)]) == (0 if command == "finish" else 3)


@pytest.mark.parametrize("left", ["zeros", "none"])
def test_a_run_that_was_killed_while_it_completed_is_completed_by_the_same_command(
    tmp_path, monkeypatch, left
):
    small_graph().write(tmp_path / "graph")
    run = tmp_path / "run"
    flags = ["--max-degree", "4", "--num-negatives", "2", "--num-steps", "4", "--delta", "1e-4"]
    flags += ["--expected-batch-size", "8", "--sizes", "public", "--noise-multiplier", "3"]
    train = ["train", str(tmp_path / "graph"), "-o", str(run), *flags]
    with monkeypatch.context() as patch:
        where = (
            "reldp.runs.key.remove_durably" if left == "zeros" else "reldp.runs.session.file_hashes"
        )
        patch.setattr(where, killed)
        assert main(train) == 130
    assert (run / "key").exists() == (left == "zeros")
    assert main(["verify", str(run)]) == 3
    assert main(train) == 0
    assert not (run / "key").exists()
    assert main(["verify", str(run)]) == 0


def killed(path):
    raise KeyboardInterrupt
