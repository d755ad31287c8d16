"""``reldp budget search`` makes a search in one command, and shows its epsilon before anything is spent."""

import json

import numpy as np
import pytest
import torch

from reldp.accounting.search import SearchSize
from reldp.cli.main import main
from reldp.graph import EntityGraph
from reldp.runs.budget import Budget
from tests.training.small import small_graph
from tests.training.test_selection import public_graph

torch.set_num_threads(1)
PLAN = [
    *("--set", "privacy.noise_multiplier=2", "--set", "privacy.num_steps=4"),
    *("--set", "privacy.delta=1e-4", "--set", "privacy.sizes=public", "--set", "data.max_degree=4"),
    *("--set", "privacy.num_negatives=3", "--set", "privacy.expected_batch_size=20"),
    *("--set", "performance.device=cpu"),
]


def test_a_search_from_the_price_to_the_published_run(tmp_path, capsys, monkeypatch):
    small_graph().write(tmp_path / "graph")
    public_graph().write(tmp_path / "public")
    graph, folder = str(tmp_path / "graph"), str(tmp_path / "search")
    words = ["budget", "search", graph, *PLAN, "--vary", "learning.learning_rate=[0.1, 0.5]"]
    assert main([*words, "--mean", "4", "--dry-run"]) == 2
    assert "must have a budget for a search" in capsys.readouterr().err
    assert main(["budget", "init", graph, "--limit", "30", "--delta", "1e-4"]) == 0
    empty = capsys.readouterr().out
    assert "No run is entered." in empty
    assert "noise" not in empty  # no header without a table
    assert main([*words, "--mean", "4", "--dry-run", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["one_run"] < shown["composition"]
    assert shown["runs"]["half"] < shown["runs"]["99 %"]
    assert main([*words, "--mean", "4", "--dry-run"]) == 0
    is_less = shown["composition"] < shown["epsilon"]
    assert (", composed, which is less: --runs 4\n" in capsys.readouterr().out) == is_less
    words += ["--eval-graph", str(tmp_path / "public"), "-o", folder]
    monkeypatch.setattr(SearchSize, "draw", lambda self: 2)
    capsys.readouterr()
    assert main([*words, "--mean", "4", "--json"]) == 0
    said = capsys.readouterr()
    released = json.loads(said.out)
    for name in ("epsilon", "status", "method", "holds_given"):
        assert released[name] == shown[name]
    assert (shown["status"], shown["holds_given"]) == ("computed", None)
    assert "step" not in said.err  # no line shows how many runs there were
    assert main(["publish", released["folder"], "-o", str(tmp_path / "bundle")]) == 0
    assert main(["verify", str(tmp_path / "bundle")]) == 0
    with Budget.open(tmp_path / "graph") as budget:
        assert len(budget.charges) == 1
    capsys.readouterr()
    assert main(["budget", "show", graph]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "4 expected" in text
    assert "Each search whose number of runs is secret has its own epsilon" in text


def test_bad_input_is_one_line_and_enters_nothing(tmp_path, capsys):
    small_graph().write(tmp_path / "graph")
    graph = str(tmp_path / "graph")
    assert main(["budget", "init", graph]) == 0
    capsys.readouterr()
    for more in (
        ["--mean", "4"],
        ["--mean", "4", "-o", str(tmp_path / "search")],
        ["--mean", "4", "--runs", "3"],
        [],
        ["--runs", "0"],
        ["--mean", "4", "--vary", "privacy.delta=[1]"],
        ["--mean", "4", "--vary", "learning.learning_rate"],
        ["--mean", "4", "--set", "data.eval_graph=" + graph, "-o", str(tmp_path / "search")],
    ):
        assert main(["budget", "search", graph, *PLAN, *more]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    # The words of `reldp train --dry-run`, with options that this command has.
    private = [*PLAN, "--set", "privacy.sizes=private", "--mean", "4", "--dry-run"]
    assert main(["budget", "search", graph, *private]) == 2
    said = capsys.readouterr().err
    assert "--dry-run must not release private sizes, which costs epsilon" in said
    assert "GRAPH --max-degree 4 --release-sizes first, or --set privacy.sizes=declared." in said
    with Budget.open(graph) as budget:
        assert budget.charges == []


def test_a_dry_run_refuses_the_graph_that_the_search_would_refuse(tmp_path, capsys):
    small_graph().write(tmp_path / "graph")
    small_graph().write(tmp_path / "same")
    graph = str(tmp_path / "graph")
    assert main(["budget", "init", graph]) == 0
    words = ["budget", "search", graph, *PLAN, "--mean", "4", "--dry-run", "--eval-graph"]
    capsys.readouterr()
    assert main([*words, str(tmp_path / "same")]) == 2
    assert "must be public" in capsys.readouterr().err
    public_graph().write(tmp_path / "public")
    assert main([*words, str(tmp_path / "public")]) == 0


@pytest.mark.parametrize(
    ("more", "reason"),
    [([], "`eval_graph` must be given"), (["--eval-graph"], "must have a budget for a search")],
)
def test_a_search_that_cannot_start_releases_no_sizes(tmp_path, capsys, more, reason):
    count = 3000
    features = np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)
    ring = [(i, (i + step) % count) for i in range(count) for step in (1, 2)]
    EntityGraph.from_lists(list(range(count)), ring, features=features).write(tmp_path / "graph")
    public_graph().write(tmp_path / "public")
    words = ["budget", "search", str(tmp_path / "graph"), "--set", "privacy.noise_multiplier=3"]
    words += ["--set", "privacy.num_steps=3", "--runs", "2", "-o", str(tmp_path / "search")]
    words += [*more, *([str(tmp_path / "public")] if more else [])]
    before = sorted(p.name for p in (tmp_path / "graph").iterdir())
    assert main([*words, "--vary", "learning.learning_rate=[0.1, 0.5]"]) == 2
    said = capsys.readouterr().err
    assert reason.replace("`eval_graph`", "--eval-graph") in said
    assert "released" not in said
    assert sorted(p.name for p in (tmp_path / "graph").iterdir()) == before
