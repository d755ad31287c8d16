"""Weights are chosen by a public graph alone, the same ones after a crash, and the certificate covers all steps."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from reldp.encoders import FeatureEncoder
from reldp.errors import ConfigError, LedgerError, ResumeError
from reldp.evaluation import evaluate
from reldp.graph import EntityGraph
from reldp.graph.holdout import Holdout
from reldp.reporting import verify
from reldp.runs.budget import Budget
from reldp.runs.certificate import Certificate
from reldp.runs.ledger import LedgerRecord, read_ledger
from reldp.runs.run_folder import RunFolder, read_plan
from reldp.training import Trainer
from reldp.training.callbacks import TrainingCallback, TrainingStopped
from reldp.training.finishing import finish
from reldp.training.selection import Selection
from tests.training.small import small_graph, small_parts, small_plan

torch.set_num_threads(1)
EVERY = 3


def public_graph(seed=5):
    graph = small_graph(seed=seed)
    ids = [f"public {i}" for i in range(graph.num_entities)]
    pairs = [(ids[a], ids[b]) for a, b in graph.relations.tolist()]
    return EntityGraph.from_lists(ids, pairs, features=np.asarray(graph.features))


def trainer(*, callbacks=(), every=EVERY, graph=None, **settings):
    encoder, capped, plan = small_parts()
    selection = Selection(public_graph() if graph is None else graph, every, capped)
    settings = {"learning_rate": 0.5, "checkpoint_every": 4, **settings}
    return Trainer(encoder, capped, plan, selection=selection, callbacks=callbacks, **settings)


class Watch(TrainingCallback):
    """Keep the weights after every step, and stop once."""

    def __init__(self, encoder, stop_at=None):
        self.encoder, self.stop_at, self.weights = encoder, stop_at, {}

    def on_step_end(self, progress, requests):
        self.weights[progress.step] = {
            name: value.detach().clone() for name, value in self.encoder.trainable().items()
        }
        requests.stop = progress.step == self.stop_at


def score(weights):
    encoder = small_parts()[0]
    encoder.load_trainable(weights)
    graph = public_graph()
    return evaluate(encoder, graph, min(256, graph.num_relations), max_relations=4096)["mrr"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    made = trainer()
    watch = Watch(made.encoder)
    made._callbacks._callbacks = (watch,)
    made.fit(folder)
    return folder, watch.weights


def test_the_best_evaluated_weights_are_released_and_all_steps_certified(whole):
    folder, weights = whole
    scores = {step: score(weights[step]) for step in weights if step % EVERY == 0}
    best = max(scores, key=scores.get)
    assert len(set(scores.values())) > 1
    record = read_ledger(RunFolder(folder).ledger)
    assert record.completion["chosen"]["step"] == best
    assert record.completion["chosen"]["score"] == pytest.approx(scores[best], abs=1e-11)
    for name, value in FeatureEncoder.load(RunFolder(folder).model).trainable().items():
        assert torch.equal(value, weights[best][name])
    certificate = verify(folder).certificate
    assert certificate.epsilon == read_plan(RunFolder(folder)).epsilon()
    words = " ".join(certificate.values["assumptions"])
    assert f"those after step {best}" in words
    assert "Epsilon covers all counted steps" in words


def test_a_run_that_was_stopped_has_its_best_weights_in_the_checkpoint(tmp_path):
    first = trainer()
    first._callbacks._callbacks = (Watch(first.encoder, stop_at=8),)
    with pytest.raises(TrainingStopped):
        first.fit(tmp_path / "run")
    with pytest.raises(ResumeError, match=r"selection\.every was 3, is 2"):
        trainer(every=2).fit(tmp_path / "run")
    with pytest.raises(ResumeError, match=r"selection\.graph_sha256"):
        trainer(graph=public_graph(6)).fit(tmp_path / "run")
    certificate = finish(tmp_path / "run", decided_by="result")
    assert certificate.values["steps"]["chosen_step"] in (3, 6)
    verify(tmp_path / "run")


def test_a_resumed_run_chooses_as_if_it_had_not_stopped(tmp_path, monkeypatch):
    from reldp.runs import key

    monkeypatch.setattr(key, "new_key", lambda: bytes(range(32)))
    trainer(average=0.5).fit(tmp_path / "whole")
    first = trainer(average=0.5)
    first._callbacks._callbacks = (Watch(first.encoder, stop_at=7),)
    with pytest.raises(TrainingStopped):
        first.fit(tmp_path / "run")
    trainer(average=0.5).fit(tmp_path / "run")
    chosen, again = (
        read_ledger(tmp_path / name / "ledger.jsonl").completion for name in ("whole", "run")
    )
    assert chosen["chosen"] == again["chosen"]
    assert chosen["weights_sha256"] == again["weights_sha256"]
    encoder, capped, plan = small_parts()  # choosing changes no step
    plain = Trainer(encoder, capped, plan, learning_rate=0.5, checkpoint_every=4, average=0.5)
    lines = plain.fit(tmp_path / "plain").metrics
    chosen_lines = RunFolder(tmp_path / "run").read_lines(tmp_path / "run" / "metrics.jsonl")
    assert [line["weights"] for line in lines] == [line["weights"] for line in chosen_lines]
    assert lines[0]["weights"]


def owned(prefix, owners):
    count = len(owners)
    ids = [f"{prefix} {i}" for i in range(count)]
    return EntityGraph.from_lists(
        ids, list(pairwise(ids)), features=np.eye(count, 3, dtype=np.float32), owner=owners,
    )  # fmt: skip


def test_a_graph_that_cannot_be_evaluated_is_refused_before_the_run_starts(tmp_path):
    public = public_graph()
    ids = [f"public {i}" for i in range(public.num_entities)]
    pairs = [(ids[a], ids[b]) for a, b in public.relations.tolist()]
    narrow = np.asarray(public.features)[:, :5]
    for graph in (
        EntityGraph.from_lists(ids, pairs, text=["text"] * len(ids)),
        EntityGraph.from_lists(ids, pairs, features=narrow),
    ):
        with pytest.raises(ConfigError, match="`eval_graph` must be one that encoder and loss can"):
            trainer(graph=graph).fit(tmp_path / "run")
        assert not (tmp_path / "run").exists()


def test_owners_are_compared_too():
    private = owned("private", ["ann", "ann", "bob", None]).cap_degrees(4, seed=0)
    with pytest.raises(ConfigError, match="shares ids or owners with protected entities"):
        Selection(owned("public", ["carl", None, "bob"]), 1, private)
    assert Selection(owned("public", ["carl", None, "dora"]), 1, private).facts["every"] == 1


def test_private_graphs_are_refused(tmp_path):
    _, capped, _ = small_parts()
    with pytest.raises(ConfigError, match="must be public, got the training graph"):
        Selection(capped.graph, 1, capped)
    other = small_graph(seed=9)  # the same ids
    with pytest.raises(ConfigError, match="shares ids or owners with protected entities"):
        Selection(other, 1, capped)
    assert Selection(other, 1, capped, shares_ids=True).facts["shares_ids"]
    public_graph().write(tmp_path / "public")
    read = EntityGraph.read(tmp_path / "public")
    Selection(read, 1, capped)
    Budget.create(tmp_path / "public").close()
    with pytest.raises(ConfigError, match="got one with a budget"):
        Selection(read, 1, capped)
    part = read.select_entities(np.arange(read.num_entities) < 30)
    with pytest.raises(ConfigError, match="must be public, got"):
        Selection(part, 1, replace(capped, graph=replace(capped.graph, folder=read.folder)))
    with pytest.raises(ConfigError, match="eval_every"):
        Selection(public_graph(), 0, capped)


def test_a_forged_choice_is_refused(whole):
    folder, _ = whole
    record, plan = read_ledger(RunFolder(folder).ledger), read_plan(RunFolder(folder))
    for change in ({"chosen": None}, {"chosen": {"step": 13, "score": 0.5}}):
        entries = [*record.entries[:-1], {**record.entries[-1], **change}]
        last = {name: value for name, value in entries[-1].items() if value is not None}
        with pytest.raises(LedgerError, match=r"complete\.chosen"):
            Certificate.from_ledger(plan, LedgerRecord.check([*entries[:-1], last], "0" * 64))


def test_a_trainer_compares_the_graph_with_its_own_graphs():
    """Whatever graphs the selection was made with."""
    encoder, capped, plan = small_parts()
    elsewhere = public_graph(seed=8).promise_degrees(4)
    with pytest.raises(ConfigError, match="got the training graph or a part of it"):
        Trainer(encoder, capped, plan, selection=Selection(capped.graph, EVERY, elsewhere))
    split = Holdout.split(small_graph(), 0.3)
    train = split.train.promise_degrees(4)
    by_test = Selection(split.test, EVERY, train)
    plan = small_plan(train)
    with pytest.raises(ConfigError, match="got the training graph or a part of it"):
        Trainer(encoder, train, plan, holdout=split, selection=by_test)
    Trainer(encoder, train, plan, holdout=split, selection=Selection(public_graph(), EVERY, train))
