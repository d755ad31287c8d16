import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from reldp.auditing import run_audit
from reldp.auditing.real_step import StepSettings
from reldp.auditing.run_audit import (
    _training_settings,
    audit_canaries,
    initial_encoder,
    on_this_machine,
    prepare_canaries,
    step_settings,
)
from reldp.encoders import FeatureEncoder, TextEncoder
from reldp.errors import ConfigError, LedgerError
from reldp.graph import EntityGraph
from reldp.graph.holdout import Holdout
from reldp.plan import PrivacyPlan
from reldp.runs.budget import Budget
from reldp.runs.run_folder import RunFolder
from reldp.training import Trainer
from tests.encoders.tiny import write_model
from tests.training.small import small_graph, small_plan

FEATURES = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
RING = [(i, (i + 1) % 300) for i in range(300)]
GRAPH = EntityGraph.from_lists(list(range(300)), RING, features=FEATURES)


def trained(folder, settings=None, **changes):
    capped = GRAPH.promise_degrees(2)
    sizes = {
        "num_negatives": 2,
        "expected_batch_size": 8,
        "num_steps": 3,
        "noise_multiplier": 1.0,
    }
    plan = PrivacyPlan.for_graph(capped, sizes="public", **sizes, **changes)
    pool, quiet = FEATURES + 1 if changes else None, {"progress": False, "device": "cpu"}
    Trainer(FeatureEncoder(8), capped, plan, pool=pool, **quiet, **(settings or {})).fit(folder)
    return RunFolder(folder)


def test_the_settings_of_steps_are_those_of_the_ledger(tmp_path):
    run = trained(tmp_path / "run")
    assert step_settings(run) == StepSettings(device="cpu")


@pytest.mark.parametrize("has_gpu", [True, False])
def test_the_cpu_takes_the_place_of_a_gpu_that_is_not_here(monkeypatch, has_gpu):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    on_cpu, on_gpu = StepSettings(device="cpu"), StepSettings(device="cuda", precision="bfloat16")
    assert on_this_machine(on_cpu) == on_cpu
    assert on_this_machine(on_gpu) == (on_gpu if has_gpu else replace(on_gpu, device="cpu"))


def test_canaries_train_a_copy_that_is_removed(tmp_path, monkeypatch):
    run = trained(tmp_path / "run")
    ledger = run.ledger.read_bytes()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    audit = audit_canaries(run, GRAPH, num_canaries=20, seed=3)
    assert audit.num_canaries == 20
    assert audit.plan["num_entities"] > 300
    assert list((tmp_path / "temporary").iterdir()) == []
    assert run.ledger.read_bytes() == ledger


def test_what_prepares_a_copy_enters_nothing_and_its_training_does(tmp_path, monkeypatch):
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "state"))
    GRAPH.write(tmp_path / "graph")
    run, graph = trained(tmp_path / "run"), EntityGraph.read(tmp_path / "graph")
    with Budget.create(tmp_path / "graph") as budget:
        budget.set_limit(100.0, 1e-3)
    audit = prepare_canaries(run, graph, num_canaries=20, seed=3)

    def purposes():
        with Budget.open(tmp_path / "graph", read_only=True) as opened:
            return [entry.get("purpose") for entry in opened.entries if entry["kind"] == "run"]

    assert purposes() == []
    assert audit().num_canaries == 20
    assert purposes() == ["audit"]


def test_a_graph_of_other_sizes_is_refused_where_the_folder_knows_them(tmp_path):
    run = trained(tmp_path / "run")
    more = EntityGraph.from_lists(list(range(300)), [*RING, (0, 2)], features=FEATURES)
    with pytest.raises(ConfigError, match="another number of entities or relations") as error:
        prepare_canaries(run, more)
    assert "30" not in str(error.value)
    run.sensitive.unlink()
    prepare_canaries(run, more, num_canaries=2)


def test_canaries_leave_held_out_entities_out(tmp_path, monkeypatch):
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "state"))
    graph, seen = small_graph(), []
    holdout = Holdout.split(graph, 0.4)
    capped = holdout.train.cap_degrees(4, seed=0)
    encoder = FeatureEncoder.for_graph(capped, dim=3)
    plan = small_plan(capped, num_steps=2, expected_batch_size=8.0)
    Trainer(encoder, capped, plan, holdout=holdout).fit(tmp_path / "run")
    original = run_audit.canary_copy
    monkeypatch.setattr(
        run_audit,
        "canary_copy",
        lambda data, *given, **more: seen.append(data) or original(data, *given, **more),
    )
    prepare_canaries(RunFolder(tmp_path / "run"), graph, num_canaries=2)
    assert seen[0].num_entities == holdout.train.num_entities < graph.num_entities


def test_canaries_of_a_run_with_types_have_types_and_train_its_loss(tmp_path, monkeypatch):
    typed = EntityGraph.from_lists(
        list(range(300)), RING, features=FEATURES, types=["knows", "likes", "owns"] * 100
    )
    monkeypatch.setattr("tests.auditing.test_run_audit.GRAPH", typed)
    seen = []
    original = Trainer.fit
    monkeypatch.setattr(Trainer, "fit", lambda self, at: seen.append(self) or original(self, at))
    run = trained(tmp_path / "run", settings={"loss": "complex", "objective": "logistic"})
    audit = audit_canaries(run, typed, num_canaries=20, seed=3)
    assert audit.plan["num_relation_types"] == 3
    copy = seen[-1]
    assert (copy._loss.name, copy._loss.objective) == ("complex", "logistic")
    assert copy.capped.type_names == typed.type_names


def test_a_public_pool_is_not_in_the_run_folder(tmp_path):
    run = trained(tmp_path / "run", negatives="public", pool_size=300)
    with pytest.raises(
        ConfigError, match="`canaries` cannot be used for a run with public negatives"
    ):
        audit_canaries(run, GRAPH)


def test_an_encoder_of_features_is_made_again_from_its_description():
    encoder = FeatureEncoder(8, hidden=[5], dim=3)
    again = initial_encoder(json.loads(json.dumps(encoder.describe())))
    assert again.describe() == encoder.describe()
    for name, parameter in encoder.trainable().items():
        assert torch.equal(parameter, again.trainable()[name])


def test_widths_that_no_run_writes_are_a_damaged_ledger():
    described = {**FeatureEncoder(8, hidden=[5], dim=3).describe(), "hidden": 5}
    with pytest.raises(LedgerError, match=r"start\.encoder must be as a run writes it"):
        initial_encoder(described)


@pytest.mark.parametrize(
    "settings",
    [
        {"lora_rank": 2, "pooling": "cls", "seed": 3},
        {"train": "last:1", "max_length": 9},
        {"train": "head", "head_hidden": [6], "head_dim": 5, "seed": 4},
    ],
    ids=["lora", "last", "head"],
)
def test_a_text_encoder_is_made_again_from_its_description(settings, tmp_path):
    folder = write_model("bert", tmp_path / "model")
    encoder = TextEncoder.load(folder, **settings)
    described = json.loads(json.dumps(encoder.describe()))
    again = initial_encoder(described, str(folder))
    assert again.describe() == encoder.describe()
    for name, parameter in encoder.trainable().items():
        assert torch.equal(parameter, again.trainable()[name])


def test_a_copy_learns_as_the_run_did_whatever_version_wrote_its_ledger():
    older = {"loss": "infonce", "learning_rate": 0.01}
    start = {"training": older, "machine": {"noise_generator": "fast"}}
    expected = {**older, "pairing": "one", "noise_generator": "fast", "log_sensitive": False}
    assert _training_settings(start) == expected
    start["training"] = {**older, "pairing": "all"}
    assert _training_settings(start)["pairing"] == "all"


def test_the_code_of_a_module_is_not_in_a_run_s_folder():
    with pytest.raises(ConfigError, match=r"`canaries` cannot be used .* kind 'module'"):
        initial_encoder({"kind": "module"})
