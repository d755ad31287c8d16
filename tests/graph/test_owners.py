"""Owners as the unit of privacy: columns, degrees, capping, splits and files."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.capping import unit_degrees
from reldp.graph.inspection import inspect_graph
from reldp.graph.owners import mixed_protection, owner_column, owner_index
from reldp.graph.splits import split_by_column, split_entities


@st.composite
def owned_graphs(draw):
    """Small graphs, with and without types, whose entities share few owners."""
    n = draw(st.integers(2, 8))
    owner = draw(st.lists(st.sampled_from(["ann", "bob", None]), min_size=n, max_size=n))
    shield = {name: draw(st.booleans()) for name in ("ann", "bob")}
    pairs = draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=16))
    once = sorted({(min(p), max(p)) for p in pairs if p[0] != p[1]})
    kinds = draw(
        st.none() | st.lists(st.sampled_from("xy"), min_size=len(once), max_size=len(once))
    )
    return EntityGraph.from_lists(
        [f"e{i}" for i in range(n)],
        [(f"e{a}", f"e{b}") for a, b in once],
        text=[f"t{i}" for i in range(n)],
        owner=pa.array(owner, pa.string()),
        protected=[shield.get(name, True) for name in owner],
        types=kinds,
    )


def oracle_degrees(graph, relations) -> list[int]:
    """Relations that touch each owner, by a loop."""
    return [
        sum(unit in (graph.owners[a], graph.owners[b]) for a, b in relations.tolist())
        for unit in range(graph.num_owners)
    ]


def pair_graph(**columns: object) -> EntityGraph:
    values = {"text": ["w", "x", "y", "z"], "owner": ["ann", "ann", None, "bob"], **columns}
    pairs = [(1, 2), (1, 3), (2, 3), (2, 4)]
    return EntityGraph.from_lists([1, 2, 3, 4], pairs, **values)


def test_an_entity_without_an_owner_is_its_own() -> None:
    graph = pair_graph()
    assert graph.owners.tolist() == [0, 0, 1, 2]
    assert graph.owners.dtype == np.int64
    assert not graph.owners.flags.writeable
    assert graph.num_owners == 3
    assert graph.degrees.tolist() == [2, 3, 2, 1]
    assert graph.owner_degrees.tolist() == [4, 2, 1]  # the relation inside of ann counts once
    assert repr(graph) == "EntityGraph(4 entities of 3 owners, 4 relations, text)"
    capped = graph.promise_degrees(4)
    assert (capped.num_units, capped.num_entities) == (3, 4)
    assert capped.protected_units.tolist() == [True] * 3
    assert "4 entities of 3 owners" in repr(capped)


def test_without_owners_every_entity_is_a_unit() -> None:
    graph = EntityGraph.from_lists(
        [1, 2, 3], [(1, 2)], text=list("abc"), protected=[True, False, True]
    )
    assert graph.owners is None
    assert graph.num_owners == graph.promise_degrees(1).num_units == 3
    assert graph.protected_owners.tolist() == [True, False, True]
    assert graph.owner_degrees is graph.degrees
    assert "owner" not in graph.promise_degrees(1).report.to_dict()


def test_bounds_are_about_owners() -> None:
    graph = pair_graph()
    with pytest.raises(
        GraphError, match=r"every protected owner's degree, got 3 and 1 owners .*of row 1 with 4"
    ):
        graph.promise_degrees(3)
    with pytest.raises(GraphError, match="of 1 with 4"):
        graph.promise_degrees(3, show_ids=True)
    report = graph.cap_degrees(3, seed=0).report
    assert (report.num_protected, report.num_over, report.num_relations) == (3, 1, 3)
    assert "1 of 3 protected owners had more" in str(report)
    assert report.to_dict()["unit"] == "owner"


@settings(max_examples=80, deadline=None)
@given(owned_graphs(), st.integers(1, 4), st.integers(0, 3))
def test_capping_bounds_owners_and_is_maximal(graph, bound, seed) -> None:
    assert graph.owner_degrees.tolist() == oracle_degrees(graph, graph.relations)
    capped = graph.cap_degrees(bound, seed)
    left = np.array(oracle_degrees(graph, capped.relations))
    assert (left[graph.protected_owners] <= bound).all()
    full = graph.protected_owners & (left >= bound)
    remaining = {tuple(pair) for pair in capped.relations.tolist()}
    for one, other in graph.relations.tolist():
        if (one, other) not in remaining:
            assert full[graph.owners[one]] or full[graph.owners[other]]


@settings(max_examples=40, deadline=None)
@given(owned_graphs(), st.integers(1, 3), st.integers(0, 3))
def test_owners_of_one_entity_each_are_capped_as_entities(graph, bound, seed) -> None:
    single = EntityGraph(
        entities=graph.entities.drop_columns("owner"),
        relations=graph.relations,
        relation_types=graph.relation_types,
        type_names=graph.type_names,
    )
    alone = single.entities.append_column("owner", single.entities.column("id"))
    owned = EntityGraph(
        entities=alone,
        relations=graph.relations,
        relation_types=graph.relation_types,
        type_names=graph.type_names,
    )
    kept = single.cap_degrees(bound, seed).relations
    assert np.array_equal(owned.cap_degrees(bound, seed).relations, kept)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(owned_graphs(), st.sampled_from(["parquet", "arrow"]))
def test_owners_are_written_and_read(tmp_path: Path, graph, format: str) -> None:
    graph.write(tmp_path / "graph", format=format, overwrite=True)
    again = EntityGraph.read(tmp_path / "graph")
    assert again == graph
    assert again.owners.tolist() == graph.owners.tolist()
    pandas = EntityGraph.from_pandas(*graph.to_pandas())
    assert pandas.owners.tolist() == graph.owners.tolist()


def test_protection_is_the_same_for_all_entities_of_an_owner() -> None:
    with pytest.raises(GraphError, match=r"all entities of an owner or none, got 1 .*\(row 2\)"):
        pair_graph(protected=[True, False, True, True])
    graph = pair_graph(protected=[False, False, True, True])
    assert graph.protected_owners.tolist() == [False, True, True]
    flags = pa.chunked_array([[True, False, True, True]])
    unchecked = EntityGraph(
        entities=graph.entities.set_column(2, "protected", flags), relations=graph.relations
    )
    with pytest.raises(GraphError, match=r"`protected` must be the same .*got 1 entities"):
        unchecked.promise_degrees(9)
    index, flags = np.array([0, 1, 0, 1]), np.array([True, True, True, False])
    assert mixed_protection(index, flags).tolist() == [3]


@pytest.mark.parametrize(
    ("values", "index"),
    [
        (pa.array([7, None, 7], pa.int64()), [0, 1, 0]),
        (pa.array([7.0, None, 7.0]), [0, 1, 0]),  # as pandas writes integers with an empty cell
        (pa.array(["", "  ", "a"]), [0, 1, 2]),
        (pa.nulls(2), [0, 1]),
        (pa.array(["b", "a", "b"]).dictionary_encode(), [0, 1, 0]),
    ],
)
def test_columns_of_owners(values, index) -> None:
    assert owner_index(owner_column(pa.chunked_array([values]), "entities")).tolist() == index


def test_other_columns_are_refused() -> None:
    for values in (pa.array([0.5]), pa.array([True]), pa.array([[1]])):
        with pytest.raises(GraphError, match="strings or integers in column 'owner'"):
            owner_column(pa.chunked_array([values]), "entities")
    with pytest.raises(GraphError, match="NUL"):
        pair_graph(owner=["a\0", "b", "c", "d"])


def test_degrees_count_a_relation_inside_of_an_owner_once() -> None:
    relations, index = np.array([[0, 1], [1, 2], [2, 0]]), np.array([0, 0, 1])
    assert unit_degrees(relations, index).tolist() == [3, 2]
    assert unit_degrees(np.empty((0, 2), np.int64), index).tolist() == [0, 0]


def test_entities_of_an_owner_stay_together() -> None:
    owner = [f"o{i // 3}" if i < 90 else None for i in range(120)]
    graph = EntityGraph.from_lists(
        range(120),
        [(i, i + 1) for i in range(119)],
        text=["x"] * 120,
        owner=owner,
    )
    parts = split_entities(graph, {"train": 0.5, "test": 0.5}, seed=3)
    seen = [{name for name in part.column("owner") if name} for part in parts.values()]
    assert all(seen)
    assert not seen[0] & seen[1]
    alone = [sum(name is None for name in part.column("owner")) for part in parts.values()]
    assert min(alone) > 5  # entities without a value part one by one
    with pytest.raises(GraphError, match="`together` must be 'owner'"):
        split_entities(graph, {"train": 0.5, "test": 0.5}, seed=3, together="text")


def test_a_split_by_column_does_not_divide_an_owner() -> None:
    entities = {"id": [1, 2, 3], "text": ["x"] * 3, "owner": ["a", "a", "b"]}
    relations = {"source": [1], "target": [3]}
    graph = EntityGraph.from_arrow(entities | {"domain": ["p", "q", "q"]}, relations)
    with pytest.raises(GraphError, match="must not divide the entities of an owner, got 1 owners"):
        split_by_column(graph, "domain")
    whole = EntityGraph.from_arrow(entities | {"domain": ["p", "p", "q"]}, relations)
    assert split_by_column(whole, "domain")["p"].num_owners == 1


def test_an_inspection_counts_owners() -> None:
    report = inspect_graph(pair_graph(), caps=(2, 4))
    assert report.num_owners == 3
    assert report.degrees.largest == report.degrees.largest_protected == 4
    assert [cap.num_over for cap in report.caps] == [1, 0]


@pytest.mark.parametrize(
    ("ids", "owner"),
    [(["ann", "ann2", "bob"], [None, "ann", None]), ([1, 2, 3], [None, 1, None])],
)
def test_an_entity_whose_id_is_the_owner_of_others_must_say_who_owns_it(ids, owner):
    """A main account with an empty cell: taken for an owner of its own, the person would be two units."""

    def made(owner):
        pairs = [(ids[0], ids[2]), (ids[1], ids[2])]
        return EntityGraph.from_lists(ids, pairs, text=["x", "y", "z"], owner=owner)

    with pytest.raises(GraphError, match=r"must name the owner of .* got 1 such .*row 1"):
        made(owner)
    assert made([ids[0], ids[0], None]).owner_degrees.tolist() == [2, 2]
