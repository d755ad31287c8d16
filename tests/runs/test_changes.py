"""Two copies of a run never use the same noise for different sums.

Each test stops a run, copies its folder, and resumes the copy with something changed: it must be
refused, or go on with fresh random draws.
"""

import numpy as np
import pytest
import torch

import reldp.training.trainer as trainer_module
from reldp.encoders import FeatureEncoder, TextEncoder
from reldp.encoders.features import FeatureTable
from reldp.encoders.folders import state_hash
from reldp.errors import ResumeError
from reldp.graph import EntityGraph
from reldp.plan import PrivacyPlan
from reldp.reporting import verify
from reldp.runs.changes import changes, newest_branch
from reldp.runs.ledger import read_ledger
from reldp.training import Trainer
from tests.encoders.tiny import TEXTS, write_model
from tests.training.interrupted import SETTINGS, TAKE, Stopped, copied, resumed, stopped
from tests.training.small import (
    DIM,
    NUM_ENTITIES,
    small_encoder,
    small_graph,
    small_parts,
    small_plan,
)

torch.set_num_threads(1)


def test_copies_resumed_alike_release_the_same(folder):
    one, two = resumed(copied(folder)), resumed(folder)
    assert state_hash(one.encoder.trainable()) == state_hash(two.encoder.trainable())
    assert two.certificate.values["steps"]["branches"] == 1
    assert verify(folder)


def pool_parts(seed):
    capped = small_graph().promise_degrees(4)
    pool = np.random.default_rng(seed).normal(size=(400, DIM)).astype(np.float32)
    return (small_encoder(), capped, small_plan(capped, negatives="public", pool_size=400)), pool


def test_another_public_pool_is_refused(tmp_path, monkeypatch):
    """On 0.3.0 both copies were finished: their difference was free of noise."""
    parts, pool = pool_parts(1)
    folder = stopped(monkeypatch, tmp_path / "run", *parts, pool=pool)
    parts, other = pool_parts(2)
    with pytest.raises(ResumeError, match="the public pool is another"):
        resumed(folder, *parts, pool=other)
    one_number = pool.copy()
    one_number[7, 3] += 1e-3
    with pytest.raises(ResumeError, match="the public pool is another"):
        resumed(folder, *pool_parts(1)[0], pool=one_number)
    assert resumed(folder, *pool_parts(1)[0], pool=pool.copy()).certificate.epsilon > 0


def test_rows_other_than_those_of_the_start_are_refused(folder, monkeypatch):
    """Whatever makes them others: here an encoder whose table is not the graph's."""
    encoder, capped, plan = small_parts()
    features = encoder.table(capped).features.copy()
    features[5, 0] += 1.0
    table = FeatureTable(features=features)
    monkeypatch.setattr(encoder, "table", lambda graph, pool=None: table)
    with pytest.raises(ResumeError, match="texts, features or relations are others"):
        resumed(folder, encoder, capped, plan)


def switch_normalization(encoder):
    encoder.module.normalize = not encoder.module.normalize


def change_the_activation(encoder):
    encoder.module.activation = torch.nn.Tanh()


def hook_into_the_output(encoder):
    encoder.module.layers[0].register_forward_hook(_double)


def _double(module, inputs, output):
    return 2 * output


def freeze_a_layer(encoder):
    encoder.layers[0].weight.requires_grad_(False)


@pytest.mark.parametrize(
    "change", [switch_normalization, change_the_activation, hook_into_the_output, freeze_a_layer]
)
def test_a_module_that_was_changed_after_loading_is_refused(folder, change):
    encoder, capped, plan = small_parts()
    change(encoder)
    before = (folder / "ledger.jsonl").read_bytes()
    with pytest.raises(ResumeError, match="the encoder computes something else"):
        resumed(folder, encoder, capped, plan)
    assert (folder / "ledger.jsonl").read_bytes() == before


class Written(torch.nn.Module):
    """An activation that somebody wrote."""

    def forward(self, features):
        return features.clamp(min=0)


def with_activation(module):
    encoder, capped, plan = small_parts()
    encoder.module.activation = module
    return encoder, capped, plan


def test_code_that_was_edited_is_refused(tmp_path, monkeypatch):
    """The same class, the same attributes, another forward: somebody tried something else."""
    folder = stopped(monkeypatch, tmp_path / "run", *with_activation(Written()))
    with monkeypatch.context() as patch:
        patch.setattr(Written, "forward", lambda self, features: features.clamp(min=-1))
        with pytest.raises(ResumeError, match="the encoder computes something else"):
            resumed(folder, *with_activation(Written()))
    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "clamp", lambda self, min: self.abs())
        with pytest.raises(ResumeError, match="the encoder computes something else"):
            resumed(folder, *with_activation(Written()))
    assert resumed(folder, *with_activation(Written())).certificate.epsilon > 0


def test_other_frozen_weights_are_refused(tmp_path, monkeypatch):
    def parts(value):
        encoder, capped, plan = small_parts()
        freeze_a_layer(encoder)
        with torch.no_grad():
            encoder.layers[0].weight[0, 0] = value
        return encoder, capped, plan

    folder = stopped(monkeypatch, tmp_path / "run", *parts(0.25))
    with pytest.raises(ResumeError, match="the encoder computes something else"):
        resumed(folder, *parts(0.5))
    assert resumed(folder, *parts(0.25)).certificate.epsilon > 0


def test_training_mode_changes_nothing(tmp_path, monkeypatch):
    """On 0.3.0 dropout was on in one copy and off in the other: sums 3.2 C apart."""

    def parts():
        encoder, capped, plan = small_parts()
        encoder.module.activation = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Dropout(0.5))
        return encoder, capped, plan

    folder = stopped(monkeypatch, tmp_path / "run", *parts())
    one = resumed(copied(folder), *parts())
    encoder, capped, plan = parts()
    encoder.module.train()

    def into_training(self, step):
        encoder.module.train()  # and again, before every step
        return TAKE(self, step)

    monkeypatch.setattr(trainer_module.TrainingLoop, "_take", into_training)
    two = resumed(folder, encoder, capped, plan)
    assert state_hash(one.encoder.trainable()) == state_hash(two.encoder.trainable())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"versions.torch": "2.0"}, "versions.torch was"),
        ({"versions.numpy": "1.0"}, "versions.numpy was"),
        ({"probe_sha256": "another"}, "probe_sha256 was"),
        ({"environment.MKL_CBWR": "AVX2"}, "environment.MKL_CBWR was None"),
        ({"matmul": "medium"}, "matmul was 'highest'"),
        ({"processor": "another"}, "processor was"),
    ],
)
def test_other_bits_open_a_branch_with_fresh_draws(folder, monkeypatch, addresses, change, words):
    from reldp.training import facts

    resumed(copied(folder))
    first = set(addresses)
    addresses.clear()
    machine = facts.machine
    monkeypatch.setattr(facts, "machine", lambda *given: machine(*given) | change)
    result = resumed(folder)
    steps = result.certificate.values["steps"]
    assert (steps["branches"], steps["abandoned"], steps["counted"]) == (2, 4, 12)
    opened = newest_branch(read_ledger(folder / "ledger.jsonl"))
    assert words in opened["reason"]
    assert opened["stream_number"] > 0
    assert first
    assert addresses
    assert not first & addresses
    assert verify(folder)


def test_after_other_versions_a_changed_module_is_refused_again(folder, monkeypatch):
    """What is compared is the newest branch, not the start alone."""
    from reldp.training import facts

    machine = facts.machine
    other = {"versions.torch": "2.0"}
    monkeypatch.setattr(facts, "machine", lambda *given: machine(*given) | other)
    stopped(monkeypatch, folder, *small_parts(), at=5)
    encoder, capped, plan = small_parts()
    switch_normalization(encoder)
    with pytest.raises(ResumeError, match="the encoder computes something else"):
        resumed(folder, encoder, capped, plan)


@pytest.mark.parametrize("name", ["normalize", "bias", "activation"])
def test_other_settings_of_the_encoder_are_refused(folder, name):
    other = {"normalize": True, "bias": False, "activation": "tanh"}[name]
    _, capped, plan = small_parts()
    with pytest.raises(ResumeError, match=rf"encoder\.{name} was"):
        resumed(folder, small_encoder(**{name: other}), capped, plan)


def test_features_that_differ_in_one_number_are_another_graph(tmp_path, monkeypatch):
    generator = np.random.default_rng(0)
    features = generator.normal(size=(NUM_ENTITIES, DIM)).astype(np.float32)
    relations = [(i, (i + 1) % NUM_ENTITIES) for i in range(NUM_ENTITIES)]

    def parts(value):
        changed = features.copy()
        changed[17, 2] = value
        graph = EntityGraph.from_lists(range(NUM_ENTITIES), relations, features=changed)
        capped = graph.promise_degrees(2)
        return FeatureEncoder(DIM, dim=4), capped, small_plan(capped)

    folder = stopped(monkeypatch, tmp_path / "run", *parts(0.25))
    with pytest.raises(ResumeError, match="the graph is another"):
        resumed(folder, *parts(0.5))


def test_a_complete_run_is_loaded_without_making_its_rows(folder, monkeypatch):
    resumed(folder)
    encoder, capped, plan = small_parts()

    def never(graph, pool=None):
        raise AssertionError("rows for nobody")

    monkeypatch.setattr(encoder, "table", never)
    assert resumed(folder, encoder, capped, plan).certificate.epsilon > 0
    assert isinstance(plan, PrivacyPlan)


def text_parts(model, **settings):
    graph = small_graph()
    texts = [TEXTS[i % len(TEXTS)] for i in range(NUM_ENTITIES)]
    texted = EntityGraph.from_lists(
        range(NUM_ENTITIES), graph.relations.tolist(), text=texts
    ).promise_degrees(4)
    encoder = TextEncoder.load(model, **{"lora_rank": 2, "max_length": 16, **settings})
    return encoder, texted, small_plan(texted)


@pytest.mark.parametrize(
    ("train", "name"), [("lora", "eager"), ("head", "eager"), ("lora", "short")]
)
def test_another_attention_implementation_opens_a_branch(tmp_path, monkeypatch, train, name):
    model = write_model("bert", tmp_path / "model")
    folder = stopped(monkeypatch, tmp_path / "run", *text_parts(model, train=train))
    result = resumed(folder, *text_parts(model, train=train, attention=name))
    assert result.certificate.values["steps"]["branches"] == 2
    opened = newest_branch(read_ledger(folder / "ledger.jsonl"))
    assert f"attention was 'sdpa', is '{name}'" in opened["reason"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda encoder: setattr(encoder._text, "pooling", "cls"), "computes something else"),
        (lambda encoder: setattr(encoder, "max_length", 3), "texts, features or relations"),
        (lambda encoder: setattr(encoder, "max_length", 30), "computes something else"),
        (lambda encoder: setattr(encoder.tokenizer, "truncation_side", "left"), "texts, features"),
    ],
)
def test_other_pooling_length_or_tokens_of_a_text_encoder_are_refused(
    tmp_path, monkeypatch, change, words
):
    model = write_model("bert", tmp_path / "model")
    settings = {"max_length": 6}
    folder = stopped(monkeypatch, tmp_path / "run", *text_parts(model, **settings))
    parts = text_parts(model, **settings)
    change(parts[0])
    with pytest.raises(ResumeError, match=words):
        resumed(folder, *parts)
    assert resumed(folder, *text_parts(model, **settings)).certificate.epsilon > 0


def test_differences_are_named_with_both_values():
    assert changes("x.", {"a": 1, "b": 2}, {"a": 1, "c": 3}) == [
        "x.b was 2, is None",
        "x.c was None, is 3",
    ]


@pytest.mark.parametrize("kind", ["features", "text"])
def test_the_same_objects_may_go_on_after_a_stop(tmp_path, monkeypatch, kind):
    """In a notebook: weights were trained and hooks were set, but nothing else is another."""
    monkeypatch.setattr("reldp.runs.key.new_key", lambda: bytes(range(32)))
    model = write_model("bert", tmp_path / "model")

    def parts():
        return small_parts() if kind == "features" else text_parts(model)

    whole = Trainer(*parts(), **SETTINGS).fit(tmp_path / "whole")
    trainer = Trainer(*parts(), **SETTINGS)

    def dying(self, step):
        if step == 6:
            raise Stopped
        return TAKE(self, step)

    with monkeypatch.context() as patch:
        patch.setattr(trainer_module.TrainingLoop, "_take", dying)
        with pytest.raises(Stopped):
            trainer.fit(tmp_path / "run")
    result = trainer.fit(tmp_path / "run")
    assert result.certificate.values["steps"]["branches"] == 1
    assert state_hash(result.encoder.trainable()) == state_hash(whole.encoder.trainable())
