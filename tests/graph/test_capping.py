"""Capping against the plain sequential greedy, and its promises on arbitrary graphs."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reldp.graph import EntityGraph, bundled, greedy
from reldp.graph.capping import degrees, kept_relations
from reldp.graph.keyed_hash import entity_digests, relation_hashes


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, np.ndarray, np.ndarray]:
    """Number of entities, relations, protected; about half of the relations touch a hub."""
    num = draw(st.integers(2, 24))
    hub = st.tuples(st.integers(0, 1), st.integers(0, num - 1))
    anyone = st.tuples(st.integers(0, num - 1), st.integers(0, num - 1))
    drawn = draw(st.lists(hub | anyone, max_size=80))
    pairs = sorted({(min(p), max(p)) for p in drawn if p[0] != p[1]})
    relations = np.array(draw(st.permutations(pairs)), dtype=np.int64).reshape(-1, 2)
    protected = np.array(draw(st.lists(st.booleans(), min_size=num, max_size=num)), dtype=bool)
    return num, relations, protected


def plain_greedy(
    ids: pa.Array, relations: np.ndarray, protected: np.ndarray, max_degree: int, seed: int
) -> np.ndarray:
    """The definition: one relation after the other, in the order of the hash."""
    hashes = relation_hashes(entity_digests(ids, seed, "cap_degrees"), relations)
    degree, kept = np.zeros(len(ids), dtype=int), np.zeros(len(relations), dtype=bool)
    for row in np.argsort(hashes, kind="stable"):
        endpoints = relations[row]
        if all(not protected[end] or degree[end] < max_degree for end in endpoints):
            kept[row] = True
            degree[endpoints] += 1
    return kept


def names(num: int) -> pa.Array:
    return pa.array([f"entity {i}" for i in range(num)])


@given(
    graph=graphs(), max_degree=st.integers(1, 6), seed=st.integers(0, 3), block=st.integers(1, 9)
)
@settings(max_examples=150, deadline=None)
def test_the_result_is_that_of_the_sequential_greedy(
    graph: tuple[int, np.ndarray, np.ndarray], max_degree: int, seed: int, block: int
) -> None:
    num, relations, protected = graph
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(greedy, "_BLOCK", block)
        kept = kept_relations(names(num), relations, protected, max_degree, seed)
    assert np.array_equal(kept, plain_greedy(names(num), relations, protected, max_degree, seed))


@given(graph=graphs(), max_degree=st.integers(1, 6), seed=st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_protected_degrees_are_bounded_and_no_relation_could_be_put_back(
    graph: tuple[int, np.ndarray, np.ndarray], max_degree: int, seed: int
) -> None:
    num, relations, protected = graph
    kept = kept_relations(names(num), relations, protected, max_degree, seed)
    degree = degrees(relations[kept], num)
    assert (degree[protected] <= max_degree).all()
    full = protected & (degree == max_degree)
    assert full[relations[~kept]].any(axis=1).all()


@given(graph=graphs(), max_degree=st.integers(1, 6), data=st.data())
@settings(max_examples=100, deadline=None)
def test_the_result_does_not_depend_on_the_order_of_rows_or_of_entities(
    graph: tuple[int, np.ndarray, np.ndarray], max_degree: int, data: st.DataObject
) -> None:
    num, relations, protected = graph
    ids = names(num)
    rows = np.array(data.draw(st.permutations(range(len(relations)))), dtype=int)
    place = np.array(data.draw(st.permutations(range(num))), dtype=int)  # new place of each entity
    old = np.argsort(place)
    moved = place[relations[rows]][:, ::-1]
    kept = kept_relations(ids, relations, protected, max_degree, 5)
    again = kept_relations(ids.take(pa.array(old)), moved, protected[old], max_degree, 5)
    assert np.array_equal(again, kept[rows])


@given(graph=graphs(), seed=st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_a_bound_on_degrees_bounds_what_a_cap_of_one_keeps(
    graph: tuple[int, np.ndarray, np.ndarray], seed: int
) -> None:
    """What docs/public-negatives.md tells owners to declare."""
    num, relations, protected = graph
    largest = degrees(relations, num)[protected].max(initial=1)
    kept = kept_relations(names(num), relations, protected, 1, seed)
    assert kept.sum() * (2 * largest - 1) >= len(relations)


def test_an_entity_that_comes_or_goes_moves_only_what_it_must() -> None:
    """A relation keeps its priority: far away from the newcomer nothing changes."""
    rng = np.random.default_rng(0)
    base = np.unique(np.sort(rng.integers(0, 40, (200, 2)), axis=1), axis=0)
    base = base[base[:, 0] != base[:, 1]]
    more = np.concatenate([base, [[40, 41], [40, 42], [41, 42]]])
    kept = kept_relations(names(43), base, np.ones(43, dtype=bool), 3, 5)
    again = kept_relations(names(43), more, np.ones(43, dtype=bool), 3, 5)
    assert np.array_equal(again[: len(base)], kept)


def test_different_seeds_keep_different_relations() -> None:
    star = np.stack([np.zeros(50, dtype=np.int64), np.arange(1, 51)], axis=1)
    kept = {
        tuple(np.flatnonzero(kept_relations(names(51), star, np.ones(51, dtype=bool), 3, seed)))
        for seed in range(10)
    }
    assert len(kept) == 10


def test_every_relation_of_a_hub_is_kept_equally_often() -> None:
    """4,000 seeds keep 3 of 6: counts are Bin(4000, 1/2), within 6 deviations; false alarm 1e-8."""
    star = np.stack([np.zeros(6, dtype=np.int64), np.arange(1, 7)], axis=1)
    everyone = np.ones(7, dtype=bool)
    counts = sum(kept_relations(names(7), star, everyone, 3, s).astype(int) for s in range(4000))
    assert (np.abs(counts - 2000) < 6 * np.sqrt(1000)).all()


def test_unprotected_ends_always_have_room() -> None:
    star = np.stack([np.zeros(50, dtype=np.int64), np.arange(1, 51)], axis=1)
    protected = np.ones(51, dtype=bool)
    protected[0] = False
    assert kept_relations(names(51), star, protected, 1, 5).all()


def test_a_graph_without_relations_has_nothing_to_drop() -> None:
    none = np.empty((0, 2), dtype=np.int64)
    assert len(kept_relations(names(3), none, np.ones(3, dtype=bool), 1, 5)) == 0
    assert degrees(none, 3).tolist() == [0, 0, 0]


def measured_graphs() -> dict[str, EntityGraph]:
    """A power-law graph and the bundled graphs."""
    rng = np.random.default_rng(0)
    pairs = np.unique(np.sort((rng.random((20_000, 2)) ** 2.5 * 3000).astype(int), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    made = EntityGraph.from_lists(range(3000), pairs.tolist(), text=["x"] * 3000)
    return {"power law": made} | {name: bundled.load(name) for name in bundled.BUNDLED}


def test_capping_keeps_as_much_as_a_sequential_greedy_in_any_random_order() -> None:
    """At least 0.95 of what the plain loop keeps in an order of its own."""
    for name, graph in measured_graphs().items():
        order = np.random.default_rng(0).permutation(graph.num_relations)
        room, count = [5] * graph.num_entities, 0
        for one, other in graph.relations[order].tolist():
            if room[one] and room[other]:
                room[one] -= 1
                room[other] -= 1
                count += 1
        assert graph.cap_degrees(5, seed=1).num_relations >= 0.95 * count, name
        assert count < graph.num_relations, name
