"""``reldp report`` writes one page, of verified runs only."""

import json

import torch

from reldp.cli.main import main
from reldp.training import Trainer
from tests.training.small import small_parts

torch.set_num_threads(1)


def test_a_run_gets_its_page(tmp_path, capsys):
    run = tmp_path / "run"
    Trainer(*small_parts()).fit(run)
    assert main(["report", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"] == str(run / "report.html")
    assert main(["report", str(run), "--public"]) == 0
    assert "wrote" in capsys.readouterr().out
    (run / "certificate.md").write_text("All is well.")
    assert main(["report", str(run)]) == 3
    assert "failed verification" in capsys.readouterr().err
