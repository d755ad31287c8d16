"""``reldp demo`` at a tiny size; the real one is scripts/demo."""

import json

import pytest
import torch

import reldp.training.demo
from reldp.cli.main import main
from tests.training.test_demo import tiny_settings

torch.set_num_threads(1)


@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
def test_the_demo_prints_a_table_the_promise_and_one_last_json_line(tmp_path, capsys, monkeypatch):
    settings = tiny_settings(tmp_path)
    monkeypatch.setattr(reldp.training.demo, "DemoSettings", lambda: settings)
    assert main(["demo", "-o", str(tmp_path / "demo"), "--steps", "2", "--json"]) == 0
    out = capsys.readouterr().out
    assert "Proven, under the assumptions of the certificate: (" in out
    assert "without privacy" in out
    assert "reldp verify" in out
    last = json.loads(out.splitlines()[-1])
    for arm in ("base", "private", "nonprivate"):
        assert set(last[arm]) >= {"prec@1", "mrr"}
    assert last["epsilon"] <= 4
    assert main(["verify", str(tmp_path / "demo" / "cls-private")]) == 0


def test_the_real_demo_goes_from_nouns_to_verbs_at_epsilon_four():
    from reldp.training.demo import DemoSettings

    settings = DemoSettings()
    assert settings.target_epsilon == 4
    assert settings.poolings[0] == "cls"
    assert (settings.train_graph, settings.test_graph) == ("wordnet-nouns", "wordnet-verbs")


def test_the_help_states_the_number_of_steps_of_the_settings(capsys):
    from reldp.training.demo import DemoSettings

    assert main(["demo", "--help"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    steps = DemoSettings().num_steps
    assert f"{steps['cls']} with cls pooling, {steps['mean']} with mean pooling" in page
