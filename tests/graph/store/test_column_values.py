"""Columns that no build writes are refused, whatever the hashes of their file say."""

import numpy as np
import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph.store import column_values as module
from reldp.graph.store.column_values import check_batch, check_finite, check_ids

GOOD = {"id": ["a", "b"], "text": ["x", "y"], "protected": [True, False], "shelf": ["s", None]}


def test_a_batch_of_a_build_is_right():
    check_batch(pa.record_batch(GOOD), "entities.arrow")
    check_batch(pa.record_batch({"id": [1, -1]}), "entities.arrow")


@pytest.mark.parametrize("column", ["id", "text", "protected"])
def test_nulls_are_refused_where_a_value_decides(column):
    batch = pa.record_batch(GOOD | {column: [GOOD[column][0], None]})
    with pytest.raises(GraphError, match=rf"in every row of column '{column}', got nulls\. Build"):
        check_batch(batch, "entities.arrow")


@pytest.mark.parametrize("column", ["id", "text"])
@pytest.mark.parametrize(
    ("value", "words"), [("", "blank ones"), (" ", "blank ones"), ("a\0", "NUL")]
)
def test_blanks_and_nul_characters_are_refused(column, value, words):
    with pytest.raises(GraphError, match=f"in .*column '{column}', got {words}"):
        check_batch(pa.record_batch(GOOD | {column: ["c", value]}), "entities.arrow")


@pytest.mark.parametrize(
    ("offsets", "data"), [([0, 10**12, 2], b"ab"), ([0, 2, 1], b"ab"), ([0, 1, 2], b"a\xff")]
)
def test_damaged_arrays_are_refused_before_they_are_read(offsets, data):
    buffers = [None, pa.py_buffer(np.array(offsets, np.int64)), pa.py_buffer(data)]
    texts = pa.Array.from_buffers(pa.large_string(), 2, buffers)
    batch = pa.RecordBatch.from_arrays([pa.array(["a", "b"]), texts], ["id", "text"])
    with pytest.raises(GraphError, match=r"entities\.arrow must be as it was built"):
        check_batch(batch, "entities.arrow")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_features_are_finite(monkeypatch, value):
    monkeypatch.setattr(module, "_CHUNK", 4)
    matrix = np.ones((7, 3), np.float32)
    check_finite(matrix, "features.npy")
    matrix[6, 2] = value
    with pytest.raises(GraphError, match=r"features\.npy must hold finite numbers, got others"):
        check_finite(matrix, "features.npy")


def checked(batches):
    arrays = [pa.array(batch) for batch in batches]
    check_ids(arrays.__getitem__, len(arrays), sum(map(len, arrays)), "entities.arrow")


LONG = "x" * 300


@pytest.mark.parametrize(
    "batches",
    [
        [["a", "b"], ["ab", "ba", "a" * 8, "a" * 9, "a" * 16], ["b" * 7]],
        [["12345678", "123456789", "1234567890123456"], ["1234567890123457"]],
        [["é", "e"], ["e\u0301", LONG, LONG + "y", LONG[:-1]]],
        [[1, 2, 2**62], [-1, 0]],
    ],
)
def test_ids_that_repeat_are_refused(batches):
    checked(batches)
    for number, batch in enumerate(batches):
        for value in batch:
            repeated = [list(some) for some in batches]
            repeated[-1 - number].append(value)
            with pytest.raises(GraphError, match="must give every entity an id of its own"):
                checked(repeated)


def test_ids_are_compared_where_hashes_are_equal(monkeypatch):
    monkeypatch.setattr(module, "_text_hashes", lambda data, starts, lengths: lengths.astype("u8"))
    monkeypatch.setattr(module, "_SOME", 1)
    checked([["a", "b", "cc"], ["dd", "c"]])
    with pytest.raises(GraphError, match="must give every entity an id of its own"):
        checked([["a", "b", "cc"], ["dd", "c", "cc"]])
