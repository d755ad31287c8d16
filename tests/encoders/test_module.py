"""A torch module as an encoder: embeddings, descriptions, folders."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from transformers import AutoModel, AutoTokenizer

import reldp
from reldp.encoders import Array, Column, ModuleEncoder, PerEntity
from reldp.errors import ConfigError, EncoderError
from reldp.graph import EntityGraph
from reldp.training.identity import encoder_sha256, outputs_sha256
from tests.encoders.modules import (
    Mixed,
    Transformer,
    mixed_graph,
    mixed_inputs,
    small_cnn,
    words_input,
)


def encoder(**settings):
    return ModuleEncoder(small_cnn(), Column("features", shape=(1, 4, 4)), **settings)


def image_graph(count=10, seed=0):
    images = np.random.default_rng(seed).normal(size=(count, 16)).astype(np.float32)
    return EntityGraph.from_lists(range(count), [(0, 1)], features=images)


def test_embeddings_are_those_of_the_module():
    graph, made = image_graph(), encoder()
    images = torch.from_numpy(graph.features.reshape(-1, 1, 4, 4).copy())
    expected = made.module(images).detach().numpy()
    np.testing.assert_allclose(made.encode_graph(graph), expected, atol=1e-6)
    assert not np.isclose(expected, np.roll(expected, 1, axis=0), atol=1e-3).all(axis=1).any()
    np.testing.assert_allclose(
        made.encode_graph(graph.promise_degrees(1), [3, 0], batch_size=1),
        expected[[3, 0]],
        atol=1e-6,
    )
    assert not made.module.training


def test_a_public_name_of_the_package():
    assert reldp.ModuleEncoder is ModuleEncoder


def test_embeddings_are_the_same_with_and_without_gradients():
    """Torch's attention for inference would return zeros at padded positions."""

    class Pooled(Transformer):
        def forward(self, words):
            hidden = words == 0
            return self.encoder(self.words(words), src_key_padding_mask=hidden).mean(1)

    made, graph = ModuleEncoder(Pooled(), words_input()), mixed_graph(8)
    rows = made.rows(made.table(graph), np.arange(8))
    np.testing.assert_allclose(
        made.encode_graph(graph), made.embed(rows).detach().numpy(), atol=1e-5
    )


def test_normalized_embeddings_have_length_one():
    lengths = np.linalg.norm(encoder(normalize=True).encode_graph(image_graph()), axis=1)
    np.testing.assert_allclose(lengths, 1.0, rtol=1e-6)


def test_several_inputs_and_a_public_pool():
    made = ModuleEncoder(Mixed(), mixed_inputs())
    table = made.table(mixed_graph(5), pool=mixed_graph(3, seed=1))
    assert len(table) == 8
    rows = made.rows(table, [7, 0])
    assert rows["words"].dtype == torch.int64
    pool = made.encode_graph(mixed_graph(3, seed=1))
    np.testing.assert_allclose(made.embed(rows).detach().numpy()[0], pool[2], atol=1e-6)
    assert not np.allclose(pool[1], pool[2], atol=1e-3)
    with pytest.raises(EncoderError, match="`pool` must be an EntityGraph for a module, got list"):
        made.table(mixed_graph(5), pool=["a text"])
    with pytest.raises(EncoderError, match="`graph` must be an EntityGraph"):
        made.table(np.ones((3, 2)))


def test_a_graph_without_the_column_is_one_clear_line():
    texts = EntityGraph.from_lists([1, 2], [(1, 2)], text=["a", "b"])
    with pytest.raises(EncoderError, match=r"`graph` must have a column 'price' for the module"):
        ModuleEncoder(Mixed(), mixed_inputs()).table(texts)
    with pytest.raises(EncoderError, match=r"`graph` must have a column 'text' for word_ids"):
        ModuleEncoder(Mixed(), mixed_inputs()).table(image_graph())


def test_what_is_saved_loads_with_the_module_s_code(tmp_path):
    made = encoder(normalize=True)
    with torch.no_grad():
        made.module[0].weight.add_(1.0)
    made.save(tmp_path / "model")
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == [
        "encoder.json",
        "model.safetensors",
    ]
    shape = Column("features", shape=(1, 4, 4))
    again = ModuleEncoder.load(tmp_path / "model", small_cnn(seed=5), shape)
    graph = image_graph()
    assert np.array_equal(again.encode_graph(graph), made.encode_graph(graph))
    assert again.describe() == made.describe()
    with pytest.raises(EncoderError, match="`inputs` must be those"):
        ModuleEncoder.load(tmp_path / "model", small_cnn(), Column("features", shape=(1, 2, 8)))
    with pytest.raises(EncoderError, match=r"Sequential, got .*Sequential: Error"):
        ModuleEncoder.load(tmp_path / "model", nn.Sequential(nn.Conv2d(1, 2, 3)), shape)
    with pytest.raises(EncoderError, match="must be new or empty"):
        made.save(tmp_path / "model")
    made.save(tmp_path / "model", overwrite=True)


@pytest.mark.parametrize("damage", ["weights", "kind", "json"])
def test_a_damaged_folder_is_refused(tmp_path, damage):
    encoder().save(tmp_path / "model")
    path = tmp_path / "model" / "encoder.json"
    if damage == "weights":
        (tmp_path / "model" / "model.safetensors").unlink()
    elif damage == "kind":
        path.write_text(json.dumps({**json.loads(path.read_text()), "kind": "features"}))
    else:
        path.write_text("{")
    with pytest.raises(EncoderError, match=r"`(folder|module)`"):
        ModuleEncoder.load(tmp_path / "model", small_cnn(), Column("features", shape=(1, 4, 4)))


class Centered(nn.Module):
    """A module with a buffer and no parameter."""

    def __init__(self):
        super().__init__()
        self.register_buffer("center", torch.arange(16.0))

    def forward(self, x):
        return x - self.center


@pytest.mark.parametrize("kind", [nn.Identity, Centered])
def test_a_module_without_parameters_is_a_baseline_that_cannot_be_trained(tmp_path, kind):
    images = image_graph(40).features
    ring = [(i, (i + 1) % 40) for i in range(40)]
    graph = EntityGraph.from_lists(range(40), ring, features=images)
    given = Column("features", shape=16)
    made = ModuleEncoder(kind(), given)
    expected = graph.features - (np.arange(16.0) if kind is Centered else 0)
    np.testing.assert_allclose(made.encode_graph(graph), expected, rtol=1e-6)
    assert 0 < reldp.evaluate(made, graph, candidates=10)["mrr"] < 1
    made.save(tmp_path / "model")
    again = ModuleEncoder.load(tmp_path / "model", kind(), given)
    assert np.array_equal(again.encode_graph(graph), made.encode_graph(graph))
    assert made.describe()["adaptation"] == {"train": "no parameters"}
    capped = graph.cap_degrees(2, seed=0)
    plan = reldp.PrivacyPlan.for_graph(
        capped, sizes="public", num_negatives=1, expected_batch_size=4, num_steps=2
    )
    with pytest.raises(ConfigError, match="`encoder` must have trainable parameters, got none"):
        reldp.Trainer(made, capped, plan).fit(tmp_path / "run")


def test_shared_weights_are_saved_and_loaded(tmp_path):
    def tied():
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
        module[2].weight = module[0].weight
        return module

    given = Column("features", shape=4)
    made = ModuleEncoder(tied(), given)
    made.save(tmp_path / "model")
    again = ModuleEncoder.load(tmp_path / "model", tied(), given)
    assert again.module[2].weight is again.module[0].weight
    assert len(again.trainable()) == 3


def test_a_description_is_the_code_the_inputs_and_what_is_frozen():
    described = encoder().describe()
    assert described == encoder().describe()
    json.dumps(described)
    assert described["kind"] == "module"
    assert described["dim"] == 5
    assert described["inputs"]["input"]["shape"] == [1, 4, 4]
    other_start = ModuleEncoder(small_cnn(seed=9), Column("features", shape=(1, 4, 4)))
    assert other_start.describe() == described  # a ledger has the hash of the start
    frozen = [small_cnn(seed) for seed in (0, 9)]
    for module in frozen:
        module[0].requires_grad_(False)
    one, other = (ModuleEncoder(m, Column("features", shape=(1, 4, 4))).describe() for m in frozen)
    assert one["frozen_sha256"] != other["frozen_sha256"]
    assert one["adaptation"] == {"train": "some parameters"}
    assert ModuleEncoder(Mixed(), mixed_inputs()).describe()["source_sha256"] is not None


def test_public_hashes_depend_on_the_code_and_never_on_the_data():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(1, 2)

        def forward(self, x):
            return self.layer(x)

    encoders = [
        ModuleEncoder(_ones(Net()), Array(np.full((3, 1), v), ids=range(3))) for v in (1, 2)
    ]
    assert len({encoder_sha256(e) for e in encoders}) == 1
    assert len({outputs_sha256(e) for e in encoders}) == 1
    assert len({json.dumps(e.describe()) for e in encoders}) == 1
    secret = np.arange(3.0)
    closed = [PerEntity(lambda entity, s=s: s[:1], shape=1) for s in (secret, secret + 1)]
    encoders = [ModuleEncoder(_ones(Net()), given) for given in closed]
    assert len({encoder_sha256(e) for e in encoders}) == 1


def _ones(module):
    for parameter in module.parameters():
        nn.init.ones_(parameter)
    return module


class TextAndNumbers(nn.Module):
    """A pretrained model's mean state, and a projection of numbers."""

    def __init__(self, folder):
        super().__init__()
        self.text, self.numbers = AutoModel.from_pretrained(folder), nn.Linear(2, 32)

    def forward(self, input_ids, attention_mask, numbers):
        mask = nn.functional.pad(attention_mask[:, 1:], (1, 0), value=1)  # no text is empty
        states = self.text(input_ids=input_ids, attention_mask=mask).last_hidden_state
        return (states * mask[..., None]).sum(1) / mask.sum(1, True) + self.numbers(numbers)


@pytest.mark.parametrize("kind", ["bert", "mpnet", "llama"])
def test_a_pretrained_text_model_inside_of_a_module(folders, kind):
    """Biases of keys, which attention cancels, have gradients of nothing but rounding."""
    tokenizer = AutoTokenizer.from_pretrained(folders[kind])
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token

    def tokens(name, num_values):
        settings = {"padding": "max_length", "truncation": True, "max_length": 8}
        return PerEntity(
            lambda entity: tokenizer(entity["text"], **settings)[name],
            shape=8,
            num_values=num_values,
        )

    inputs = {
        "input_ids": tokens("input_ids", len(tokenizer)),
        "attention_mask": tokens("attention_mask", 2),
        "numbers": ["price", "year"],
    }
    made = ModuleEncoder(TextAndNumbers(folders[kind]), inputs)
    graph = mixed_graph(6)
    rows = made.rows(made.table(graph), np.arange(6))
    assert rows["input_ids"].shape == rows["attention_mask"].shape == (6, 8)
    alone = [made.encode_graph(graph, [entity])[0] for entity in range(6)]
    np.testing.assert_allclose(made.encode_graph(graph), alone, atol=1e-5)
    assert not np.isclose(alone, np.roll(alone, 1, axis=0), atol=1e-3).all(axis=1).any()
