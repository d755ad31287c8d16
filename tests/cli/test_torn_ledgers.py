"""A crash may leave half a line at the end of a ledger: commands go on as if it were not there."""

import json

import pytest
import torch

from reldp.cli.main import main
from tests.training.interrupted import failing_at
from tests.training.small import small_graph

torch.set_num_threads(1)

FLAGS = [
    "--max-degree",
    "4",
    "--num-negatives",
    "2",
    "--num-steps",
    "12",
    "--expected-batch-size",
    "8",
]
FLAGS += [
    "--delta",
    "1e-4",
    "--sizes",
    "public",
    "--noise-multiplier",
    "3",
    "--checkpoint-every",
    "4",
]
TAILS = {"half": b'{"branch":0,"first":20,"hash":"d4145', "zeros": bytes(4096)}


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
@pytest.mark.parametrize("at", [0, 6])
@pytest.mark.parametrize("holdout", [[], ["--holdout", "0.4"]], ids=["whole", "holdout"])
def test_the_same_command_goes_on(tmp_path, monkeypatch, capsys, tail, at, holdout):
    small_graph().write(tmp_path / "graph")
    run = tmp_path / "run"
    command = ["train", str(tmp_path / "graph"), "-o", str(run), *FLAGS, *holdout]
    with monkeypatch.context() as patch:
        failing_at(patch, at)
        assert main(command) == 70
    whole = (run / "ledger.jsonl").read_bytes()
    (run / "ledger.jsonl").write_bytes(whole + tail)
    capsys.readouterr()
    assert main(["verify", str(run)]) == 3
    assert "Run the interrupted command again" in capsys.readouterr().err
    assert main(command) == 0
    now = (run / "ledger.jsonl").read_bytes()
    assert now.startswith(whole)
    assert tail not in now
    assert main(["verify", str(run)]) == 0


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
@pytest.mark.parametrize("command", ["train", "audit", "finish", "abandon"])
def test_other_commands_go_on_too(tmp_path, monkeypatch, capsys, tail, command):
    small_graph().write(tmp_path / "graph")
    run = tmp_path / "run"
    train = ["train", str(tmp_path / "graph"), "-o", str(run), *FLAGS]
    with monkeypatch.context() as patch:
        if command in ("finish", "abandon"):
            failing_at(patch, 6)
        assert main(train) in (0, 70)
    with (run / "ledger.jsonl").open("ab") as ledger:
        ledger.write(tail)
    commands = {
        "train": train,
        "audit": ["audit", str(run), "--trials", "200"],
        "finish": ["finish", str(run), "--decided-by", "time"],
        "abandon": ["abandon", str(run)],
    }
    assert main(commands[command]) == 0
    lines = (run / "ledger.jsonl").read_bytes().split(b"\n")
    assert not lines.pop()
    assert all(json.loads(line)["hash"] for line in lines)
