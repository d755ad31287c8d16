"""What values take once they are written out is known without doing so."""

import numpy as np
import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph import decoded_size as module
from reldp.graph.decoded_size import WIDTH, DecodedSize, text_bytes, text_lengths

TEXTS = ["", "a", None, "four", "a view that is longer than twelve bytes"]
BYTES = sum(len(text or "") for text in TEXTS)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_lengths_are_those_of_the_texts(kind):
    array = pa.array(["before", *TEXTS], kind).slice(1)
    assert text_lengths(array).tolist() == [0, 1, 0, 4, 39]
    assert text_lengths(pa.array([1, 2])) is None


def test_dictionaries_and_views_are_multiplied_out(monkeypatch):
    words = pa.array(TEXTS, pa.string_view())
    assert text_bytes(words) == 5 * WIDTH + BYTES
    rows = pa.array([1, 3, 4, 3, None], pa.int32())
    repeated = pa.DictionaryArray.from_arrays(rows, pa.array(TEXTS))
    assert text_bytes(repeated) == 5 * WIDTH + 5 * 39  # a bound is enough for a few
    monkeypatch.setattr(module, "_ALLOWANCE", 0)
    assert text_bytes(repeated) == 5 * WIDTH + 1 + 4 + 39 + 4


def test_fixed_and_nested_values_are_bounded():
    rows = np.zeros(10, np.int32)
    wide = pa.DictionaryArray.from_arrays(rows, pa.array([b"x" * 1000], pa.binary(1000)))
    lists = pa.DictionaryArray.from_arrays(rows, pa.array([["x" * 1000]]))
    assert 10_000 <= text_bytes(wide) <= 10_200
    assert 10_000 <= text_bytes(lists) <= 10_300


def test_what_lies_within_counts():
    inner = pa.DictionaryArray.from_arrays(np.zeros(100, np.int32), ["x" * 50])
    assert text_bytes(pa.StructArray.from_arrays([inner], ["a"])) >= 5000
    assert text_bytes(pa.ListArray.from_arrays([0, 100], inner)) >= 5000
    assert text_bytes(pa.nulls(100)) == 100 * WIDTH


def test_an_index_out_of_bounds_is_no_size(monkeypatch):
    monkeypatch.setattr(module, "_ALLOWANCE", 0)
    wrong = pa.DictionaryArray.from_arrays(pa.array([7], pa.int32()), ["x"], safe=False)
    with pytest.raises((pa.ArrowException, IndexError)):
        text_bytes(wrong)


def test_the_limit_is_a_hundred_times_the_file_and_a_share_of_the_allowance(tmp_path):
    path = tmp_path / "x.parquet"
    path.write_bytes(bytes(1000))
    size = DecodedSize(path, num_files=100)
    assert size.fits(1_100_000)
    assert not size.fits(1_100_001)
    size.add(600_000)
    size.add(-5)  # a damaged file may count downwards
    with pytest.raises(GraphError, match=r"^x\.parquet must decode to at most 100 times its size"):
        size.add(500_001)


def test_too_many_parts_are_refused(tmp_path):
    path = tmp_path / "x.parquet"
    path.write_bytes(b"x")
    size = DecodedSize(path)
    size.count_parts(1_000_000)
    with pytest.raises(GraphError, match="at most 1,000,000 pages or batches"):
        size.count_parts()
