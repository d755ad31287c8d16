"""Constructors and results that a user finds on `EntityGraph`, each documented."""

import inspect

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.conversions import Conversions

METHODS = {name for name in vars(Conversions) if name.startswith(("from_", "to_"))}
LIBRARIES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "datasets": datasets.Dataset.from_dict,
    "dictionary": dict,
}


def test_the_methods_are_these_and_each_says_what_it_does() -> None:
    assert {
        *("from_lists", "from_networkx", "from_pairs", "from_pandas", "from_pyg", "from_scipy"),
        *("to_datasets", "to_networkx", "to_pairs", "to_pandas", "to_polars", "to_pyg"),
        "to_scipy",
    } == METHODS
    for name in METHODS:
        method = getattr(EntityGraph, name)
        words = inspect.getdoc(method) or ""
        assert words.startswith("Return "), name
        for argument in inspect.signature(method).parameters:
            assert argument in {"self", "left", "right", "left_id", "right_id"} or (
                f"{argument}:" in words
            ), f"{name}: {argument}"


@pytest.mark.parametrize("library", LIBRARIES)
def test_pairs_of_every_library_are_the_same_graph(library: str) -> None:
    columns = {
        "anchor": ["tent", "tent", "mat"],
        "positive": ["mat", "stove", "stove"],
        "q": [1, 1, 2],
        "k": [2, 3, 3],
        "score": [0.5, 0.5, 0.5],
    }
    names = {"left": "anchor", "right": "positive", "left_id": "q", "right_id": "k"}
    graph = EntityGraph.from_pairs(LIBRARIES[library](columns), **names)
    assert graph.ids.to_pylist() == [1, 2, 3]
    assert graph.text() == ["tent", "mat", "stove"]
    assert graph.relations.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert graph.columns == ["id", "text"]
    assert graph.record.notes == ("An entity is what the columns q and k name.",)


def test_pairs_and_back() -> None:
    texts = ["tent", "mat", "stove", "alone"]
    graph = EntityGraph.from_lists(list("abcd"), [("a", "b"), ("c", "a")], text=texts)
    table = graph.to_pairs(left="x", right="y", left_id="i", right_id="j")
    assert table.to_pylist() == [
        {"i": "a", "x": "tent", "j": "b", "y": "mat"},
        {"i": "c", "x": "stove", "j": "a", "y": "tent"},
    ]
    again = EntityGraph.from_pairs(table, left="x", right="y", left_id="i", right_id="j")
    assert again.to_pairs().to_pylist() == graph.to_pairs().to_pylist()
    assert set(again.ids.to_pylist()) == set("abc")


def test_a_graph_without_texts_has_no_pairs_of_texts() -> None:
    graph = EntityGraph.from_lists([1, 2], [(1, 2)], features=np.ones((2, 3)))
    with pytest.raises(GraphError, match="must have a column 'text'"):
        graph.to_pairs()


def test_the_result_is_checked_like_a_file() -> None:
    pairs = {"a": ["x", "y", "x"], "b": ["y", "x", "x"]}
    with pytest.raises(GraphError, match=r"got 1 self-relations \(row 3\).* Also: .* \(row 2\)"):
        EntityGraph.from_pairs(pairs, left="a", right="b", ids="text")
    drop = {"self_relations", "duplicate_relations"}
    graph = EntityGraph.from_pairs(pairs, left="a", right="b", ids="text", drop=drop)
    assert graph.record.drops == {"self_relations": 1, "duplicate_relations": 1}
    with pytest.raises(GraphError, match="`drop` must name kinds"):
        EntityGraph.from_pairs(pairs, left="a", right="b", ids="text", drop={"duplicates"})


@pytest.mark.parametrize("library", LIBRARIES)
def test_pairs_with_a_column_of_types_are_directed_relations(library: str) -> None:
    columns = {
        "query": ["tent", "tent", "mat"],
        "item": ["mat", "mat", "tent"],
        "event": ["click", "buy", "click"],
    }
    graph = EntityGraph.from_pairs(
        LIBRARIES[library](columns), left="query", right="item", ids="text", type="event"
    )
    assert graph.type_names == ("buy", "click")
    assert graph.relations.tolist() == [[0, 1], [0, 1], [1, 0]]
    assert graph.relation_types.tolist() == [1, 0, 1]
    names = {"left": "query", "right": "item", "type": "event"}
    pairs = graph.to_pairs(**names)
    again = EntityGraph.from_pairs(pairs, **names, left_id="left_id", right_id="right_id")
    assert again.relation_types.tolist() == graph.relation_types.tolist()
    with pytest.raises(GraphError, match="2 repeated relations"):
        EntityGraph.from_pairs(columns, left="query", right="item", ids="text")
    with pytest.raises(GraphError, match="column"):
        EntityGraph.from_pairs(columns, left="query", right="item", ids="text", type="missing")


@pytest.mark.parametrize("library", ["pandas", "polars", "datasets"])
def test_types_go_to_frames_and_back(library: str) -> None:
    graph = EntityGraph.from_lists(
        ["a", "b"], [("a", "b"), ("b", "a")], types=["likes", "knows"], text=["x", "y"]
    )
    tables = getattr(graph, f"to_{library}")()
    assert EntityGraph.from_arrow(*tables) == graph
