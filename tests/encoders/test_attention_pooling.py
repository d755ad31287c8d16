"""Attention pooling starts as mean pooling, ignores padding, and is read back as it was written."""

import json

import pytest
import torch

from reldp.encoders.attention_pooling import (
    AttentionPooling,
    read_attention_pooling,
    write_attention_pooling,
)
from reldp.encoders.pooling import pool
from reldp.errors import EncoderError


def trained(dim, seed=0):
    pooling = AttentionPooling(dim)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in pooling.parameters():
            value.copy_(torch.randn(dim, generator=generator))
    return pooling


def rows():
    hidden = torch.randn((3, 5, 4), generator=torch.Generator().manual_seed(1))
    return hidden, torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]])


def test_it_starts_as_mean_pooling():
    hidden, mask = rows()
    torch.testing.assert_close(AttentionPooling(4)(hidden, mask), pool(hidden, mask, "mean"))


def test_weights_are_a_softmax_of_scores_over_the_tokens_of_a_text():
    (hidden, mask), pooling = rows(), trained(4)
    row = hidden[1, :2]
    weights = torch.exp(row @ pooling.query)
    expected = (weights[:, None] * row).sum(0) / weights.sum() + pooling.offset
    torch.testing.assert_close(pooling(hidden, mask)[1], expected)


def test_padding_changes_nothing():
    (hidden, mask), pooling = rows(), trained(4)
    other = torch.where(mask[..., None] == 1, hidden, 100 * torch.ones(()))
    assert torch.equal(pooling(hidden, mask), pooling(other, mask))


def test_what_was_written_is_read_back_and_frozen(tmp_path):
    pooling = trained(4)
    write_attention_pooling(tmp_path / "p", pooling)
    again = read_attention_pooling(tmp_path / "p", 4)
    assert torch.equal(again.query, pooling.query)
    assert torch.equal(again.offset, pooling.offset)
    assert not any(value.requires_grad for value in again.parameters())


def test_damage_is_refused(tmp_path):
    from safetensors.torch import save_file

    write_attention_pooling(tmp_path / "p", trained(4))
    with pytest.raises(EncoderError, match="for 5 dimensions, got 4"):
        read_attention_pooling(tmp_path / "p", 5)
    (tmp_path / "p" / "config.json").write_text(json.dumps({"dim": "9" * 10**5}))
    with pytest.raises(EncoderError, match="for 4 dimensions, got '999") as refused:
        read_attention_pooling(tmp_path / "p", 4)
    assert len(str(refused.value)) < 200
    (tmp_path / "p" / "config.json").write_text('{"dim": 4}')
    weights = tmp_path / "p" / "model.safetensors"
    save_file({"query": torch.zeros(3), "offset": torch.zeros(4)}, weights)
    with pytest.raises(EncoderError, match="a query and an offset of 4 numbers"):
        read_attention_pooling(tmp_path / "p", 4)
    save_file({"query": torch.zeros(4), "offset": torch.full((4,), torch.nan)}, weights)
    with pytest.raises(EncoderError, match="finite"):
        read_attention_pooling(tmp_path / "p", 4)
    weights.unlink()
    with pytest.raises(EncoderError, match="attention pooling"):
        read_attention_pooling(tmp_path / "p", 4)
