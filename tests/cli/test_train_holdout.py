"""``reldp train --holdout``: split, trained, evaluated, in the graph's budget, resumed as it was started."""

import json

import pytest
import torch

from reldp.cli.main import main
from reldp.graph import EntityGraph
from reldp.graph.holdout import Holdout
from reldp.graph.sizes import has_release
from reldp.graph.store import build_store
from reldp.runs.budget import Budget
from tests.cli.train_flags import errors
from tests.training.small import small_graph

torch.set_num_threads(1)

FLAGS = ["--max-degree", "4", "--num-negatives", "2", "--num-steps", "3"]
FLAGS += ["--expected-batch-size", "8", "--delta", "1e-4", "--holdout", "0.4"]
PRIVACY = ["--sizes", "public", "--noise-multiplier", "3"]


@pytest.fixture
def graph(tmp_path):
    small_graph().write(tmp_path / "graph")
    return str(tmp_path / "graph")


def test_results_are_shown_with_a_warning_and_another_holdout_does_not_resume(
    tmp_path, graph, capsys
):
    command = ["train", graph, "-o", str(tmp_path / "run"), *FLAGS, *PRIVACY]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    marked = [line for line in lines if line.startswith("reldp: (sensitive) ")]
    said = " ".join(" ".join(line.split()[2:]) for line in marked)
    assert "metric (percent) before after gain" in said
    assert "Sensitive: computed without noise" in said
    rest = " ".join(line for line in lines if line not in marked)
    assert "mrr" not in rest
    assert "held-out" not in rest
    assert main([*command, "--quiet"]) == 0
    assert "sensitive" not in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert set(printed["sensitive"]["holdout"]) == {"before", "after"}
    assert main([*command[: -len(PRIVACY)][:-1], "0.5", *PRIVACY]) == 2
    assert (
        "--holdout of a resumed run must be 0.4 with seed 0, with which it was started, got 0.5 with seed 0."
        in capsys.readouterr().err
    )


def test_the_run_and_the_release_are_entered_in_the_budget_of_the_whole_graph(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "state"))
    num = 3000
    ids = [f"e{i}" for i in range(num)]
    ring = [(ids[i], ids[(i + step) % num]) for i in range(num) for step in (1, 2)]
    features = small_graph().features.repeat(num // 300, axis=0)
    EntityGraph.from_lists(ids, ring, features=features).write(tmp_path / "graph")
    build_store(tmp_path / "graph", tmp_path / "store")
    Budget.create(tmp_path / "store").close()
    command = ["train", str(tmp_path / "store"), "-o", str(tmp_path / "run"), *FLAGS]
    assert main([*command, "--target-epsilon", "9"]) == 0
    with Budget.open(tmp_path / "store", read_only=True) as budget:
        (entry,) = [e for e in budget.entries if e.get("kind") == "run"]
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert dict(entry["plan"]) == plan
    assert plan["sizes"] == "private"
    train = Holdout.split(EntityGraph.read(tmp_path / "store"), 0.4).train.cap_degrees(4, 0)
    assert has_release(train, tmp_path / "store")
    assert not has_release(EntityGraph.read(tmp_path / "store").cap_degrees(4, 0))
    assert plan["num_relations"] < 2 * num  # of the training part, with its margin


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--holdout", "1.5"], "--holdout must be a number above 0 and below 1, got 1.5."),
        (["--holdout", "0.01"], "at least 20 relations between held-out entities"),
        (["--set", "data.holdout_seed=3"], "holdout_seed must be given with holdout only."),
    ],
)
def test_bad_values_are_one_line_and_leave_nothing(tmp_path, graph, capsys, flags, words):
    run = tmp_path / "run"
    assert main(["train", graph, "-o", str(run), *FLAGS[:-2], *PRIVACY, *flags]) == 2
    (line,) = errors(capsys.readouterr().err)
    assert words in line
    assert not (run / "ledger.jsonl").exists()


def test_inspect_releases_the_sizes_that_a_run_with_a_holdout_uses(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "state"))
    whole = small_graph()
    whole.write(tmp_path / "graph")
    command = ["inspect", str(tmp_path / "graph"), "--max-degree", "4", "--target-epsilon", "4"]
    assert main([*command, "--holdout", "0.4", "--sizes", "public", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    train = Holdout.split(whole, 0.4).train
    assert (
        main(["train", str(tmp_path / "graph"), *FLAGS, "--target-epsilon", "4", "--dry-run"]) == 2
    )
    assert (
        "reldp inspect GRAPH --max-degree 4 --holdout 0.4 --release-sizes"
        in capsys.readouterr().err
    )
    assert printed["num_entities"] == whole.num_entities
    assert printed["suggestion"]["sizes"]["min_entities"] == train.num_entities
