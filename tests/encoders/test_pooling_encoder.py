"""A frozen model with trained pooling: from stored states and from texts, saved and loaded."""

import numpy as np
import pytest
import torch

from reldp.encoders.pooling_encoder import PoolingEncoder
from reldp.encoders.text import TextEncoder
from reldp.errors import EncoderError
from reldp.gradients import PerUnitGradients
from reldp.graph import EntityGraph
from tests.encoders.tiny import TEXTS
from tests.gradients.models import Case, clipped, oracle, relative


def make_graph():
    return EntityGraph.from_lists(list(range(len(TEXTS))), [(0, 1)], text=TEXTS)


def trained(folder, **settings):
    encoder = TextEncoder.load(folder, train="pooling", pooling="mean", **settings)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for value in encoder.trainable().values():
            value.copy_(torch.randn(value.shape, generator=generator))
    return encoder


def test_it_starts_as_the_frozen_model(folder):
    encoder = TextEncoder.load(folder, train="pooling", pooling="mean")
    assert isinstance(encoder, PoolingEncoder)
    frozen = TextEncoder.load(folder, train="none", pooling="mean")
    np.testing.assert_allclose(encoder.encode(TEXTS), frozen.encode(TEXTS), atol=1e-6)
    assert encoder.describe()["base_weights_sha256"] == frozen.describe()["base_weights_sha256"]
    assert encoder.describe()["adaptation"] == {"train": "pooling"}
    assert encoder.describe()["num_trainable"] == 2 * encoder.dim


@pytest.mark.parametrize("normalize", [True, False])
def test_stored_states_and_texts_give_the_same_embeddings(folder, normalize):
    encoder = trained(folder, normalize=normalize)
    table = encoder.table(make_graph(), pool=["blue cat"])
    stored = encoder.embed(encoder.rows(table, np.arange(len(table)))).detach().numpy()
    np.testing.assert_allclose(stored, encoder.encode([*TEXTS, "blue cat"]), atol=1e-5)
    np.testing.assert_allclose(stored[:-1], encoder.encode_graph(make_graph()), atol=1e-5)
    start = TextEncoder.load(folder, train="none", pooling="mean", normalize=normalize)
    assert np.abs(start.encode(TEXTS) - stored[:-1]).max() > 0.1


def test_a_saved_encoder_is_loaded_with_its_pooling(folder, tmp_path):
    encoder = trained(folder)
    encoder.save(tmp_path / "saved")
    again = TextEncoder.load(tmp_path / "saved", train="none")
    np.testing.assert_allclose(again.encode(TEXTS), encoder.encode(TEXTS), atol=1e-5)
    start = TextEncoder.load(folder, train="none", pooling="mean")
    hashes = {e.describe()["base_weights_sha256"] for e in (again, start)}
    assert len(hashes) == 2  # the pooling counts
    with pytest.raises(EncoderError, match="`pooling` must be left out"):
        TextEncoder.load(tmp_path / "saved", train="none", pooling="cls")
    with pytest.raises(EncoderError, match="`train` must not be pooling"):
        TextEncoder.load(tmp_path / "saved", train="pooling")
    again.save(tmp_path / "twice")
    twice = TextEncoder.load(tmp_path / "twice", train="none")
    np.testing.assert_array_equal(twice.encode(TEXTS), again.encode(TEXTS))


def test_adapters_can_be_trained_below_pooling_that_was_trained_before(folder, tmp_path):
    encoder = trained(folder)
    encoder.save(tmp_path / "saved")
    further = TextEncoder.load(tmp_path / "saved", lora_rank=2)
    np.testing.assert_allclose(further.encode(TEXTS), encoder.encode(TEXTS), atol=1e-5)
    assert all("lora" in name for name in further.trainable())


def test_other_pooling_is_refused(folder):
    with pytest.raises(EncoderError, match=r"starts as mean pooling, .* got last pooling"):
        TextEncoder.load(folder, train="pooling", pooling="last")
    with pytest.raises(EncoderError, match="`train` must be head for a head's settings"):
        TextEncoder.load(folder, train="pooling", head_dim=3)


def test_clipped_sums_of_units_with_texts_of_several_lengths_equal_the_oracle(folder):
    encoder = trained(folder, normalize=True)
    table = encoder.table(make_graph())
    rows = encoder.rows(table, np.arange(len(table)))
    assert len(set(table.lengths.tolist())) > 1
    generator = torch.Generator().manual_seed(2)
    numbers = torch.randint(len(table), (6, 4), generator=generator)
    case = Case(
        encoder.module, lambda chosen: encoder.module(**{k: v[chosen] for k, v in rows.items()})
    )
    norms, gradients = oracle(case, numbers)
    thresholds = torch.full((6,), float(norms.median()) * 1.01)
    sums = PerUnitGradients(encoder.module).clipped_sum(
        lambda a, b: case.losses(numbers[a:b]), thresholds, 4
    )
    assert float(((sums.norms - norms).abs() / norms).max()) < 1e-4
    assert relative(sums.sums, clipped(norms, gradients, thresholds)) < 1e-4
    assert relative(sums.sums, clipped(norms, gradients, thresholds / 2)) > 0.1  # control
