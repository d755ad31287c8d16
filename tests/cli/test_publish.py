"""``reldp publish`` writes a bundle that verifies, and prints the head to note."""

import json

import torch

from reldp.cli.main import main
from reldp.training import Trainer
from tests.training.small import small_parts

torch.set_num_threads(1)


def test_a_bundle_is_written_and_its_head_printed(tmp_path, capsys):
    Trainer(*small_parts()).fit(tmp_path / "run")
    assert main(["publish", str(tmp_path / "run"), "-o", str(tmp_path / "bundle"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert main(["verify", str(tmp_path / "bundle"), "--head", printed["ledger_head"]]) == 0
    assert "the ledger's head is the one that was noted" in capsys.readouterr().out
    assert main(["verify", str(tmp_path / "bundle"), "--head", "0" * 64]) == 3
    assert main(["verify", str(tmp_path / "bundle"), "--head", "0"]) == 2
    assert "--head must be 64 hexadecimal digits" in capsys.readouterr().err
    assert main(["publish", str(tmp_path / "run"), "-o", str(tmp_path / "bundle")]) == 2
    assert "--output must be a new folder" in capsys.readouterr().err
    assert main(["publish", str(tmp_path / "run"), "-o", str(tmp_path / "again")]) == 0
    assert f"--head {printed['ledger_head']}" in capsys.readouterr().out
