"""Runs with held-out entities: trained without them, evaluated on them, and only the owner sees the results."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from reldp.cli.main import main
from reldp.encoders import FeatureEncoder
from reldp.encoders.folders import state_hash
from reldp.errors import ConfigError, ResumeError
from reldp.evaluation import evaluate
from reldp.evaluation.lines import BEFORE
from reldp.graph.holdout import Holdout
from reldp.reporting import verify
from reldp.runs.ledger import read_ledger
from reldp.runs.run_folder import RunFolder
from reldp.training import Trainer
from reldp.training.callbacks import TrainingCallback, TrainingStopped
from reldp.training.config import PerformanceSettings
from reldp.training.holdout import check_holdout, refuse_another_holdout, stored_results
from reldp.training.selection import Selection
from tests.training.small import small_encoder, small_graph, small_plan, small_types

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
SETTINGS = {"learning_rate": 0.5, "threads": 1}


def parts(share=0.4, *, types=None, **plan):
    graph = small_graph(types=types)
    holdout = Holdout.split(graph if types is None else graph.with_types(graph.type_names), share)
    capped = holdout.train.cap_degrees(4, 0)
    chosen = {"expected_batch_size": 8.0, "num_steps": 6, "num_negatives": 2, **plan}
    return holdout, capped, small_plan(capped, **chosen)


def trainer(share=0.4, **settings):
    holdout, capped, plan = parts(share)
    return Trainer(small_encoder(), capped, plan, holdout=holdout, **SETTINGS, **settings)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("held out") / "run"
    return folder, trainer().fit(folder)


def test_both_evaluations_are_those_of_the_held_out_part(whole):
    folder, result = whole
    holdout, _, _ = parts()
    count = holdout.test.num_relations
    for name, encoder in (
        ("before", small_encoder()),
        ("after", FeatureEncoder.load(folder / "model")),
    ):
        expected = evaluate(encoder, holdout.test, count)
        assert result.holdout[name]["mrr"] == pytest.approx(expected["mrr"], abs=1e-6)
        assert result.holdout[name]["num_relations"] == count
    assert result.holdout["before"]["mrr"] != result.holdout["after"]["mrr"]
    assert "gain" in result.holdout["after"]
    # The trained weights are in the encoder again.
    loaded = FeatureEncoder.load(folder / "model")
    assert state_hash(result.encoder.trainable()) == state_hash(loaded.trainable())


def test_plan_sizes_and_fingerprint_are_those_of_the_training_part(whole):
    folder, _ = whole
    start = read_ledger(folder / "ledger.jsonl").start
    assert start["graph"]["holdout"] == {"share": 0.4, "seed": 0}
    holdout, capped, _ = parts()
    sensitive = json.loads((folder / "sensitive.json").read_text())
    assert sensitive["fingerprint"] == capped.fingerprint
    assert sensitive["statistics"]["held_out"]["num_entities"] == holdout.test.num_entities
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["num_entities"] == holdout.train.num_entities
    assert plan["num_relations"] == capped.num_relations


def test_the_results_are_in_the_owner_s_files_only(whole, tmp_path):
    folder, result = whole
    assert verify(folder).certificate.epsilon == result.certificate.epsilon
    score = f"{100 * result.holdout['after']['mrr']:.1f}"
    assert main(["report", str(folder)]) == 0
    page = (folder / "report.html").read_text()
    assert "Evaluation on held-out entities" in page
    assert f"{score} [" in page
    assert "Choosing by them" in page
    assert main(["report", str(folder), "--public"]) == 0
    assert main(["publish", str(folder), "-o", str(tmp_path / "bundle")]) == 0
    digits = str(result.holdout["after"]["mrr"])[:8]
    for place in [folder / "report.html", *(tmp_path / "bundle").rglob("*")]:
        if place.is_file():
            content = place.read_bytes()
            assert digits.encode() not in content, place.name
            assert b"Evaluation on held-out" not in content, place.name
    assert digits in (folder / "evaluations.jsonl").read_text()  # the control


def test_the_certificate_says_who_was_held_out_and_what_it_does_not_cover(whole):
    values = whole[1].certificate.values
    assert values["data"]["holdout"] == {"share": 0.4, "seed": 0}
    assert any("public seed 0" in line for line in values["assumptions"])
    assert any("evaluations on held-out entities" in line for line in values["not_guaranteed"])
    assert "about 40 % of all entities, seed 0" in whole[1].certificate.to_markdown()


def test_a_complete_run_gives_its_results_again_and_evaluates_nothing(whole, monkeypatch):
    folder, result = whole
    lines = (folder / "evaluations.jsonl").read_text()
    monkeypatch.setattr("reldp.training.holdout.evaluate", None)
    again = trainer().fit(folder)
    assert again.holdout == result.holdout
    assert (folder / "evaluations.jsonl").read_text() == lines


class Stop(TrainingCallback):
    def on_step_end(self, progress, requests):
        requests.stop = progress.step == 3


def test_a_resumed_run_has_the_same_bits_and_results_before_training_if_its_encoder_is_new(
    tmp_path,
):
    stopped = trainer(callbacks=[Stop()])
    with pytest.raises(TrainingStopped):
        stopped.fit(tmp_path / "run")
    assert not (tmp_path / "run" / "evaluations.jsonl").exists()
    with pytest.raises(ResumeError, match=r"the graph is another; holdout.share was 0.4, is 0.6"):
        trainer(0.6).fit(tmp_path / "run")
    result = trainer().fit(tmp_path / "run")
    expected = evaluate(small_encoder(), parts()[0].test, result.holdout["after"]["candidates"])
    assert result.holdout["before"]["mrr"] == pytest.approx(expected["mrr"], abs=1e-6)


def test_an_encoder_that_was_trained_in_this_process_is_not_taken_for_the_start(tmp_path):
    stopped = trainer(callbacks=[Stop()])
    with pytest.raises(TrainingStopped):
        stopped.fit(tmp_path / "run")
    again = Trainer(stopped.encoder, *parts()[1:], holdout=parts()[0], **SETTINGS)
    assert set(again.fit(tmp_path / "run").holdout) == {"after"}


def test_a_typed_loss_ranks_held_out_relations_by_its_scores(tmp_path):
    holdout, capped, plan = parts(types=small_types())
    result = Trainer(
        small_encoder(), capped, plan, holdout=holdout, loss="distmult", **SETTINGS
    ).fit(tmp_path / "run")
    assert result.holdout["after"]["score"] == result.holdout["before"]["score"] == "distmult"


def test_a_graph_that_is_not_the_training_part_is_refused():
    holdout, capped, _ = parts()
    with pytest.raises(ConfigError, match="`capped` must be the training part of the holdout"):
        Trainer(
            small_encoder(),
            small_graph().cap_degrees(4, 0),
            small_plan(small_graph().cap_degrees(4, 0)),
            holdout=holdout,
        )
    check_holdout(holdout, holdout.train.cap_degrees(2, 0), PerformanceSettings())
    with pytest.raises(ConfigError, match="without shard_weights"):
        check_holdout(holdout, capped, replace(PerformanceSettings(), shard_weights=True))


def test_weights_are_not_chosen_by_held_out_entities():
    holdout, capped, _ = parts()
    with pytest.raises(ConfigError, match="the training graph or a part of it"):
        Selection(holdout.test, 3, capped, holdout=holdout, shares_ids=True)
    held_out = set(holdout.test.ids.to_pylist())
    other = small_graph(seed=3)  # other features
    similar = other.select_entities(np.array([i in held_out for i in other.ids.to_pylist()]))
    with pytest.raises(ConfigError, match="shares ids or owners with protected"):
        Selection(similar, 3, capped, holdout=holdout)
    Selection(similar, 3, capped)  # the control: unknown without the holdout


def test_another_holdout_is_refused_by_name_before_anything_else(whole, tmp_path):
    run = RunFolder(whole[0])
    refuse_another_holdout(run, {"share": 0.4, "seed": 0})
    refuse_another_holdout(RunFolder(tmp_path), None)
    for facts, words in (
        (None, "got none"),
        ({"share": 0.4, "seed": 1}, "got 0.4 with seed 1"),
    ):
        with pytest.raises(ResumeError, match=f"must be 0.4 with seed 0, .*{words}"):
            refuse_another_holdout(run, facts)


def test_the_newest_stored_results_count():
    old, new = ({"holdout": {}, "mrr": value} for value in (0.1, 0.2))
    first = {"holdout": {}, "encoder": BEFORE, "mrr": 0.0}
    assert stored_results([first, old, {"mrr": 0.9}, new]) == {"before": first, "after": new}
    assert stored_results([first]) is None
