"""Columns as they come, brought to the few types a graph keeps."""

import numpy as np
import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph import columns
from reldp.graph.columns import (
    extra_column,
    features_column,
    id_column,
    protected_column,
    single,
    text_column,
    values_at,
    vectors,
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pa.array(["a", None]), pa.array(["a", None])),
        (pa.array(["a", "b"], pa.large_string()), pa.array(["a", "b"], pa.large_string())),
        (pa.array(["a", "b", "a"]).dictionary_encode(), pa.array(["a", "b", "a"])),
        (pa.array([b"a", b"\xc3\xa9"]), pa.array(["a", "é"], pa.large_string())),
        (pa.array(["a"], pa.string_view()), pa.array(["a"], pa.large_string())),
        (pa.array([1, 2], pa.uint8()), pa.array([1, 2])),
        (pa.array([1, None], pa.int32()), pa.array([1, None])),
        (pa.array([None, None]), pa.array([None, None], pa.string())),
        (pa.chunked_array([["a"], ["b"]]), pa.array(["a", "b"])),
    ],
)
def test_ids_become_strings_or_integers(given: pa.Array, expected: pa.Array) -> None:
    assert id_column(given, "entities", "id").equals(expected)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (pa.array([1.5]), "got double. A program turned integers into floats"),
        (pa.array([True]), "got bool"),
        (pa.array([[1]]), "got list"),
        (pa.array([2**64 - 1], pa.uint64()), "below 2..63"),
        (pa.array([b"\xff"]), "must be UTF-8"),
    ],
)
def test_other_ids_are_refused(given: pa.Array, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        id_column(given, "entities", "id")


def test_strings_that_are_no_utf8_are_refused() -> None:
    buffers = [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]
    broken = pa.Array.from_buffers(pa.string(), 1, buffers)
    with pytest.raises(GraphError, match="entities must be UTF-8 text in column 'text'"):
        text_column(broken, "entities")


def test_one_chunk_is_not_copied() -> None:
    array = pa.array(["a", "b"])
    assert single(pa.chunked_array([array])).buffers()[2].address == array.buffers()[2].address
    assert single(pa.chunked_array([], pa.string())).equals(pa.array([], pa.string()))


def test_much_text_gets_long_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_INT32_LIMIT", 10)
    column = single(pa.chunked_array([["some text"], ["more text"]]))
    assert column.type == pa.large_string()
    assert column.to_pylist() == ["some text", "more text"]


def test_blank_texts_are_found() -> None:
    text, blank = text_column(pa.array(["a", "", None, " \t\u00a0\u3000", "b "]), "entities")
    assert blank.tolist() == [1, 2, 3]
    assert text[4].as_py() == "b "


@pytest.mark.parametrize("given", [pa.array([1]), pa.array([["a"]])])
def test_text_is_text(given: pa.Array) -> None:
    with pytest.raises(GraphError, match="must hold strings in column 'text'"):
        text_column(given, "entities")


@pytest.mark.parametrize(
    "given",
    [
        pa.array([[1, 2], [3, 4]], pa.list_(pa.int64())),
        pa.array([[1, 2], [3, 4]], pa.list_(pa.float64())),
        pa.array([[1, 2], [3, 4]], pa.list_(pa.float32(), 2)),
        pa.array([[1, 2], [3, 4]], pa.large_list(pa.float16())),
        pa.array(["[1, 2]", "3\t4"]),
        pa.array(["1.0;2e0", "(+3., .4e1)"]),
        pa.chunked_array([[[1.0, 2.0]], [[3.0, 4.0]]]),
    ],
)
def test_features_are_vectors_of_float32(given: pa.Array) -> None:
    features, bad, ragged = features_column(given, "entities")
    assert features.type == pa.list_(pa.float32(), 2)
    assert features.to_pylist() == [[1, 2], [3, 4]]
    assert not len(bad)
    assert not len(ragged)


def test_vectors_without_a_definite_value_are_found() -> None:
    nan, inf = float("nan"), float("inf")
    given = pa.array([[1, 2], None, [nan, 1], [inf, -inf], [None, 1], [], [1e300, 0], [3, 4]])
    features, bad, ragged = features_column(given.cast(pa.list_(pa.float64())), "entities")
    assert bad.tolist() == [1, 2, 3, 4, 5, 6]
    assert not len(ragged)
    assert features.to_pylist()[7] == [3, 4]
    _, bad, _ = features_column(
        pa.array(["1 2", "", "one two", "1 0x2", "nan 1", None]), "entities"
    )
    assert bad.tolist() == [1, 2, 3, 4, 5]


def test_a_fixed_size_vector_that_is_missing_is_found() -> None:
    given = pa.array([None, [1, 2], [3, 4]], pa.list_(pa.float32(), 2))
    features, bad, _ = features_column(given, "entities")
    assert bad.tolist() == [0]
    assert features.to_pylist()[1:] == [[1, 2], [3, 4]]


def test_vectors_of_another_length_are_found() -> None:
    features, _, ragged = features_column(pa.array([[1.0], [1.0, 2.0], [2.0]]), "entities")
    assert features is None
    assert ragged.tolist() == [1]


@pytest.mark.parametrize("given", [pa.array([[["a"]]]), pa.array([["a"]]), pa.array([1.0])])
def test_features_are_lists_of_numbers(given: pa.Array) -> None:
    with pytest.raises(GraphError, match=r"must hold (lists of )?numbers in column 'features'"):
        features_column(given, "entities")


def test_complex_numbers_are_refused_rather_than_cut() -> None:
    with pytest.raises(GraphError, match="matrix of numbers"):
        vectors(np.array([[1 + 2j, 3.0]]))


@pytest.mark.parametrize("given", [[1.0, 2.0], np.zeros((2, 0)), np.zeros((2, 2, 2))])
def test_a_matrix_has_rows_and_columns(given: object) -> None:
    with pytest.raises(GraphError, match=r"`features` must be an \(n, d\) matrix"):
        vectors(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given", [[True, False, None, None], ["TRUE", " no", "perhaps", ""], [1, 0, 2, None]]
)
def test_protected_is_true_or_false_or_unclear(given: list[object]) -> None:
    flags, unclear = protected_column(pa.array(given), "entities")
    assert flags.to_pylist()[:2] == [True, False]
    assert unclear.tolist() == [2, 3]


def test_other_columns_keep_a_simple_type_or_none() -> None:
    def kind(values: pa.Array) -> pa.DataType | None:
        extra = extra_column(values, "entities", "more")
        return None if extra is None else extra.type

    assert kind(pa.array([1], pa.int8())) == pa.int64()
    assert kind(pa.array([1.0], pa.float16())) == pa.float64()
    assert kind(pa.array([True])) == pa.bool_()
    assert kind(pa.array(["a"]).dictionary_encode()) == pa.string()
    assert kind(pa.array([None])) == pa.string()
    assert kind(pa.array([0], pa.timestamp("s"))) is None
    assert kind(pa.array([1], pa.uint64())) is None
    assert kind(pa.array([{"a": 1}])) is None


def test_values_at_rows_come_in_the_order_asked_for() -> None:
    column = pa.array(["a", "b", None])
    assert values_at(column, None) == ["a", "b", None]
    assert values_at(column, [2, 0, 0]) == [None, "a", "a"]
    assert values_at(column, []) == []
    for outside in ([3], [-1]):
        with pytest.raises(GraphError, match=r"`indices` must lie in 0\.\.2"):
            values_at(column, outside)
