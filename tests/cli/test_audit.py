import json
import time

import numpy as np
import pytest

from reldp.cli.main import main
from reldp.encoders import FeatureEncoder
from reldp.errors import EncoderError
from reldp.graph import EntityGraph
from reldp.plan import PrivacyPlan
from reldp.reporting.verification import verify
from reldp.runs.ledger import read_ledger
from reldp.training import Trainer
from tests.auditing.remembered import remember_jobs

FLAGS = [
    *("--num-entities", "12", "--num-relations", "4", "--max-degree", "1", "--num-negatives", "2"),
    *("--sample-rate", "0.4", "--noise-multiplier", "1", "--num-steps", "1", "--delta", "0.01"),
]
QUICK = ["--trials", "100", "--seed", "1"]


@pytest.fixture(autouse=True)
def _remembered(monkeypatch):
    """Steps with the same plan and seed are run once, and fewer of them: the tests are about what is said of them."""
    remember_jobs(monkeypatch)
    monkeypatch.setattr("reldp.auditing.step_audit._ADDRESSES", 2)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    features = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    ring = [(i, (i + 1) % 300) for i in range(300)]
    made = EntityGraph.from_lists(list(range(300)), ring, features=features)
    folder = tmp_path_factory.mktemp("graph") / "ring"
    made.write(folder)
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory, graph):
    capped = EntityGraph.read(graph).promise_degrees(2)
    plan = PrivacyPlan.for_graph(
        capped,
        sizes="public",
        num_negatives=2,
        expected_batch_size=8,
        num_steps=3,
        noise_multiplier=1.0,
    )
    folder = tmp_path_factory.mktemp("runs") / "run"
    Trainer(FeatureEncoder(8), capped, plan, progress=False).fit(folder)
    return folder


def test_without_a_terminal_lines_come_in_phases_without_steps_too(monkeypatch, capsys):
    """The search is the phase before the first step; it reports nothing."""
    monkeypatch.setattr("reldp.cli.audit_progress.INTERVAL", 0.05)
    monkeypatch.setattr("reldp.auditing.suite._search", lambda plan: time.sleep(0.3))
    assert main(["audit", *FLAGS, *QUICK]) == 0
    assert "reldp: preparing the audit\n" * 2 in capsys.readouterr().err


def test_a_plan_by_flags_gets_a_table_and_a_verdict(capsys):
    assert main(["audit", *FLAGS, *QUICK, "--at-delta", "0.05"]) == 0
    out = capsys.readouterr().out
    assert "…" not in out
    assert "<= 1.45" in out
    assert "Consistent: for one step at delta" in out
    assert "Consistent: the training step kept its claim in 6 cases" in " ".join(out.split())
    assert "noise of steps at every lag" in out
    assert "It cannot prove one" in out


def test_json_states_seed_trials_and_confidence(capsys):
    assert main(["audit", *FLAGS, *QUICK, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["seed"] == 1
    assert printed["step"]["trials"] == 100
    assert printed["mechanism"]["trials"] == 2000
    assert printed["mechanism"]["confidence"] == 0.99
    assert [b["delta"] for b in printed["mechanism"]["bounds"]] == [0.01, 0.05]


def test_a_plan_file_and_a_picture(tmp_path, capsys):
    plan = PrivacyPlan(
        num_entities=12, num_relations=4, max_degree=1, num_negatives=2, sample_rate=0.4,
        num_steps=1, noise_multiplier=1.0, delta=0.01,
    )  # fmt: skip
    (tmp_path / "plan.json").write_text(plan.to_json())
    picture = tmp_path / "audit.png"
    arguments = ["audit", "--plan", str(tmp_path / "plan.json"), *QUICK, "--plot", str(picture)]
    assert main(arguments) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "audit.png" in capsys.readouterr().out


def test_an_audit_of_a_run_reaches_its_certificate_which_still_verifies(run, capsys):
    assert main(["audit", str(run), *QUICK, "--at-delta", "0.05"]) == 0
    audits = read_ledger(run / "ledger.jsonl").audits
    assert [audit["kind"] for audit in audits] == [
        "training step",
        "mechanism",
        "search for bad neighbors",
    ]
    for audit in audits:
        assert audit["verdict"] in (run / "certificate.md").read_text()
    verify(run)


def test_canaries_train_a_copy_and_leave_nothing_of_it(run, graph, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    arguments = ["audit", str(run), *QUICK, "--at-delta", "0.05", "--canaries", "30"]
    assert main([*arguments, "--graph", str(graph), "--json"]) == 0
    captured = capsys.readouterr()
    printed = json.loads(captured.out)["training"]
    assert printed["num_canaries"] == 30
    assert printed["plan"]["num_entities"] > 300
    assert "will be deleted" in captured.err
    assert list(tmp_path.iterdir()) == []
    verify(run)


@pytest.fixture
def refused_early(monkeypatch, capsys):
    """A command that must be refused before the training step is audited."""
    monkeypatch.setattr("reldp.auditing.audit_plan", lambda *given, **more: pytest.fail("too late"))

    def line(run, graph, *more):
        assert main(["audit", str(run), *QUICK, "--canaries", "30", "--graph", graph, *more]) == 2
        return capsys.readouterr().err.strip().splitlines()[-1]

    return line


def test_a_copy_that_its_budget_cannot_take_is_refused_before_the_audit_of_the_step(
    run, graph, refused_early, tmp_path, capsys
):
    budgeted = tmp_path / "ring"
    EntityGraph.read(graph).write(budgeted)
    assert main(["budget", "init", str(budgeted), "--limit", "0.01", "--delta", "1e-3"]) == 0
    before = (budgeted / "budget.jsonl").read_bytes()
    said = refused_early(run, str(budgeted))
    assert "limit" in said, said
    assert "0.01" in said, said
    assert (budgeted / "budget.jsonl").read_bytes() == before


def test_another_graph_is_refused_before_the_audit_of_the_step(run, refused_early, tmp_path):
    features = np.eye(290, 8, dtype=np.float32)
    ring = [(i, (i + 1) % 290) for i in range(290)]
    EntityGraph.from_lists(list(range(290)), ring, features=features).write(tmp_path / "other")
    said = refused_early(run, str(tmp_path / "other"))
    assert "--graph must be the training graph of the run, got one with another number" in said
    assert "290" not in said
    assert "300" not in said
    assert "nowhere" in refused_early(run, str(tmp_path / "nowhere"))


def test_another_model_is_refused_before_the_audit_of_the_step(
    run, graph, refused_early, monkeypatch
):
    def refuse(description, model):
        raise EncoderError(f"`model` must be that of the run, got {model!r}.")

    monkeypatch.setattr("reldp.auditing.run_audit.initial_encoder", refuse)
    said = refused_early(run, str(graph), "--model", "another")
    assert said == "reldp: --model must be that of the run, got 'another'."


def test_what_canaries_showed_reaches_no_public_file(run, graph, capsys):
    """The copy is a second run on the private graph: its AUC cost epsilon that no certificate counted."""
    arguments = ["audit", str(run), *QUICK, "--at-delta", "0.05", "--canaries", "30"]
    main([*arguments, "--graph", str(graph), "--json"])
    captured = capsys.readouterr()
    printed = json.loads(captured.out)["training"]
    assert printed["sensitive"] is True
    assert "second run on the private graph" in captured.err
    kinds = [audit["kind"] for audit in read_ledger(run / "ledger.jsonl").audits]
    assert kinds[-3:] == ["training step", "mechanism", "search for bad neighbors"]
    assert "training" not in kinds
    for name in ("ledger.jsonl", "certificate.json", "certificate.md"):
        text = (run / name).read_text()
        assert "canaries" not in text
        assert "auc" not in text.lower()


def test_the_published_frequency_rule_is_refuted_by_a_batch(capsys):
    larger = ["--max-degree", "2", "--num-entities", "14"]  # every batch can be drawn
    assert main(["audit", *FLAGS, *QUICK, "--clipping", "frequency", *larger]) == 3
    out = " ".join(capsys.readouterr().out.split())
    assert "REFUTED: in a batch of" in out
    assert "the rule claims at most 1" in out


def test_a_refuted_claim_has_exit_code_three(capsys, monkeypatch):
    monkeypatch.setattr(PrivacyPlan, "epsilon", lambda self, num_steps=None: 0.01)
    assert main(["audit", *FLAGS, *QUICK]) == 3
    assert "REFUTED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*FLAGS, "--trials", "5"], "--trials must be an integer from 100 to 5000000, got 5"),
        ([*FLAGS, "--trials", "100000000"], "--trials must be an integer from 100 to 5000000"),
        ([*FLAGS, "--canaries", "5"], "--canaries needs a run and its training graph"),
        ([*FLAGS, "--graph", "g"], "--graph must be given with canaries only"),
        ([*FLAGS, *QUICK, "--plot", "audit.txt"], "--plot must end in .png"),
        ([*FLAGS, "--seed", "-1"], "--seed must be an integer from 0"),
        ([], "must be given"),
        (["nowhere"], "The run folder must exist"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(arguments, message, capsys):
    assert main(["audit", *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert len(captured.err.strip().splitlines()) == 1
