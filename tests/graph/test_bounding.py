"""Bounded degrees of graphs with types."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.capping import degrees

NAMES = ("knows", "likes", "pays")


@st.composite
def typed_graphs(draw):
    """Small graphs with types, in which pairs repeat under several types and in both directions."""
    n = draw(st.integers(2, 6))
    triple = st.tuples(st.integers(0, n - 1), st.sampled_from(NAMES), st.integers(0, n - 1))
    triples = draw(st.lists(triple, max_size=25, unique=True))
    triples = [(a, kind, b) for a, kind, b in triples if a != b]
    return EntityGraph.from_lists(
        [f"e{i}" for i in range(n)],
        [(f"e{a}", f"e{b}") for a, _, b in triples],
        types=[kind for _, kind, _ in triples],
        text=["x"] * n,
        protected=[draw(st.booleans()) for _ in range(n)],
    )


def keys(graph) -> set[tuple[str, str, str]]:
    """The relations of a graph as (source, type, target)."""
    names = graph.graph.ids.to_pylist() if hasattr(graph, "graph") else graph.ids.to_pylist()
    rows = zip(graph.relations.tolist(), graph.relation_types.tolist(), strict=True)
    return {(names[a], graph.type_names[code], names[b]) for (a, b), code in rows}


def test_every_type_and_direction_counts_toward_both_degrees() -> None:
    graph = EntityGraph.from_lists(
        ["a", "b"],
        [("a", "b"), ("b", "a"), ("a", "b")],
        types=["likes", "likes", "knows"],
        text=["x", "y"],
    )
    assert graph.degrees.tolist() == [3, 3]
    with pytest.raises(GraphError, match="2 entities with more"):
        graph.promise_degrees(2)
    assert graph.promise_degrees(3).num_relations == 3
    assert graph.cap_degrees(2, seed=0).num_relations == 2


@settings(max_examples=60, deadline=None)
@given(typed_graphs(), st.integers(1, 4), st.integers(0, 3))
def test_capping_keeps_types_bounds_degrees_and_is_maximal(graph, bound, seed) -> None:
    capped = graph.cap_degrees(bound, seed)
    kept = degrees(capped.relations, graph.num_entities)
    assert (kept[graph.protected] <= bound).all()
    assert keys(capped) <= keys(graph)
    assert len(keys(capped)) == capped.num_relations == len(capped.relation_types)
    full = graph.protected & (kept >= bound)
    places = {name: row for row, name in enumerate(graph.ids.to_pylist())}
    for a, _, b in keys(graph) - keys(capped):
        assert full[places[a]] or full[places[b]]


@settings(max_examples=40, deadline=None)
@given(typed_graphs(), st.integers(0, 3), st.randoms())
def test_kept_relations_depend_on_keys_alone(graph, seed, random) -> None:
    """Neither the order of rows nor further declared types matter."""
    order = list(range(graph.num_relations))
    random.shuffle(order)
    shuffled = graph.replace(
        relations=graph.relations[order],
        relation_types=graph.relation_types[order],
        record=graph.record,
    ).with_types([*NAMES, "a first name", "zzz"])
    assert keys(shuffled.cap_degrees(2, seed)) == keys(graph.cap_degrees(2, seed))


def test_priority_depends_on_type_and_direction() -> None:
    """Of four relations of one pair, each is the one that is kept for some seed."""
    graph = EntityGraph.from_lists(
        ["a", "b"],
        [("a", "b"), ("b", "a"), ("a", "b"), ("b", "a")],
        types=["likes", "likes", "knows", "knows"],
        text=["x", "y"],
    )
    assert {next(iter(keys(graph.cap_degrees(1, seed)))) for seed in range(60)} == keys(graph)


def test_a_capped_graph_with_types_carries_them_on() -> None:
    graph = EntityGraph.from_lists(
        ["a", "b", "c"],
        [("a", "b"), ("c", "b"), ("b", "c")],
        types=["likes", "likes", "knows"],
        text=["x", "y", "z"],
    )
    capped = graph.cap_degrees(2, seed=1)
    assert capped.type_names == ("knows", "likes")
    assert capped.relation_types.dtype == np.int32
    assert not capped.relation_types.flags.writeable
    assert "relations of 2 types" in repr(capped)
    assert keys(capped.to_graph()) == keys(capped)
    assert capped.fingerprint != graph.cap_degrees(2, seed=0).fingerprint or keys(capped) == keys(
        graph.cap_degrees(2, seed=0)
    )


def test_integers_of_numpy_are_the_same_bound_and_seed():
    rows = [(i, j) for i in range(8) for j in range(i)]
    graph = EntityGraph.from_lists(range(8), rows, text=["x"] * 8)
    one, other = graph.cap_degrees(2, 7), graph.cap_degrees(np.int64(2), np.uint8(7))
    assert other.fingerprint == one.fingerprint
    assert type(other.max_degree) is type(graph.promise_degrees(np.int64(7)).max_degree) is int
    for seed in (True, np.True_, 0.0, "0"):
        with pytest.raises(GraphError, match="`seed` must be an integer or bytes"):
            graph.cap_degrees(2, seed)


def test_a_bound_beyond_every_machine_is_refused():
    graph = EntityGraph.from_lists(["a", "b"], [("a", "b")], text=["x", "y"])
    for bound in (graph.promise_degrees, lambda degree: graph.cap_degrees(degree, seed=0)):
        with pytest.raises(
            GraphError, match=r"`max_degree` must be an integer of at least 1 .and at most 2.53"
        ):
            bound(10**400)
