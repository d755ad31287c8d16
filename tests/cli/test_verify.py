"""``reldp verify`` passes on good runs and exits with 3 on tampering."""

import json
import time
from dataclasses import replace

import torch

from reldp.cli.main import main
from reldp.reporting.privacy_curves import privacy_curves
from reldp.runs.run_folder import RunFolder, read_plan
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


def test_advice_fits_whoever_verifies(tmp_path, capsys):
    run, bundle = tmp_path / "run", tmp_path / "bundle"
    Trainer(*small_parts()).fit(run)
    assert main(["publish", str(run), "-o", str(bundle)]) == 0
    (run / "report.html").write_text("all is well")
    (bundle / "certificate.html").write_text("all is well")
    capsys.readouterr()
    for folder, words in (
        (run, "Rewrite it with reldp report."),
        (bundle, "Ask whoever published it"),
    ):
        assert main(["verify", str(folder)]) == 3
        said = capsys.readouterr().err
        assert words in said
        assert said.count("\n") == 1


def test_a_plan_of_more_steps_than_a_run_can_have_is_refused_soon(tmp_path, capsys):
    run = tmp_path / "run"
    Trainer(*small_parts(num_steps=2)).fit(run)
    plan = replace(read_plan(RunFolder(run)), num_steps=10**12)
    (run / "plan.json").write_text(plan.to_json() + "\n")
    began = time.monotonic()
    assert main(["verify", str(run)]) == 3
    assert "plan.json has 1,000,000,000,000 steps, and runs of at most" in capsys.readouterr().err
    assert time.monotonic() - began < 10


def test_what_takes_long_shows_how_far_it_is_without_a_mark(tmp_path, capsys, monkeypatch):
    """Nothing here depends on private data, so lines are not marked as sensitive."""
    monkeypatch.setattr("reldp.cli.progress.INTERVAL", 0.0)
    Trainer(*small_parts()).fit(tmp_path / "run")
    capsys.readouterr()
    for command in (["verify"], ["report"], ["publish", "-o", str(tmp_path / "bundle")]):
        privacy_curves.cache_clear()
        assert main([command[0], str(tmp_path / "run"), *command[1:]]) == 0
        lines = capsys.readouterr().err.splitlines()
        assert "reldp: verifying 50 %" in lines
        assert not any("(sensitive)" in line for line in lines)
        if command[0] == "report":
            assert "reldp: computing epsilon by delta 100 %" in lines
