"""``reldp demo`` at a tiny size; the real one is scripts/demo."""

import json

import pytest
import torch

import reldp.training.demo
from reldp.cli.main import main
from tests.training.test_demo import tiny_settings

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    settings = tiny_settings(tmp_path)
    monkeypatch.setattr(reldp.training.demo, "DemoSettings", lambda: settings)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "reldp-demo"


def test_the_demo_says_what_was_promised_gained_and_written(tiny, capsys):
    assert main(["demo", "--steps", "2", "--json"]) == 0
    out, err = capsys.readouterr()
    heads = ["What was promised", "What was gained", "Where it is", "Try next"]
    places = [out.index(head) for head in heads]
    assert places == sorted(places)
    promise = " ".join(out[: places[1]].split())
    assert "(epsilon 4, delta 0.0006" in promise
    assert "a factor of at most 54.6: an even guess becomes at most 98.3 % sure" in promise
    assert "gain, in points" in out
    assert "without privacy" not in out
    last = json.loads(out.splitlines()[-1])
    assert last["num_steps"] == 2
    assert set(last["private"]) == set(last["base"]) == {"prec@1", "mrr", "intervals"}
    value, low, high = last["gain"]["mrr"]
    assert low <= value <= high
    assert value == pytest.approx(last["private"]["mrr"] - last["base"]["mrr"])
    assert last["epsilon"] <= 4
    assert all(f"s  {phase}" in err for phase in last["phases"])
    assert len(last["phases"]) == 7
    assert last["seconds"] == pytest.approx(sum(last["phases"].values()), abs=0.1)
    assert json.loads((tiny / "demo.json").read_text())["made_by"] == "reldp demo"
    for file in ("model/model.safetensors", "certificate.md", "report.html"):
        assert (tiny / "run" / file).is_file()
    report = (tiny / "run" / "report.html").read_text()
    assert "mrr, before training" in report
    commands = [line.split() for line in out[places[3] :].splitlines() if "reldp " in line][:3]
    assert [words[1] for words in commands] == ["verify", "evaluate", "train"]
    assert main(commands[0][1:]) == 0
    assert main(["demo"]) == 2
    assert "--overwrite" in capsys.readouterr().err


def test_comparisons_are_made_on_request_and_results_replaced_on_request(tiny, capsys):
    tiny.mkdir()
    assert main(["demo", "--overwrite", "--compare", "--steps", "2", "--json"]) == 0
    out = capsys.readouterr().out
    for words in ("without privacy", "infinite", "base model, cls"):
        assert words in out
    compared = json.loads(out.splitlines()[-1])["compare"]
    assert compared["no-privacy"]["epsilon"] == "Infinity"
    assert compared["epsilon-1"]["epsilon"] <= 1
    assert compared["cls-pooling"]["base"]["mrr"] >= 0


def test_a_model_that_cannot_be_used_is_refused(tiny, capsys):
    assert main(["demo", "--model", "no/such/folder"]) == 2
    assert "no/such/folder" in capsys.readouterr().err


def test_the_help_states_the_number_of_steps_of_the_settings(capsys):
    from reldp.training.demo import DemoSettings

    assert main(["demo", "--help"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert f"(default: {DemoSettings().num_steps})" in page
    assert "reldp-demo" in page
