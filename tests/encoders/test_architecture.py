import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from reldp.encoders import TextEncoder
from reldp.encoders.architecture import (
    adds_mask,
    has_plain_positions,
    is_decoder,
    num_positions,
    tokenizer_hash,
)


@pytest.mark.parametrize(
    ("model_type", "expected"),
    [("llama", True), ("qwen2", True), ("gpt2", True), ("bert", False), ("mpnet", False)],
)
def test_decoders_are_the_families_that_read_from_left_to_right(model_type, expected):
    assert is_decoder(model_type) is expected


@pytest.mark.parametrize(
    ("kind", "positions", "plain"), [("bert", 32, True), ("mpnet", 30, False), ("llama", 32, False)]
)
def test_positions_after_a_padding_row_are_fewer_and_not_plain(folders, kind, positions, plain):
    model = AutoModel.from_pretrained(folders[kind])
    assert num_positions(model) == positions
    assert has_plain_positions(model) is plain


def test_the_hash_of_a_tokenizer_sees_its_words(folders):
    hashes = [tokenizer_hash(AutoTokenizer.from_pretrained(folders[k])) for k in ("bert", "llama")]
    again = tokenizer_hash(AutoTokenizer.from_pretrained(folders["bert"]))
    assert hashes[0] == again
    assert hashes[0] != hashes[1]


@pytest.mark.parametrize(
    ("kind", "attention", "expected"),
    [
        ("bert", "sdpa", False),
        ("bert", "eager", False),
        ("mpnet", "eager", True),
        ("llama", "eager", False),
    ],
)
def test_masks_are_made_here_for_mpnet_alone(folders, kind, attention, expected):
    model = AutoModel.from_pretrained(folders[kind], attn_implementation=attention)
    assert adds_mask(model) is expected


def test_a_mask_made_here_is_the_one_transformers_makes(folders):
    encoder = TextEncoder.load(folders["mpnet"], train="none")
    table = encoder.tokenize(["the red cat sees a big dog", "cat", "a blue tree"])
    rows = encoder.rows(table, [0, 1, 2])
    own = encoder.embed(rows)
    encoder.module.adds_mask = False
    theirs = encoder.embed(rows)
    assert torch.allclose(own, theirs, atol=1e-6)
    rows["attention_mask"] = torch.ones_like(rows["attention_mask"])
    assert not torch.allclose(own, encoder.embed(rows), atol=1e-3)
