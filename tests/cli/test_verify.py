"""``reldp verify`` passes on good runs and exits with 3 on tampering."""

import json

import torch

from reldp.cli.main import main
from reldp.training import Trainer
from tests.training.small import small_parts

torch.set_num_threads(1)


def test_a_good_run_passes_and_an_edited_one_fails_in_one_line(tmp_path, capsys):
    Trainer(*small_parts()).fit(tmp_path / "run")
    assert main(["verify", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out.count("ok  ") == 9
    assert main(["verify", str(tmp_path / "run"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["verified"]
    assert printed["epsilon"] > 0
    plan = tmp_path / "run" / "plan.json"
    plan.write_text(plan.read_text().replace('"noise_multiplier": 2.0', '"noise_multiplier": 2.5'))
    assert main(["verify", str(tmp_path / "run")]) == 3
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "plan.json is not the plan" in said[0]


def test_a_folder_that_is_no_run_is_refused(tmp_path, capsys):
    assert main(["verify", str(tmp_path)]) == 2
    assert "must hold ledger.jsonl" in capsys.readouterr().err
