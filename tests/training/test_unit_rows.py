"""Rows of a unit depend on that unit alone, whatever an encoder's own `rows` does."""

import numpy as np
import pytest
import torch

from reldp.encoders import FeatureEncoder, TextEncoder, TokenRows
from reldp.errors import InputError
from reldp.training.unit_rows import UnitRows
from tests.encoders.tiny import TEXTS, write_model

TABLE = FeatureEncoder(3).table(np.random.default_rng(0).normal(size=(12, 3)))
UNITS = np.arange(12).reshape(4, 3)


class Centered(FeatureEncoder):
    def rows(self, table, indices):
        features = super().rows(table, indices)["features"]
        return {"features": features - features.mean(0)}


class Cut(FeatureEncoder):
    """Leaves out columns that are small in all rows asked for."""

    def rows(self, table, indices):
        features = super().rows(table, indices)["features"]
        return {"features": features[:, : 1 + int(np.max(indices) > 5)]}


class Own(TextEncoder):
    def rows(self, table, indices):
        return super().rows(table, indices)


def test_an_encoder_from_outside_sees_one_unit_at_a_time():
    found = UnitRows(Centered(3), TABLE).of(UNITS)["features"].view(4, 3, 3)
    assert found.mean(1).abs().max() < 1e-6
    for unit in range(4):
        alone = UnitRows(Centered(3), TABLE).of(UNITS[unit : unit + 1])["features"]
        assert torch.equal(alone, found[unit])


def test_so_does_one_whose_rows_were_replaced():
    encoder = FeatureEncoder(3)
    encoder.rows = Centered(3).rows
    expected = UnitRows(Centered(3), TABLE).of(UNITS)["features"]
    assert torch.equal(UnitRows(encoder, TABLE).of(UNITS)["features"], expected)


def test_the_package_s_own_encoders_are_asked_once():
    encoder = FeatureEncoder(3)
    found = UnitRows(encoder, TABLE).of(UNITS)["features"]
    assert torch.equal(found, encoder.rows(TABLE, UNITS.reshape(-1))["features"])


def test_shapes_that_differ_between_units_are_refused():
    assert UnitRows(Cut(3), TABLE).of(UNITS[:2])["features"].shape == (6, 1)
    with pytest.raises(InputError, match="one shape for all entities"):
        UnitRows(Cut(3), TABLE).of(UNITS)


def test_rows_of_tokens_are_padded_as_if_asked_at_once(tmp_path):
    model = write_model("mpnet", tmp_path / "model")  # whose padding token is not 0
    encoder = Own.load(model, lora_rank=2)
    table = encoder.tokenize(TEXTS)
    own = TextEncoder.rows(encoder, table, np.arange(8))
    outside = UnitRows(_as(Own, encoder), table).of(np.arange(8).reshape(4, 2))
    assert own["input_ids"].unique().numel() > 2
    for name, value in own.items():
        assert torch.equal(outside[name], value)


def test_units_are_ordered_by_their_longest_row():
    class OfLengths(FeatureEncoder):
        def token_rows(self, table):
            return TokenRows(lengths=np.array([1, 5, 2, 9]), max_length=9, padding={"features": 0})

    units = np.array([[0, 0], [0, 1], [2, 0], [2, 1]])
    table = FeatureEncoder(3).table(np.ones((4, 3)))
    rows = UnitRows(OfLengths(3), table)
    assert rows.longest(units).tolist() == [1, 5, 2, 5]
    assert rows.order(units).tolist() == [1, 3, 2, 0]
    assert UnitRows(FeatureEncoder(3), table).order(units).tolist() == [0, 1, 2, 3]
    with pytest.raises(InputError, match="`token_rows` must give the length of every row"):
        UnitRows(OfLengths(3), TABLE)


def _as(kind, encoder):
    encoder.__class__ = kind
    return encoder
