"""``reldp abandon`` destroys the key and says what stays spent."""

import json

import torch

from reldp.cli.main import main
from reldp.runs.run_folder import RunFolder, read_plan
from tests.training.interrupted import stopped
from tests.training.small import small_parts

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
