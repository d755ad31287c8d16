"""``reldp budget`` shows what runs cost together; ``reldp train`` enters a run before it starts."""

import json
import shutil

import pytest
import torch

from reldp.auditing.run_audit import audit_canaries
from reldp.cli.budget import run_note
from reldp.cli.main import main
from reldp.cli.output import round_up
from reldp.encoders import FeatureEncoder
from reldp.errors import PlanError, ResumeError
from reldp.graph import EntityGraph
from reldp.plan import PrivacyPlan
from reldp.runs.budget import Budget
from reldp.runs.run_folder import RunFolder
from reldp.training import PrivateStep, Trainer
from reldp.training.callbacks import TrainingCallback, TrainingStopped
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


def test_a_note_says_what_was_spent_at_the_delta_of_the_limit(tmp_path):
    plan = PrivacyPlan(
        num_entities=10_000,
        num_relations=20_000,
        max_degree=2,
        num_negatives=3,
        expected_batch_size=10,
        num_steps=5,
        noise_multiplier=4,
        delta=1e-6,
    )
    with Budget.create(tmp_path) as budget:
        budget.enter_run("0" * 32, plan)
    assert "at delta 1e-06 was spent before." in run_note(tmp_path, plan)
    with Budget.open(tmp_path) as budget:
        budget.set_limit(9.0, 1e-3)
        spent = round_up(budget.epsilon(1e-3))
    note = run_note(tmp_path, plan)
    assert f"epsilon {spent} at delta 0.001 was spent before. Its limit is epsilon 9" in note


def test_runs_are_entered_before_they_start_and_the_limit_refuses(tmp_path, capsys, monkeypatch):
    graph = tmp_path / "graph"
    small_graph().write(graph)
    assert train(graph, tmp_path / "free") == 0  # no budget, no entry
    plan = PrivacyPlan.from_json((tmp_path / "free" / "plan.json").read_text())
    limit = str(1.5 * plan.epsilon())
    assert main(["budget", "init", str(graph), "--limit", limit, "--delta", "1e-4"]) == 0
    capsys.readouterr()
    assert train(graph, tmp_path / "one") == 0
    said = capsys.readouterr().err
    assert "the run will be entered in the budget" in said
    assert "where epsilon 0 at delta 0.0001 was spent before. Its limit is epsilon" in said
    assert train(graph, tmp_path / "one") == 0
    with Budget.open(graph) as budget:
        assert len(budget.charges) == 1
    (tmp_path / "other").mkdir()
    assert main(["budget", "init", str(tmp_path / "other")]) == 0
    assert train(graph, tmp_path / "around", "--budget", str(tmp_path / "other")) == 2
    assert "--budget must be that of the graph" in capsys.readouterr().err
    assert main(["verify", str(tmp_path / "one")]) == 0
    assert main(["publish", str(tmp_path / "one"), "-o", str(tmp_path / "bundle")]) == 0
    assert not (tmp_path / "bundle" / "budget.json").exists()
    capsys.readouterr()
    while (code := train(graph, tmp_path / "more")) == 0:
        (tmp_path / "more").rename(tmp_path / f"more {len(list(tmp_path.iterdir()))}")
    said = capsys.readouterr().err
    assert code == 2
    assert "The budget must stay within epsilon" in said
    assert not (tmp_path / "more").exists()
    # Without noise no limit holds, and the default delta, 0.1 / 300 entities, shows their exact number.
    bare = ["train", str(graph), "--no-privacy", "--num-steps", "2", "-o", str(tmp_path / "bare")]
    assert main(bare) == 2
    said = capsys.readouterr().err
    assert "got infinite with this run, which adds no noise" in said
    assert "0.0003" not in said
    assert "with an infinite epsilon" in said
    assert main(["budget", "show", str(graph), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["epsilon"] <= shown["limit"]
    assert shown["limit_delta"] == 1e-4
    first = shown["entries"][0]
    assert (first["purpose"], first["steps"], first["noise_multiplier"], first["runs"]) == (
        "train",
        6,
        2.0,
        1,
    )
    assert not {"plan", "token", "salt", "release"} & set(first)
    assert len(shown["entries"]) >= 2


def test_shared_budgets_named_ones_and_past_runs(tmp_path, capsys):
    for name in ("one", "two", "three"):
        small_graph(seed=len(name)).write(tmp_path / name)
    assert train(tmp_path / "one", tmp_path / "past") == 0
    assert main(["budget", "init", str(tmp_path / "one")]) == 0
    assert "No run is entered." in capsys.readouterr().out
    assert main(["budget", "share", str(tmp_path / "two"), "--with", str(tmp_path / "one")]) == 0
    for _ in range(2):
        assert main(["budget", "enter", str(tmp_path / "two"), str(tmp_path / "past")]) == 0
    assert train(tmp_path / "two", tmp_path / "run") == 0
    assert train(tmp_path / "three", tmp_path / "run 3", "--budget", str(tmp_path / "one")) == 0
    with Budget.open(tmp_path / "one") as budget:
        assert len(budget.charges) == 3
    capsys.readouterr()
    assert main(["budget", "show", str(tmp_path / "two"), "--delta", "1e-4"]) == 0
    assert "for any one entity that all runs protect" in capsys.readouterr().out
    assert (
        main(["budget", "limit", str(tmp_path / "two"), "--limit", "1e-3", "--delta", "1e-4"]) == 2
    )
    assert "--limit must be at least" in capsys.readouterr().err


def test_trainers_loops_and_audits_are_entered_without_being_asked(tmp_path):
    small_graph().write(tmp_path / "graph")
    Budget.create(tmp_path / "graph").close()
    capped = EntityGraph.read(tmp_path / "graph").cap_degrees(4, seed=0)
    plan = PrivacyPlan.for_graph(
        capped, sizes="public", num_steps=2, noise_multiplier=3.0, num_negatives=3,
        expected_batch_size=20, delta=1e-4,
    )  # fmt: skip
    Trainer(FeatureEncoder.for_graph(capped), capped, plan, device="cpu").fit(tmp_path / "run")
    step = PrivateStep(FeatureEncoder.for_graph(capped), capped, plan)
    with step.record(tmp_path / "loop") as record:
        for _ in record:
            record.backward()
    audit_canaries(RunFolder(tmp_path / "run"), capped.graph, num_canaries=20)
    with Budget.open(tmp_path / "graph") as budget:
        entered = [e for e in budget.entries if e["kind"] == "run"]
        assert [e["purpose"] for e in entered] == ["train", "train", "audit"]
        budget.set_limit(budget.epsilon(1e-4) * 1.001, 1e-4)
    for start in (
        lambda: Trainer(FeatureEncoder.for_graph(capped), capped, plan).fit(tmp_path / "more"),
        lambda: (
            PrivateStep(FeatureEncoder.for_graph(capped), capped, plan)
            .record(tmp_path / "more")
            .__enter__()
        ),
        lambda: audit_canaries(RunFolder(tmp_path / "run"), capped.graph, num_canaries=20),
    ):
        with pytest.raises(PlanError, match="The budget must stay within"):
            start()
    assert not (tmp_path / "more" / "ledger.jsonl").exists()


def test_a_copy_that_is_continued_in_another_branch_is_refused(tmp_path, capsys):
    graph, run, copy = tmp_path / "graph", tmp_path / "run", tmp_path / "copy"
    small_graph().write(graph)
    assert main(["budget", "init", str(graph)]) == 0
    capped = EntityGraph.read(graph).cap_degrees(4, seed=0)
    plan = PrivacyPlan.for_graph(
        capped, sizes="public", num_steps=6, noise_multiplier=3.0, num_negatives=3,
        expected_batch_size=20, delta=1e-4,
    )  # fmt: skip

    class Stop(TrainingCallback):
        def on_step_end(self, progress, requests):
            requests.stop = progress.step == 3

    def trainer(threads, callbacks=()):
        encoder = FeatureEncoder.for_graph(capped)
        return Trainer(encoder, capped, plan, device="cpu", threads=threads, callbacks=callbacks)

    with pytest.raises(TrainingStopped):
        trainer(1, [Stop()]).fit(run)
    shutil.copytree(run, copy)
    trainer(2).fit(copy)  # other bits, a new branch
    with pytest.raises(ResumeError, match="copied before, or put back"):
        trainer(1).fit(run)
    capsys.readouterr()


def test_bad_input_is_one_line(tmp_path, capsys):
    (tmp_path / "bad.json").write_bytes(b"\xff")
    for words in (
        ["show", str(tmp_path)],
        ["init", str(tmp_path / "none")],
        ["init", str(tmp_path), "--limit", "3"],
        ["enter", str(tmp_path), str(tmp_path / "none")],
        ["nothing"],
    ):
        assert main(["budget", *words]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_run_that_is_refused_after_its_sizes_were_released_says_that_they_are_kept(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "state"))
    small_graph().write(tmp_path / "graph")  # too small for private sizes: a release shows it
    flags = [*FLAGS, "--sizes", "private"]
    for words in ("released before this, for epsilon ", ""):
        assert main(["train", str(tmp_path / "graph"), "-o", str(tmp_path / "run"), *flags]) == 2
        said = capsys.readouterr().err
        assert "--sizes must not be private for this graph" in said
        assert ("with the same degree bound does not spend it again" in said) == bool(words)
        assert words in said
    assert main(["train", str(tmp_path / "none"), "--noise-multiplier", "2"]) == 2
    assert "does not spend" not in capsys.readouterr().err


def test_show_says_what_it_is_conditional_on_and_how_to_see_epsilon(tmp_path, capsys):
    settings = {"num_entities": 900, "num_relations": 2000, "max_degree": 2, "num_negatives": 3}
    settings |= {"expected_batch_size": 10, "num_steps": 5, "noise_multiplier": 4, "delta": 1e-6}
    private = {"sizes": "private", "sizes_epsilon": 0.1, "sizes_delta": 1e-8}
    for name, more in (("public", {}), ("private", private)):
        with Budget.create(tmp_path.joinpath(name).mkdir() or tmp_path / name) as budget:
            budget.enter_run("0" * 32, PrivacyPlan(**settings, **more))
        assert main(["budget", "show", str(tmp_path / name)]) == 0
        said = capsys.readouterr().out
        assert "Give --delta to see the epsilon" in said
        assert main(["budget", "show", str(tmp_path / name), "--delta", "1e-5", "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["given_released_sizes"] == (name == "private")
        assert ("holds given these" in " ".join(said.split())) == (name == "private")


def test_a_limit_that_comes_late_or_is_replaced_is_said(tmp_path, capsys):
    plan = PrivacyPlan(
        num_entities=9_000, num_relations=20_000, max_degree=2, num_negatives=3, delta=1e-6,
        expected_batch_size=10, num_steps=5, noise_multiplier=4,
    )  # fmt: skip
    init = ["budget", "init", str(tmp_path), "--limit", "2", "--delta", "1e-5"]
    assert main(init) == 0
    said = capsys.readouterr()
    assert "enter them with reldp budget enter" in said.out
    raised = ["budget", "limit", str(tmp_path), "--delta", "1e-5", "--limit"]
    assert main([*raised, "3"]) == 0
    assert "warning" not in capsys.readouterr().err, "nothing had run"
    with Budget.open(tmp_path) as budget:
        budget.enter_run("0" * 32, plan)
    assert main(["budget", "show", str(tmp_path)]) == 0
    words = "before anybody sees the first one; no limit that is set later"
    assert words in " ".join(capsys.readouterr().out.split())
    assert main([*raised, "9", "--adaptive"]) == 0
    said = capsys.readouterr()
    assert "warning: Runs were entered before this limit was set." in said.err
    out = " ".join(said.out.split())
    assert "Spent: epsilon" in out
    assert "The guarantee is the limit, not what was spent" in out
    assert out.count("Earlier limit, replaced on") == 2
    assert "epsilon 2 at delta 1e-05." in out
    assert main(["budget", "show", str(tmp_path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["epsilon"], shown["delta"]) == (9.0, 1e-5)
    assert shown["holds_if"].startswith("nobody had seen a result before the limits that came")
    assert [limit["adaptive"] for limit in shown["limits"]] == [False, False, True]
    assert "Guarantee for choices by results: epsilon 9 at delta 1e-05. Warning: limits" in out
    assert 0 < shown["spent"] < 1
    assert shown["spent_delta"] == 1e-6, "the delta of the run, and not that of the limit"
    assert [limit["epsilon"] for limit in shown["limits"]] == [2.0, 3.0, 9.0]
    (tmp_path / "graph").mkdir()
    assert main(["budget", "share", str(tmp_path / "graph"), "--with", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "will be entered in the budget" in said
    assert "Runs that were made before are not counted" in said


def test_a_limit_that_runs_exceed_which_were_entered_later_guarantees_nothing(tmp_path, capsys):
    plan = PrivacyPlan(
        num_entities=9_000, num_relations=20_000, max_degree=2, num_negatives=3, delta=1e-6,
        expected_batch_size=10, num_steps=5, noise_multiplier=1,
    )  # fmt: skip
    one = plan.epsilon()
    limit = ["--limit", str(1.5 * one), "--delta", "1e-5", "--adaptive"]
    assert main(["budget", "init", str(tmp_path), *limit]) == 0

    def shown():
        capsys.readouterr()
        assert main(["budget", "show", str(tmp_path)]) == 0
        words = " ".join(capsys.readouterr().out.split())
        assert main(["budget", "show", str(tmp_path), "--json"]) == 0
        return words, json.loads(capsys.readouterr().out)

    with Budget.open(tmp_path) as budget:
        budget.enter_run("0" * 32, plan, purpose="entered later", is_spent=True)
    words, values = shown()
    assert "Guarantee for choices by results: epsilon" in words
    assert "runs were entered after they had been made, so this holds only if" in words
    assert values["epsilon"] == 1.5 * one
    assert not values["exceeded"]
    with Budget.open(tmp_path) as budget:
        budget.enter_run("1" * 32, plan, purpose="copy of a run", is_spent=True)
    words, values = shown()
    assert "No guarantee for choices by results: what was entered costs more" in words
    assert "The guarantee is the limit" not in words
    assert values["epsilon"] == "Infinity"
    assert values["exceeded"]
    assert values["spent"] == pytest.approx(2 * one)


def test_a_run_without_a_proof_that_was_entered_later_leaves_no_guarantee(tmp_path, capsys):
    plan = PrivacyPlan(
        num_entities=9_000, num_relations=20_000, max_degree=2, num_negatives=3, delta=1e-6,
        expected_batch_size=10, num_steps=5, noise_multiplier=4, clipping="frequency",
    )  # fmt: skip
    limit = ["--limit", "8", "--delta", "1e-5", "--adaptive"]
    assert main(["budget", "init", str(tmp_path), *limit]) == 0
    with Budget.open(tmp_path) as budget:
        budget.enter_run("0" * 32, plan, purpose="entered later", is_spent=True)
    capsys.readouterr()
    assert main(["budget", "show", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["epsilon"] == "Infinity"
