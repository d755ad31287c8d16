"""``reldp budget`` shows what runs cost together; ``reldp train`` enters a run before it starts."""

import json

import torch

from reldp.cli.main import main
from reldp.plan import PrivacyPlan
from reldp.runs.budget import Budget
from tests.training.small import small_graph

torch.set_num_threads(1)

FLAGS = [
    *("--max-degree", "4", "--noise-multiplier", "2", "--num-steps", "6", "--delta", "1e-4"),
    *(
        "--num-negatives",
        "3",
        "--expected-batch-size",
        "20",
        "--sizes",
        "public",
        "--device",
        "cpu",
    ),
]


def train(graph, run, *more):
    return main(["train", str(graph), "-o", str(run), *FLAGS, *more])


def test_runs_are_entered_before_they_start_and_the_limit_refuses(tmp_path, capsys, monkeypatch):
    graph = tmp_path / "graph"
    small_graph().write(graph)
    assert train(graph, tmp_path / "free") == 0  # no budget, no entry
    plan = PrivacyPlan.from_json((tmp_path / "free" / "plan.json").read_text())
    limit = str(1.5 * plan.epsilon())
    assert main(["budget", "init", str(graph), "--limit", limit, "--delta", "1e-4"]) == 0
    capsys.readouterr()
    assert train(graph, tmp_path / "one") == 0
    assert "the run is entered in the budget" in capsys.readouterr().err
    assert train(graph, tmp_path / "one") == 0
    assert "the run was entered before" in capsys.readouterr().err
    assert main(["verify", str(tmp_path / "one")]) == 0
    assert main(["publish", str(tmp_path / "one"), "-o", str(tmp_path / "bundle")]) == 0
    assert not (tmp_path / "bundle" / "budget.json").exists()
    capsys.readouterr()
    while (code := train(graph, tmp_path / "more")) == 0:
        (tmp_path / "more").rename(tmp_path / f"more {len(list(tmp_path.iterdir()))}")
    said = capsys.readouterr().err
    assert code == 2
    assert "--budget must stay within epsilon" in said
    assert not (tmp_path / "more" / "ledger.jsonl").exists()
    assert main(["budget", "show", str(graph), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["epsilon"] <= shown["limit"]
    assert len(shown["entries"]) >= 2


def test_shared_budgets_and_named_ones(tmp_path, capsys):
    for name in ("one", "two"):
        small_graph(seed=len(name)).write(tmp_path / name)
    assert main(["budget", "init", str(tmp_path / "one")]) == 0
    assert "No run is entered." in capsys.readouterr().out
    assert main(["budget", "share", str(tmp_path / "two"), "--with", str(tmp_path / "one")]) == 0
    assert train(tmp_path / "two", tmp_path / "run") == 0
    (tmp_path / "other").mkdir()
    assert main(["budget", "init", str(tmp_path / "other")]) == 0
    assert train(tmp_path / "two", tmp_path / "run 2", "--budget", str(tmp_path / "other")) == 0
    for folder in ("one", "other"):
        with Budget.open(tmp_path / folder) as budget:
            assert len(budget.charges) == 1
    capsys.readouterr()
    assert main(["budget", "show", str(tmp_path / "two"), "--delta", "1e-4"]) == 0
    assert "for any one entity" in capsys.readouterr().out
    assert (
        main(["budget", "limit", str(tmp_path / "two"), "--limit", "1e-3", "--delta", "1e-4"]) == 2
    )
    assert "--limit must be at least" in capsys.readouterr().err


def test_a_search_is_shown_and_entered(tmp_path, capsys):
    plan = PrivacyPlan(
        num_entities=5000, num_relations=8000, max_degree=5, num_negatives=4, delta=1e-6,
        expected_batch_size=32.0, num_steps=60, noise_multiplier=1.0,
    )  # fmt: skip
    (tmp_path / "plan.json").write_text(plan.to_json())
    assert main(["budget", "init", str(tmp_path)]) == 0
    words = [
        "budget",
        "search",
        str(tmp_path),
        "--plan",
        str(tmp_path / "plan.json"),
        "--mean",
        "8",
    ]
    capsys.readouterr()
    assert main([*words, "--dry-run"]) == 0
    assert "Secret" not in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["num_runs"] >= 1
    assert shown["one_run"] < shown["epsilon"]
    with Budget.open(tmp_path) as budget:
        assert [charge.search.mean for charge in budget.charges] == [8.0]


def test_bad_input_is_one_line(tmp_path, capsys):
    (tmp_path / "bad.json").write_bytes(b"\xff")
    for words in (
        ["show", str(tmp_path)],
        ["init", str(tmp_path / "none")],
        ["init", str(tmp_path), "--limit", "3"],
        ["search", str(tmp_path), "--plan", str(tmp_path / "bad.json"), "--mean", "3"],
        ["search", str(tmp_path), "--plan", str(tmp_path / "none"), "--mean", "3"],
        ["nothing"],
    ):
        assert main(["budget", *words]) == 2
        assert capsys.readouterr().err.count("\n") == 1
