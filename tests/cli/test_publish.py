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


def test_a_bundle_stays_as_it_was_published(tmp_path, capsys):
    run, bundle = tmp_path / "run", tmp_path / "bundle"
    parts = small_parts()
    Trainer(*parts).fit(run)
    parts[1].graph.write(tmp_path / "graph")
    assert main(["publish", str(run), "-o", str(bundle)]) == 0
    before = {p: p.read_bytes() for p in bundle.rglob("*") if p.is_file()}
    test = ["--graph", str(tmp_path / "graph"), "--candidates", "5"]
    capsys.readouterr()
    assert main(["evaluate", str(bundle), *test]) == 0
    assert "the results are not stored" in capsys.readouterr().err
    assert main(["report", str(bundle), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["public"] is True
    assert {p: p.read_bytes() for p in bundle.rglob("*") if p.is_file()} == before
    assert main(["evaluate", str(run), *test]) == 0
    assert "not stored" not in capsys.readouterr().err
    assert (run / "evaluations.jsonl").exists()
    (bundle / "evaluations.jsonl").write_bytes((run / "evaluations.jsonl").read_bytes())
    assert main(["verify", str(bundle)]) == 0
    assert "for the owner alone, do not publish: evaluations.jsonl" in capsys.readouterr().out
