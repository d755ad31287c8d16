import json
import shutil
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from reldp.encoders import tokens
from reldp.encoders.loading import load_pretrained
from reldp.encoders.tokens import TokenTable, checked_indices, tokenize, tokenize_batch
from reldp.errors import EncoderError
from tests.encoders.tiny import TEXTS


def make_table(rows, pad_id=0):
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    ids = np.array([token for row in rows for token in row], dtype=np.int32)
    return TokenTable(ids=ids, offsets=offsets, pad_id=pad_id)


@given(
    rows=st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=9), min_size=1, max_size=8),
    data=st.data(),
)
def test_rows_are_the_texts_asked_for_padded_on_the_right(rows, data):
    table = make_table(rows)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=12))
    ids, mask = table.rows(chosen)
    longest = max(len(rows[index]) for index in chosen)
    assert ids.tolist() == [rows[i] + [0] * (longest - len(rows[i])) for i in chosen]
    assert mask.tolist() == [[1] * len(rows[i]) + [0] * (longest - len(rows[i])) for i in chosen]


def test_a_public_pool_comes_after_the_graph():
    joined = make_table([[1, 2], [3]]).join(make_table([[4], [5, 6]]))
    assert joined.rows([2, 3, 0])[0].tolist() == [[4, 0], [5, 6], [1, 2]]
    with pytest.raises(EncoderError, match="same encoder"):
        joined.join(make_table([[1]], pad_id=9))


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_outside_is_refused_and_never_wraps_around(index):
    with pytest.raises(EncoderError, match=str(index)):
        make_table([[1], [2]]).rows([0, index])


def test_tokenizing_in_batches_equals_the_tokenizer_text_by_text(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    table = tokenize(tokenizer, [TEXTS[:3], [], TEXTS[3:]], max_length=7)
    assert len(table) == len(TEXTS)
    assert table.ids.dtype == np.int32
    for index, text in enumerate(TEXTS):
        expected = tokenizer(text, truncation=True, max_length=7)["input_ids"]
        assert table.rows([index])[0][0].tolist() == expected
    assert table.lengths.max() == 7


def test_a_text_without_a_token_becomes_one_neutral_token(folders):
    tokenizer = AutoTokenizer.from_pretrained(folders["bert"])
    tokenizer.backend_tokenizer.post_processor = None
    assert tokenize(tokenizer, [["", "cat"]], 8).lengths.tolist() == [1, 1]


def test_a_text_that_is_no_text_is_named(folders):
    tokenizer = AutoTokenizer.from_pretrained(folders["bert"])
    with pytest.raises(EncoderError, match="NoneType at index 2"):
        tokenize(tokenizer, [["a"], ["b", None]], 8)


def test_no_texts_make_an_empty_table(folders):
    table = tokenize(AutoTokenizer.from_pretrained(folders["bert"]), [], 8)
    assert len(table) == 0
    assert table.rows(np.zeros(0, int))[0].shape == (0, 0)


def test_an_id_in_place_of_an_index_is_not_repeated():
    for wrong in (["bob@example.com"], [2**70], [[0], [1, 2]]):
        with pytest.raises(EncoderError, match="`indices` must be rows of entities") as caught:
            checked_indices(wrong, 3)
        assert "bob" not in str(caught.value)
        assert caught.value.__suppress_context__


class PanicException(BaseException):
    """As tokenizers raise it, which is no Exception."""


def test_a_tokenizer_that_gives_up_is_one_line_without_the_text():
    def tokenizer(texts, **_):
        raise PanicException(f"retry-limit-in-match over: {texts}")

    with pytest.raises(EncoderError, match="got one that gave up") as caught:
        tokenize_batch(tokenizer, ["secret"], 0, 16)
    assert "secret" not in str(caught.value)

    def without_unknown(texts, **_):
        raise Exception(
            f"WordPiece error: Missing [UNK] token for {texts}"
        )  # as tokenizers raise it

    with pytest.raises(
        EncoderError, match="can split every text, got Exception for some"
    ) as caught:
        tokenize_batch(without_unknown, ["secret"], 0, 16)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None

    def stopped(texts, **_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tokenize_batch(stopped, ["x"], 0, 16)


@pytest.mark.parametrize("text", ["a\ud83d", "\udc00b"])
def test_half_of_a_surrogate_pair_is_named_by_its_place(text):
    with pytest.raises(EncoderError, match="half of a surrogate pair, got one at index 4"):
        tokenize_batch(None, ["fine \U0001f600", text], 3, 8)


def test_texts_that_are_split_in_parts_have_the_tokens_of_all_at_once(monkeypatch, folders):
    tokenizer = load_pretrained(folders["bert"]).tokenizer
    texts = [f"the red cat {'sees ' * (i % 7)}" for i in range(40)] + ["", "x" * 500, "dog"]
    whole = tokenize_batch(tokenizer, texts, 0, 16)
    counts = []

    def counted(part, **more):
        counts.append(len(part))
        return tokenizer(part, **more)

    counted.pad_token_id = tokenizer.pad_token_id
    monkeypatch.setattr(tokens, "_AT_ONCE", 100)
    assert tokenize_batch(counted, texts, 0, 16) == whole
    assert sum(counts) == len(texts)
    assert 5 < len(counts) < len(texts)


def test_a_regular_expression_that_only_some_texts_make_slow_is_given_up(
    monkeypatch, folders, tmp_path
):
    """Public texts have no hyphen, and the library gives up too late: every single match is fast enough."""
    folder = shutil.copytree(folders["bert"], tmp_path / "copy")
    file = folder / "tokenizer.json"
    split = {"type": "Split", "behavior": "Isolated", "invert": False}
    split["pattern"] = {"Regex": r"(?=[^-]*-)[^-]*[^-]*\x00"}
    steps = {"type": "Sequence", "pretokenizers": [split, {"type": "Whitespace"}]}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"pre_tokenizer": steps}))
    tokenizer = load_pretrained(folder).tokenizer
    monkeypatch.setattr(tokens, "_SECONDS", 0.5)
    text = "the red cat sees a big dog " * 60
    assert tokenize_batch(tokenizer, [text], 0, 16)
    with pytest.raises(
        EncoderError, match=r"takes more than 0\.5 seconds for a few of these"
    ) as caught:
        tokenize_batch(tokenizer, [f"{text} well-known"], 0, 16)
    assert "cat" not in str(caught.value)
    for (
        thread
    ) in threading.enumerate():  # what was given up uses the processor for some seconds more
        if getattr(thread, "_is_left", False):
            thread.join(60)
