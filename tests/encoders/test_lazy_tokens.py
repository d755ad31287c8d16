"""Tokens on request."""

import numpy as np
import pytest

from reldp.encoders import lazy_tokens as module
from reldp.encoders.lazy_tokens import JoinedTokens, LazyTokens
from reldp.encoders.tokens import TokenTable
from reldp.errors import EncoderError


class Letters:
    """Tokenize into letters."""

    pad_token_id = 0

    def __init__(self):
        self.num_texts = 0

    def __call__(self, texts, max_length, **how):
        self.num_texts += len(texts)
        return {"input_ids": [[ord(c) for c in text[:max_length]] for text in texts]}


TEXTS = ["abc", "", "a", "abcdefghij"] * 5


def lazy(tokenizer=None):
    return LazyTokens(
        lambda rows: [TEXTS[row] for row in rows],
        len(TEXTS),
        tokenizer or Letters(),
        max_length=6,
        content_sha256="c",
    )


def test_a_text_is_tokenized_once_while_it_is_kept(monkeypatch):
    tokenizer = Letters()
    table = lazy(tokenizer)
    table.lengths[np.array([[0, 3], [3, 0]])]
    table.rows([3, 0, 3])
    assert tokenizer.num_texts == 2
    monkeypatch.setattr(module, "_MAX_KNOWN", 3)
    table.rows([3, 4, 5])
    assert set(table._known) == {3, 4, 5}


def test_lengths_stand_for_an_array_of_them():
    table = lazy()
    assert len(table.lengths) == len(table) == 20
    assert table.lengths[np.array([0, 1, 3])].tolist() == [3, 1, 6]
    assert table.lengths.max(initial=0) == 6
    with pytest.raises(EncoderError, match=r"`indices` must lie in 0\.\.19, got 20"):
        table.lengths[[20]]
    with pytest.raises(EncoderError, match="`indices` must lie in"):
        table.rows([-1])


def test_a_pool_comes_after_the_graph():
    pool = TokenTable(ids=np.array([9, 8, 7], np.int32), offsets=np.array([0, 1, 3]), pad_id=0)
    joined = lazy().join(pool)
    assert isinstance(joined, JoinedTokens)
    ids, mask = joined.rows([21, 2, 20])
    assert ids.tolist() == [[8, 7], [97, 0], [9, 0]]
    assert mask.tolist() == [[1, 1], [1, 0], [1, 0]]
    assert joined.lengths[[21, 3]].tolist() == [2, 6]
    other = TokenTable(ids=np.array([9, 8, 6], np.int32), offsets=np.array([0, 1, 3]), pad_id=0)
    assert lazy().join(other).content_sha256 != joined.content_sha256


def test_no_rows_are_rows_too():
    ids, mask = lazy().rows([])
    assert ids.shape == mask.shape == (0, 0)
