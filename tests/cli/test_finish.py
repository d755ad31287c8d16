"""``reldp finish`` certifies a stopped run in one command, without its graph."""

import json

import torch

from reldp.cli.main import main
from tests.reporting.killed import killed_writing
from tests.training.interrupted import stopped
from tests.training.small import small_parts

torch.set_num_threads(1)


def test_a_stopped_run_is_certified_and_verifies(tmp_path, monkeypatch, capsys):
    run = str(stopped(monkeypatch, tmp_path / "run", *small_parts()))
    (tmp_path / "run" / "checkpoints" / "step-000000009.safetensors.partial").touch()  # kill -9
    assert main(["finish", run, "--decided-by", "result", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["steps"]["stopped_at"] == 4
    assert printed["status"] == "proven"
    assert main(["verify", run]) == 0
    assert main(["finish", run]) == 0
    assert "8 counted of 12 planned" in capsys.readouterr().out
    assert main(["finish", run, "--decided-by", "steps"]) == 2
    assert "--decided-by must be what the ledger says, result, got steps" in capsys.readouterr().err


def test_a_folder_without_a_run_is_bad_input(tmp_path, capsys):
    for arguments in ([], ["--model", "x"]):
        assert main(["finish", str(tmp_path), *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_killed_end_is_finished_by_the_next_one(tmp_path, monkeypatch, capsys):
    run = stopped(monkeypatch, tmp_path / "run", *small_parts())
    command = ["finish", str(run), "--decided-by", "time"]
    for name in ("certificate.json", "certificate.md", "model/README.md"):
        partial = killed_writing(run / name, *command)
        assert main(["verify", str(run)]) == 3
        assert main(command) == 0
        assert not partial.exists()
        assert main(["verify", str(run)]) == 0
    assert main(["report", str(run)]) == 0
    for name in ("report.html", "certificate.html", "budget.json"):
        (run / f"{name}.partial").touch()
    (run / "other.partial").touch()
    assert main(command) == 0
    assert [p.name for p in run.glob("*.partial")] == ["other.partial"]
    (run / "other.partial").unlink()
    assert main(["verify", str(run)]) == 0
