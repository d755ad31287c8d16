import pytest
from transformers import AutoModel, AutoTokenizer

from reldp.encoders.architecture import (
    has_plain_positions,
    is_decoder,
    num_positions,
    tokeniser_hash,
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


def test_the_hash_of_a_tokeniser_sees_its_words(folders):
    hashes = [tokeniser_hash(AutoTokenizer.from_pretrained(folders[k])) for k in ("bert", "llama")]
    again = tokeniser_hash(AutoTokenizer.from_pretrained(folders["bert"]))
    assert hashes[0] == again
    assert hashes[0] != hashes[1]
