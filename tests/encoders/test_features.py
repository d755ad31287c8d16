import json
import os

import numpy as np
import pytest
import torch

from reldp.encoders.features import FeatureEncoder
from reldp.errors import EncoderError
from reldp.graph import EntityGraph


def graph_of(features):
    ids = list(range(len(features)))
    return EntityGraph.from_lists(ids, [(0, 1)], features=features)


def test_a_linear_encoder_starts_as_the_identity_and_an_mlp_does_not():
    features = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    assert np.array_equal(FeatureEncoder(4).encode(features), features)
    assert FeatureEncoder(4, hidden=(8,)).encode(features).shape == (5, 4)
    assert FeatureEncoder(4, dim=2).encode(features).shape == (5, 2)


def test_the_mlp_is_the_formula():
    encoder = FeatureEncoder(3, hidden=(5,), dim=2, activation="tanh", seed=4)
    features = np.random.default_rng(1).normal(size=(7, 3)).astype(np.float32)
    first, second = encoder.layers
    hidden = np.tanh(features @ first.weight.detach().numpy().T + first.bias.detach().numpy())
    expected = hidden @ second.weight.detach().numpy().T + second.bias.detach().numpy()
    np.testing.assert_allclose(encoder.encode(features, batch_size=2), expected, atol=1e-6)


def test_rows_of_a_graph_then_of_a_public_pool_carry_gradients():
    features = np.arange(12, dtype=np.float32).reshape(6, 2)
    graph = graph_of(features[:4])
    encoder = FeatureEncoder.for_graph(graph)
    table = encoder.table(graph.cap_degrees(1, seed=0), pool=features[4:])
    embeddings = encoder.embed(encoder.rows(table, [5, 0, 5]))
    assert embeddings.tolist() == features[[5, 0, 5]].tolist()
    embeddings.sum().backward()
    assert all(p.grad is not None for p in encoder.trainable().values())
    assert encoder.token_rows(table).lengths.tolist() == [1] * 6
    assert encoder.token_rows(table).max_length is None
    assert encoder.encode_graph(graph, [3, 1]).tolist() == features[[3, 1]].tolist()


def test_normalized_embeddings_have_length_one():
    encoder = FeatureEncoder(3, normalize=True)
    lengths = np.linalg.norm(encoder.encode(np.random.default_rng(2).normal(size=(9, 3))), axis=1)
    np.testing.assert_allclose(lengths, 1.0, rtol=1e-6)


def test_a_seed_decides_the_start_and_nothing_else_is_touched():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    one, same, other = (FeatureEncoder(4, hidden=(3,), seed=s).describe() for s in (1, 1, 2))
    assert torch.equal(torch.rand(1), expected)
    assert one == same
    assert one["base_weights_sha256"] != other["base_weights_sha256"]


def test_what_is_saved_loads_as_the_same_encoder(tmp_path):
    encoder = FeatureEncoder(4, hidden=(6,), dim=3, activation="gelu", bias=False, seed=9)
    features = np.random.default_rng(3).normal(size=(8, 4))
    encoder.save(tmp_path / "model")
    loaded = FeatureEncoder.load(tmp_path / "model")
    assert np.array_equal(loaded.encode(features), encoder.encode(features))
    assert loaded.describe() == encoder.describe()
    json.dumps(loaded.describe())


@pytest.mark.parametrize("damage", ["weights", "settings", "kind", "shape"])
def test_a_damaged_folder_is_refused(tmp_path, damage):
    folder = tmp_path / "model"
    FeatureEncoder(4).save(folder)
    settings = json.loads((folder / "encoder.json").read_text())
    if damage == "weights":
        (folder / "model.safetensors").unlink()
    elif damage == "settings":
        del settings["in_dim"]
    elif damage == "kind":
        settings["kind"] = "text"
    else:
        settings["dim"] = 5
    (folder / "encoder.json").write_text(json.dumps(settings))
    with pytest.raises(EncoderError, match="`folder`") as refusal:
        FeatureEncoder.load(folder)
    assert str(tmp_path) not in str(refusal.value)
    assert "Errno" not in str(refusal.value)


def test_features_that_do_not_fit_are_refused():
    encoder = FeatureEncoder(2)
    with pytest.raises(EncoderError, match=r"\(entities, 2\)"):
        encoder.encode(np.ones((3, 4)))
    with pytest.raises(EncoderError, match="row 1"):
        encoder.encode(np.array([[1.0, 1.0], [np.nan, 0.0]]))
    with pytest.raises(EncoderError, match="TextEncoder"):
        encoder.table(EntityGraph.from_lists([1, 2], [(1, 2)], text=["a", "b"]))
    with pytest.raises(EncoderError, match="got 3"):
        encoder.rows(encoder.table(np.ones((3, 2), np.float32)), [3])


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"in_dim": 0}, "in_dim"),
        ({"in_dim": 2, "hidden": (3, -1)}, "hidden"),
        ({"in_dim": 2, "hidden": {}}, "hidden"),
        ({"in_dim": 2, "hidden": ""}, "hidden"),
        ({"in_dim": 2, "hidden": 1e308}, "hidden"),
        ({"in_dim": 2, "dim": 1.5}, "dim"),
        ({"in_dim": 2, "activation": "swish"}, "activation"),
    ],
)
def test_settings_that_mean_nothing_are_refused_by_name(settings, named):
    with pytest.raises(EncoderError, match=f"`{named}`"):
        FeatureEncoder(**settings)


@pytest.mark.parametrize("seed", [2**64, 10**400, 1.5, "a"])
def test_a_seed_that_torch_refuses_is_refused(seed):
    with pytest.raises(EncoderError, match="`seed` must be an integer"):
        FeatureEncoder(6, seed=seed)


def test_a_pipe_in_the_place_of_a_file_is_refused(tmp_path):
    FeatureEncoder(6).save(tmp_path / "model")
    for name in ("model.safetensors", "encoder.json"):
        (tmp_path / "model" / name).rename(tmp_path / name)
        os.mkfifo(tmp_path / "model" / name)
        with pytest.raises(EncoderError):
            FeatureEncoder.load(tmp_path / "model")
        (tmp_path / name).replace(tmp_path / "model" / name)
    FeatureEncoder.load(tmp_path / "model")
