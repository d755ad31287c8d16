"""The public list of types, and codes into it."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.relation_types import (
    check_types,
    coded_types,
    declared_names,
    recoded,
    type_column,
)


def typed(**settings) -> EntityGraph:
    relations = [("a", "b"), ("b", "a"), ("a", "b"), ("b", "c")]
    kinds = ["likes", "likes", "knows", "knows"]
    return EntityGraph.from_lists(
        ["a", "b", "c"], relations, types=kinds, text=["x", "y", "z"], **settings
    )


def test_a_graph_with_types_keeps_direction_and_type() -> None:
    graph = typed()
    assert graph.relations.tolist() == [[0, 1], [1, 0], [0, 1], [1, 2]]
    assert graph.relation_types.tolist() == [1, 1, 0, 0]
    assert graph.type_names == ("knows", "likes")
    assert graph.relation_types.dtype == np.int32
    assert not graph.relation_types.flags.writeable
    assert repr(graph) == "EntityGraph(3 entities, 4 relations of 2 types, text)"
    assert pickle.loads(pickle.dumps(graph)) == graph  # noqa: S301


def test_a_graph_without_types_has_none() -> None:
    graph = EntityGraph.from_lists(["a", "b"], [("a", "b")], text=["x", "y"])
    assert graph.relation_types is None
    assert graph.type_names == ()
    with pytest.raises(GraphError, match="must have relations with types, got none"):
        graph.with_types(["likes"])


def test_types_are_part_of_the_fingerprint() -> None:
    graph = typed()
    other = graph.replace(
        relations=graph.relations,
        record=graph.record,
        relation_types=graph.relation_types[::-1].copy(),
    )
    assert other.fingerprint != graph.fingerprint
    assert graph.with_types(["knows", "likes", "pays"]).fingerprint != graph.fingerprint
    assert graph.with_types(["likes", "knows"]).fingerprint == graph.fingerprint


def test_a_declared_list_may_have_more_types_than_the_data() -> None:
    graph = typed().with_types(["likes", "hates", "knows"])
    assert graph.type_names == ("hates", "knows", "likes")
    assert graph.relation_types.tolist() == [2, 2, 1, 1]
    assert graph.record.relation_types == graph.type_names


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], "must name at least one type, got none"),
        (["likes", "likes"], "must name each type once, got 'likes' twice"),
        ("likes", "must be a list of type names, got one text"),
        (["likes", " "], "must be texts that are not blank, got 1 others"),
        (["likes", 3], "must be texts that are not blank, got 1 others"),
        (["likes"], "must hold the type of every relation, got 2 relations of 1 other types"),
    ],
)
def test_bad_lists_are_refused_in_one_line(names, words) -> None:
    with pytest.raises(GraphError, match=words) as caught:
        typed().with_types(names)
    assert "\n" not in str(caught.value)
    assert "knows" not in str(caught.value)


def test_unknown_types_are_shown_on_request() -> None:
    with pytest.raises(GraphError, match=r"\('knows'\)"):
        typed().with_types(["likes"], show_names=True)


def test_relations_are_not_replaced_without_their_types() -> None:
    graph = typed()
    with pytest.raises(GraphError, match="must be given if the graph has types"):
        graph.replace(relations=graph.relations, record=graph.record)


@pytest.mark.parametrize(
    ("types", "names", "words"),
    [
        (None, ("a",), "must be empty"),
        (np.zeros(3, np.int32), ("a",), "one int32 for each of 2 relations"),
        (np.zeros(2, np.int64), ("a",), "one int32 for each of 2 relations"),
        (np.zeros(2, np.int32), ("b", "a"), "sorted tuple"),
        (np.array([0, 2], np.int32), ("a", "b"), r"must lie in 0\.\.1, got 0\.\.2"),
        (np.array([0, 0], np.int32), (), r"must lie in 0\.\.-1"),
    ],
)
def test_codes_that_do_not_fit_are_refused(types, names, words) -> None:
    with pytest.raises(GraphError, match=words):
        check_types(types, names, 2)


def test_codes_follow_the_sorted_names() -> None:
    names, codes = coded_types(pa.array(["b", "a", "b"]))
    assert names == ("a", "b")
    assert codes.tolist() == [1, 0, 1]
    names, codes = coded_types(pa.array(["b", "a"]), ("b", "c"))
    assert names == ("b", "c")
    assert codes.tolist() == [0, -1]
    assert recoded(np.array([0, 1], np.int32), ("b", "c"), ("a", "b", "c")).tolist() == [1, 2]
    assert declared_names(iter(["b", "a"])) == ("a", "b")


def test_integers_become_names_and_other_values_are_refused() -> None:
    assert type_column(pa.chunked_array([[7, 10]]), "relations").to_pylist() == ["7", "10"]
    with pytest.raises(GraphError, match="strings or integers in column 'type', got double"):
        type_column(pa.chunked_array([[0.5]]), "relations")
