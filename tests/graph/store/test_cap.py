"""Capping a store keeps exactly the relations that capping in memory keeps."""

import numpy as np
import pytest

from reldp.graph import EntityGraph, keyed_hash
from reldp.graph.bundled import BUNDLED, load
from reldp.graph.capping import degrees
from reldp.graph.store import BuildSettings, build_store
from reldp.graph.store import cap as module
from reldp.graph.store.progress import Progress


def stored(graph, folder):
    graph.write(folder / "graph")
    return build_store(folder / "graph", folder / "store")


def random_graph(seed, *, typed=False, protected=True):
    rng = np.random.default_rng(seed)
    ends = np.minimum(rng.geometric(0.02, (4000, 2)), 400) - 1
    ends = ends[ends[:, 0] != ends[:, 1]]
    types = rng.integers(0, 3, len(ends)) if typed else np.zeros(len(ends), int)
    seen, pairs, names = set(), [], []
    for (a, b), kind in zip(ends.tolist(), types.tolist(), strict=True):
        key = (a, kind, b) if typed else (min(a, b), max(a, b))
        if key not in seen:
            seen.add(key)
            pairs.append((f"e{a}", f"e{b}"))
            names.append("abc"[kind])
    return EntityGraph.from_lists(
        [f"e{i}" for i in range(400)],
        pairs,
        text=[f"text {i}" for i in range(400)],
        types=names if typed else None,
        protected=None if protected else [i % 5 > 0 for i in range(400)],
    )


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_graphs_keep_the_same_relations(tmp_path, name):
    graph = load(name)
    store = stored(graph, tmp_path)
    assert store.fingerprint == graph.fingerprint
    for max_degree, seed in ((1, 0), (5, 7), (3, b"key"), (10**6, 1)):
        expected = graph.cap_degrees(max_degree, seed)
        got = store.cap_degrees(max_degree, seed)
        assert np.array_equal(got.relations, expected.relations)
        assert got.report == expected.report
        assert got.fingerprint == expected.fingerprint


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("protected", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_random_graphs_keep_the_same_relations(tmp_path, monkeypatch, seed, protected, typed):
    monkeypatch.setattr(module, "_CHUNK", 100)
    graph = random_graph(seed, typed=typed, protected=protected)
    store = stored(graph, tmp_path)
    for max_degree in (1, 2, 7):
        expected = graph.cap_degrees(max_degree, seed)
        got = store.cap_degrees(max_degree, seed)
        assert np.array_equal(got.relations, expected.relations)
        assert len(got.relations) < graph.num_relations
        if typed:
            assert np.array_equal(got.relation_types, expected.relation_types)
        assert got.fingerprint == expected.fingerprint
    assert not np.array_equal(
        store.cap_degrees(2, seed + 99).relations, store.cap_degrees(2, seed).relations
    )


SHAPES = {
    "one entity": (1, []),
    "no relation": (3, []),
    "star": (40, [(0, i) for i in range(1, 40)]),
    "two hubs": (40, [(h, i) for i in range(2, 40) for h in (0, 1)]),
    "complete": (12, [(i, j) for i in range(12) for j in range(i)]),
    "path": (30, [(i, i + 1) for i in range(29)]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_keeps_the_same_relations_for_every_seed(tmp_path, shape):
    """Integer ids; a seed is any integer or bytes."""
    count, pairs = SHAPES[shape]
    ids = [7 * i + 1 for i in range(count)]
    relations = [(ids[a], ids[b]) for a, b in pairs]
    graph = EntityGraph.from_lists(ids, relations, text=["x"] * count)
    store = stored(graph, tmp_path)
    for seed in (0, -1, 2**70, b"", b"0"):
        for max_degree in (1, 3):
            expected, got = (it.cap_degrees(max_degree, seed) for it in (graph, store))
            assert np.array_equal(got.relations, expected.relations)
            assert got.fingerprint == expected.fingerprint


def test_ids_are_hashed_in_processes_alike(tmp_path, monkeypatch):
    store = stored(random_graph(4), tmp_path)
    alone = np.concatenate(list(module._digests(store, 5, 1)), axis=1)
    monkeypatch.setattr(module, "_MANY", 0)
    together = np.concatenate(list(module._digests(store, 5, 2)), axis=1)
    assert np.array_equal(alone, together)
    assert alone.shape == (2, store.num_entities)


def test_equal_hashes_are_ordered_as_in_memory(tmp_path, monkeypatch):
    """With hashes of three bits, nearly all relations tie with others."""
    whole = keyed_hash.relation_hashes

    def coarse(*arguments):
        return whole(*arguments) & np.uint64(7 << 61)

    monkeypatch.setattr(keyed_hash, "relation_hashes", coarse)
    monkeypatch.setattr(module, "relation_hashes", coarse)
    graph = random_graph(5)
    expected = graph.cap_degrees(3, 1).relations
    assert np.array_equal(stored(graph, tmp_path).cap_degrees(3, 1).relations, expected)


def test_many_buckets_give_the_same_relations(tmp_path):
    graph = random_graph(1)
    store = stored(graph, tmp_path)
    mask = np.zeros(graph.num_relations, dtype=bool)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    module.keep_mask(store, 2, 3, mask, scratch, memory_bytes=4000, progress=Progress())
    assert np.array_equal(graph.relations[mask], graph.cap_degrees(2, 3).relations)
    assert list(scratch.iterdir()) == []


def test_several_caps_are_counted_in_one_pass(tmp_path):
    graph = random_graph(2, protected=False)
    store = stored(graph, tmp_path)
    bounds = (2, 5, 20, 10**6)
    counts = module.count_caps(store, bounds, 0, tmp_path, memory_bytes=10**6, progress=Progress())
    for bound in bounds:
        kept = graph.cap_degrees(bound, 0).relations
        after = degrees(kept, graph.num_entities)
        assert counts[bound].num_relations == len(kept)
        assert counts[bound].num_left_alone == int(((graph.degrees > 0) & (after == 0)).sum())


def test_what_was_kept_is_used_again(tmp_path):
    graph = random_graph(3)
    store = stored(graph, tmp_path)
    ticks = []
    store.cap_degrees(2, 0, report=ticks.append)
    assert {tick.phase for tick in ticks} >= {"hashing ids", "choosing relations"}
    again = []
    store.cap_degrees(2, 0, report=again.append, settings=BuildSettings(memory_limit="200MB"))
    assert again == []
