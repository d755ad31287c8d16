import numpy as np
import pytest
import torch

from reldp.encoders.head import HeadEncoder
from reldp.encoders.text import TextEncoder
from reldp.graph import EntityGraph
from tests.encoders.tiny import TEXTS


def make_graph():
    return EntityGraph.from_lists(list(range(len(TEXTS))), [(0, 1)], text=TEXTS)


def test_a_head_starts_at_the_quality_of_the_frozen_model(folder):
    head = TextEncoder.load(folder, train="head")
    assert isinstance(head, HeadEncoder)
    frozen = TextEncoder.load(folder, train="none")
    np.testing.assert_allclose(head.encode(TEXTS), frozen.encode(TEXTS), atol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"head_hidden": (16,)}, {"head_dim": 6}])
def test_cached_vectors_and_texts_give_the_same_embeddings(folder, settings):
    encoder = TextEncoder.load(folder, train="head", normalize=True, **settings)
    table = encoder.table(make_graph(), pool=["blue cat"])
    from_cache = encoder.embed(encoder.rows(table, np.arange(len(table)))).detach().numpy()
    np.testing.assert_allclose(from_cache, encoder.encode([*TEXTS, "blue cat"]), atol=1e-5)
    np.testing.assert_allclose(from_cache[:-1], encoder.encode_graph(make_graph()), atol=1e-5)
    assert from_cache.shape[1] == encoder.dim


def test_only_the_head_is_trained_and_only_the_head_is_run(folder):
    encoder = TextEncoder.load(folder, train="head", head_hidden=(16,), head_dim=6)
    assert set(encoder.trainable()) == set(dict(encoder.module.named_parameters()))
    assert encoder.describe()["num_trainable"] == 32 * 16 + 16 + 16 * 6 + 6
    rows = encoder.rows(encoder.table(make_graph()), [1, 2])
    assert rows["features"].shape == (2, 32)
    encoder.embed(rows).sum().backward()
    assert all(p.grad is not None for p in encoder.trainable().values())


def test_training_the_head_moves_the_embeddings_of_texts(folder):
    encoder = TextEncoder.load(folder, train="head")
    before = encoder.encode(TEXTS)
    with torch.no_grad():
        for parameter in encoder.trainable().values():
            parameter *= 2.0
    np.testing.assert_allclose(encoder.encode(TEXTS), 2 * before, rtol=1e-4, atol=1e-5)


def test_the_description_says_head_and_keeps_the_base_model(folder):
    head = TextEncoder.load(folder, train="head", seed=4).describe()
    frozen = TextEncoder.load(folder, train="none").describe()
    assert head["adaptation"]["train"] == "head"
    assert head["base_weights_sha256"] == frozen["base_weights_sha256"]
