"""Each kind of input gives every entity its own row, or says in one line what is wrong."""

import numpy as np
import pyarrow as pa
import pytest
import torch

from reldp.encoders.inputs import Array, Column, PerEntity, as_input
from reldp.errors import EncoderError
from reldp.graph import EntityGraph

ALL = np.arange(4)


def make_graph(**columns):
    entities = {
        "id": ["a", "b", "c", "d"],
        "text": ["one", "two", "three", "four"],
        "age": [30, 40, 50, 60],
        "price": [1.5, 2.5, 3.5, 4.5],
        "is_new": [True, False, True, False],
        "features": [[float(10 * i + j) for j in range(6)] for i in range(4)],
        **columns,
    }
    return EntityGraph.from_arrow(entities, {"source": ["a"], "target": ["b"]})


def values(given, indices=ALL, graph=None):
    graph = make_graph() if graph is None else graph
    rows = given.rows(graph, np.asarray(indices))
    return given.tensor(rows.take(np.arange(len(indices))))


def test_columns_of_numbers_side_by_side_and_alone():
    assert values(Column("age")).tolist() == [30.0, 40.0, 50.0, 60.0]
    assert values(Column("age", shape=1)).tolist() == [[30.0], [40.0], [50.0], [60.0]]
    found = values(Column("age", "price", "is_new"), [2, 0])
    assert found.tolist() == [[50.0, 3.5, 1.0], [30.0, 1.5, 1.0]]
    assert found.dtype == torch.float32


def test_whole_numbers_are_categories_only_where_their_number_is_stated():
    assert values(Column("age", num_values=61)).dtype == torch.int64
    assert values(Column("is_new", num_values=2)).tolist() == [1, 0, 1, 0]
    assert values(Column("age")).dtype == torch.float32


def test_vectors_get_the_stated_dimensions():
    found = values(Column("features", shape=(1, 2, 3)), [3])
    assert found.tolist() == [[[[30.0, 31.0, 32.0], [33.0, 34.0, 35.0]]]]


@pytest.mark.parametrize(
    ("given", "columns", "said"),
    [
        (Column("size"), {}, "`graph` must have a column 'size' for the module, got none"),
        (Column("text"), {}, "must have numbers in column 'text', got .*PerEntity"),
        (Column("age"), {"age": [1, None, 3, None]}, "got 2 missing ones"),
        (Column("price"), {"price": [1.0, float("nan"), 2.0, 3.0]}, "row 1 of column 'price'"),
        (
            Column("features"),
            {},
            r"6 numbers per entity .* Pass Column\('features', shape=\(6,\)\)",
        ),
        (Column("features", shape=(2, 2)), {}, r"got \(2, 2\)"),
        (Column("age", shape=(2,)), {}, "1 numbers per entity of column 'age'"),
        (Column("age", "features"), {}, "6 numbers per entity"),
        (Column("age", num_values=60), {}, r"outside of 0\.\.59 in row 3"),
        (Column("age", num_values=99), {"age": [1, -1, 3, 4]}, "in row 1"),
        (Column("price", num_values=9), {}, "`num_values` must be left out for column 'price'"),
    ],
)
def test_a_column_that_does_not_fit_is_one_clear_line(given, columns, said):
    with pytest.raises(EncoderError, match=said) as refusal:
        given.rows(make_graph(**columns), ALL)
    assert "\n" not in str(refusal.value)


def test_arrays_are_found_by_id_in_any_graph_whatever_the_order():
    images = np.arange(5 * 4, dtype=np.uint8).reshape(5, 2, 2)
    given = Array(images, ids=["d", "c", "b", "a", "x"])
    assert given.shape == (2, 2)
    assert values(given).tolist() == images[[3, 2, 1, 0]].astype(float).tolist()
    assert values(given, [2]).tolist() == [images[1].astype(float).tolist()]
    assert given.rows(make_graph(), ALL).values is images  # bytes are not copied


def test_ids_of_an_array_may_be_those_of_a_graph_or_numbers_for_texts():
    graph = EntityGraph.from_lists(["1", "2"], [("1", "2")], text=["a", "b"])
    for ids in (graph.ids, pa.chunked_array([["1"], ["2"]]), [1, 2], np.array(["1", "2"])):
        rows = Array(np.eye(2), ids=ids).rows(graph, np.array([1, 0]))
        assert rows.places.tolist() == [1, 0]


def test_an_array_may_be_mapped_from_a_file(tmp_path):
    np.save(tmp_path / "images.npy", np.ones((4, 3), np.float32))
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    rows = Array(mapped, ids=["a", "b", "c", "d"]).rows(make_graph(), ALL)
    assert np.shares_memory(rows.values, mapped)
    assert rows.take([0]).tolist() == [[1.0, 1.0, 1.0]]


@pytest.mark.parametrize(
    ("array", "ids", "said"),
    [
        (np.ones((3, 2)), ["a", "b", "c"], "got none for 1 of 4 entities"),
        (np.ones((4, 2)), [1, 2, 3, 4], "must name every entity|must be string"),
        (np.ones((4, 2)), ["a", "b", "c"], "got 3 for 4 rows"),
        (np.ones((4, 2)), ["a", "b", "c", "c"], "must not repeat an id"),
        (np.array(["x"]), ["a"], "array of numbers"),
        (np.ones((2, 1)), ["a", 2], "texts or of whole numbers"),
        (np.ones((2, 1)), [1.5, 2.5], "texts or of whole numbers"),
        (np.ones((2, 1)), 3, "texts or of whole numbers"),
        (np.array([[1.0], [np.inf], [0], [0]]), list("abcd"), "row 1 of the array"),
    ],
)
def test_an_array_that_does_not_fit_is_one_clear_line(array, ids, said):
    with pytest.raises(EncoderError, match=said):
        Array(array, ids=ids).rows(make_graph(), ALL)


def test_ids_of_an_array_are_never_quoted():
    numbered = EntityGraph.from_lists([1, 2], [(1, 2)], text=["a", "b"])
    for graph in (make_graph(), numbered):
        with pytest.raises(EncoderError) as refusal:
            Array(np.ones((1, 2)), ids=["a secret name"]).rows(graph, np.arange(2))
        assert "secret" not in str(refusal.value)


def test_a_function_is_called_for_one_entity_at_a_time():
    seen = []

    def count(entity):
        seen.append(entity)
        return [len(entity["text"]), float(entity["features"].sum())]

    assert values(PerEntity(count, shape=2), [2, 0]).tolist() == [[5.0, 135.0], [3.0, 15.0]]
    assert all(isinstance(entity["id"], str) for entity in seen)
    tokens = PerEntity(lambda entity: torch.tensor([1, 2]), shape=(2,), num_values=3)
    assert values(tokens, [0]).dtype == torch.int64
    assert values(tokens, []).shape == (0, 2)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda entity: [1.0, 2.0, 3.0], r"numbers of shape \(2,\), got .* of shape \(3,\)"),
        (lambda entity: ["a", "b"], r"numbers of shape \(2,\)"),
        (lambda entity, calls=[]: calls.append(1) or [len(calls), 0], "same row whenever"),
        (lambda entity: torch.rand(2), "Draw no random numbers"),
        (lambda entity: [np.nan, 0.0], "row 0 of the function's rows"),
    ],
)
def test_a_function_that_does_not_fit_is_one_clear_line(function, said):
    with pytest.raises(EncoderError, match=said):
        PerEntity(function, shape=(2,)).rows(make_graph(), ALL)


def test_random_rows_have_the_stated_shapes_and_values_and_nothing_of_the_data():
    generator = torch.Generator().manual_seed(0)
    assert Column("features", shape=(2, 3)).random(5, generator).shape == (5, 2, 3)
    tokens = Column("age", num_values=7).random(500, generator)
    assert (tokens.dtype, tokens.min(), tokens.max()) == (torch.int64, 0, 6)
    pixels = Array(np.zeros((1, 9), np.uint8), ids=["a"]).random(500, generator)
    assert (pixels.dtype, pixels.min(), pixels.max()) == (torch.float32, 0.0, 255.0)


def test_names_of_columns_are_columns_and_other_values_get_advice():
    assert as_input("age", "x").columns == ("age",)
    assert as_input(["age", "price"], "x").shape == (2,)
    given = Column("age")
    assert as_input(given, "x") is given
    for wrong, advice in ((np.ones(3), "Array"), (len, "PerEntity"), (3, "name of a column")):
        with pytest.raises(EncoderError, match=f"where 'x' comes from.*{advice}"):
            as_input(wrong, "x")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Column(),
        lambda: Column("age", shape=(0,)),
        lambda: Column("age", "price", shape=(3,)),
        lambda: Column("age", num_values=0),
        lambda: PerEntity("age"),
    ],
)
def test_settings_that_mean_nothing_are_refused(make):
    with pytest.raises(EncoderError, match=r"^`(columns|shape|num_values|function)` must"):
        make()


def test_descriptions_are_settings_and_not_data():
    assert Column("age", num_values=9).describe() == {
        "kind": "column",
        "columns": ["age"],
        "shape": [],
        "num_values": 9,
    }
    one, other = (Array(np.full((1, 2), v), ids=[v]).describe() for v in (1, 2))
    assert one == other
    assert PerEntity(make_graph, shape=3).describe()["function"] == "make_graph"
