"""What a step computes with has one hash, as it is in memory; where it lies and its mode have none."""

import copy
import functools

import numpy as np
import pytest
import torch
from torch import nn

from reldp.encoders import TextEncoder
from reldp.encoders.features import FeatureTable
from reldp.encoders.tokens import TokenTable
from reldp.errors import ConfigError, RunError
from reldp.graph import EntityGraph
from reldp.training.identity import (
    attention_of,
    encoder_sha256,
    module_sha256,
    outputs_sha256,
    pool_sha256,
    table_sha256,
)
from reldp.training.objective import Objective
from tests.encoders.tiny import TEXTS, write_model
from tests.training.small import small_encoder, small_graph, small_plan

CAPPED = small_graph().promise_degrees(4)


def features(value=0.0):
    found = np.zeros((3, 2), np.float32)
    found[1, 1] = value
    return FeatureTable(features=found)


def test_rows_have_one_hash_and_every_bit_of_them_counts():
    assert table_sha256(features(), CAPPED) == table_sha256(features(), CAPPED)
    wide = FeatureTable(features=np.zeros((2, 3), np.float32))
    small = FeatureTable(features=np.full((3, 2), -0.0, np.float32))
    tables = [features(), features(1e-45), wide, small]
    assert len({table_sha256(table, CAPPED) for table in tables}) == 4


class Slotted:
    """A table without a dictionary."""

    __slots__ = ("rows",)

    def __init__(self, rows):
        self.rows = rows


def test_tables_of_other_kinds_are_hashed_whole_or_refused():
    values = [np.zeros(3), np.ones(3), ["a", "b"], {"x": (1, torch.ones(2))}]
    assert len({table_sha256(Slotted(value), CAPPED) for value in values}) == 4
    for strange in (object(), [object()], iter([1])):
        with pytest.raises(ConfigError, match="arrays, tensors, numbers and texts, got 'rows'"):
            table_sha256(Slotted(strange), CAPPED)
    with pytest.raises(ConfigError, match="arrays, tensors, numbers and texts, got 'object'"):
        table_sha256(object(), CAPPED)


def test_arrays_of_texts_are_hashed_by_their_texts():
    one, same, other = (np.array([f"a{i}", "b" * 3], dtype=object) for i in (1, 1, 2))
    assert pool_sha256(one) == pool_sha256(same) != pool_sha256(other)


def test_relations_and_protection_belong_to_the_rows():
    other = small_graph(protected=[i > 0 for i in range(300)]).promise_degrees(4)
    fewer = small_graph().cap_degrees(2, seed=0)
    assert len({table_sha256(features(), graph) for graph in (CAPPED, other, fewer)}) == 3


def test_tokens_are_told_apart_by_ids_ends_and_padding():
    def tokens(ids=(5, 6, 7), offsets=(0, 1, 3), pad_id=0):
        return TokenTable(ids=np.array(ids), offsets=np.array(offsets), pad_id=pad_id)

    tables = [tokens(), tokens(ids=(5, 6, 8)), tokens(offsets=(0, 2, 3)), tokens(pad_id=1)]
    assert len({table_sha256(table, CAPPED) for table in tables}) == 4


def test_pools_of_every_kind_are_told_apart():
    assert pool_sha256(None) is None
    graph = EntityGraph.from_lists([1, 2], [(1, 2)], text=["a", "b"])
    array = np.zeros((4, 2), np.float32)
    pools = [["a", "b"], ["ab"], ["b", "a"], graph, array, array + 1, array.astype(np.float64)]
    assert len({pool_sha256(pool) for pool in pools}) == len(pools)
    assert pool_sha256(("a", "b")) == pool_sha256(["a", "b"])


def _hook(module, inputs, output):
    return output + 1


class Odd(nn.Module):
    """A module with attributes of every kind."""

    def __init__(self, **changes):
        super().__init__()
        values = {
            "number": 1.5,
            "names": ["a", "b"],
            "table": {"x": (1, 2)},
            "kinds": {"b", "a"},
            "dtype": torch.float32,
            "array": np.arange(3),
            "tensor": torch.arange(3),
            "function": functools.partial(torch.clamp, min=0),
            "settings": copy.copy(torch.nn.Identity),
        }
        for name, value in (values | changes).items():
            setattr(self, name, value)
        self.linear = nn.Linear(2, 2)
        self.register_buffer("scale", torch.ones(2), persistent=False)
        with torch.no_grad():
            self.linear.weight.fill_(1.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"number": 1.5000001},
        {"names": ["b", "a"]},
        {"table": {"x": (1, 3)}},
        {"kinds": {"a"}},
        {"dtype": torch.bfloat16},
        {"array": np.array([0, 1, 3])},
        {"tensor": torch.tensor([0, 1, 3])},
        {"function": functools.partial(torch.clamp, min=1)},
        {"function": functools.partial(torch.clip, min=0)},
        {"settings": torch.nn.ReLU},
        {"more": True},
    ],
)
def test_every_kind_of_attribute_counts(changes):
    assert module_sha256(Odd()) == module_sha256(Odd())
    assert module_sha256(Odd(**changes)) != module_sha256(Odd())


def test_hooks_buffers_frozen_weights_and_what_is_trained_count():
    def changed(change):
        module = Odd()
        change(module)
        return module_sha256(module)

    def frozen(value):
        def change(module):
            module.linear.weight.requires_grad_(False).fill_(value)

        return change

    found = [
        changed(lambda module: None),
        changed(lambda module: module.scale.fill_(2)),
        changed(lambda module: module.linear.register_forward_hook(_hook)),
        changed(lambda module: module.linear.double()),
        changed(frozen(1.0)),
        changed(frozen(2.0)),
        changed(lambda module: setattr(module, "linear", nn.Linear(2, 3))),
    ]
    assert len(set(found)) == len(found)


def test_trained_values_and_the_mode_do_not_count():
    module = Odd()
    before = module_sha256(module)
    with torch.no_grad():
        module.linear.weight.fill_(9.0)
    module.train()
    trained = module_sha256(module)
    module.eval()
    assert before == trained == module_sha256(module)


@pytest.mark.parametrize("train", ["lora", "full", "last:1", "head", "pooling"])
def test_a_text_encoder_is_the_same_from_another_place_with_another_attention(tmp_path, train):
    folders = [write_model("bert", tmp_path / name / "model") for name in ("one", "two")]
    one = TextEncoder.load(str(folders[0]), train=train)
    two = TextEncoder.load(str(folders[1]), train=train, attention="eager")
    assert encoder_sha256(one) == encoder_sha256(two)
    assert (attention_of(one), attention_of(two)) == ("sdpa", "eager")
    one.encode(TEXTS)
    assert encoder_sha256(one) == encoder_sha256(two)
    one._text.pooling = "cls"
    assert encoder_sha256(one) != encoder_sha256(two)


def test_frozen_weights_of_a_base_model_count(tmp_path):
    folder = write_model("bert", tmp_path / "model")
    encoder = TextEncoder.load(folder, lora_rank=2)
    before = encoder_sha256(encoder)
    frozen = next(p for p in encoder.module.parameters() if not p.requires_grad)
    with torch.no_grad():
        frozen.view(-1)[0] += 1e-3
    assert encoder_sha256(encoder) != before


def test_encoders_without_attention_have_none():
    assert attention_of(small_encoder()) is None


def test_outputs_tell_what_is_computed_and_leave_the_weights_alone():
    encoder, same = small_encoder(seed=1), small_encoder(seed=2)
    before = {name: value.detach().clone() for name, value in encoder.trainable().items()}
    assert outputs_sha256(encoder) == outputs_sha256(same)
    assert all(torch.equal(before[name], value) for name, value in encoder.trainable().items())
    assert outputs_sha256(small_encoder(normalize=True)) != outputs_sha256(encoder)


def test_a_change_in_a_function_that_the_encoder_calls_is_seen(monkeypatch):
    """Neither the class nor its attributes show it."""
    encoder = small_encoder(normalize=True)
    before = encoder_sha256(encoder), outputs_sha256(encoder)
    monkeypatch.setattr(
        nn.functional, "normalize", lambda x, dim, eps: x / x.norm(p=1, dim=dim, keepdim=True)
    )
    assert encoder_sha256(encoder) == before[0]
    assert outputs_sha256(encoder) != before[1]


def test_hidden_states_that_somebody_looked_at_leave_the_hash(tmp_path):
    """transformers adds idle hooks then, and a run that goes on elsewhere has none."""
    encoder = TextEncoder.load(write_model("bert", tmp_path / "model"))
    before = encoder_sha256(encoder)
    objective = Objective(encoder, lambda rows, batch: rows.sum((1, 2)), small_plan(CAPPED))
    parts = objective.parts()
    tokens = encoder.tokenizer(TEXTS[:2], return_tensors="pt", padding=True)
    encoder._text.backbone(**tokens, output_hidden_states=True)
    hooks = [h for m in encoder.module.modules() for h in m._forward_hooks.values()]
    assert hooks, "there is something to leave out"
    assert encoder_sha256(encoder) == before
    objective.check_parts(parts)
    next(encoder.module.children()).register_forward_hook(lambda *given: None)
    assert encoder_sha256(encoder) != before
    with pytest.raises(RunError, match="must keep its layers, parameters and hooks"):
        objective.check_parts(parts)
