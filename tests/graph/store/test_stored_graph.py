"""An opened store: what a graph in memory gives, from mapped files that are checked when they are read."""

import dataclasses
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.bundled import load
from reldp.graph.inspection import inspect_graph
from reldp.graph.splits import split_by_column, split_entities, split_relations
from reldp.graph.store import build_store
from reldp.graph.store.stored_graph import StoredGraph
from tests.graph.store.test_cap import random_graph


@pytest.fixture(scope="module")
def graph() -> EntityGraph:
    return load("wordnet-verbs")


@pytest.fixture(scope="module")
def folder(graph, tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("verbs")
    graph.write(place / "graph")
    build_store(place / "graph", place / "store")
    return place / "store"


def test_reading_opens_the_store(graph, folder):
    store = EntityGraph.read(folder)
    assert isinstance(store, StoredGraph)
    assert store == graph
    assert repr(store) == repr(graph)
    assert store.columns == graph.columns
    assert store.text([5, 0, 5]) == graph.text([5, 0, 5])
    assert store.text([]) == []
    assert store.column("id", [3, 1]) == graph.column("id", [3, 1])
    assert store.ids.to_pylist() == graph.ids.to_pylist()
    assert list(store.text_batches(1000)) == list(graph.text_batches(1000))
    assert not store.relations.flags.writeable
    with pytest.raises(GraphError, match=r"`indices` must lie in 0\.\.13638, got"):
        store.text([13639])


def test_an_inspection_is_that_of_the_graph(graph, folder):
    expected = inspect_graph(graph, show_ids=True)
    got = inspect_graph(EntityGraph.read(folder), show_ids=True)
    assert dataclasses.asdict(got) == dataclasses.asdict(expected)


def test_mentions_are_those_of_the_graph(tmp_path):
    names = ["alice", "user-17", "bob@example.com", "User 17", "common", "x1", "123456"]
    texts = ["likes tea", "friend of Alice", "met user 17 and alice", "bob example com", "123456"]
    texts += ["common words", "common user-17"]
    texts = [*texts, *[f"common number {i}" for i in range(60)]]
    names = [*names, *[f"entity-{i}" for i in range(60)]]
    made = EntityGraph.from_lists(names, [], text=texts)
    made.write(tmp_path / "graph")
    stored = build_store(tmp_path / "graph", tmp_path / "store")
    expected = inspect_graph(made, show_ids=True).mentions
    assert expected.num_texts >= 3
    assert expected.num_common == 1
    assert inspect_graph(stored, show_ids=True).mentions == expected


def test_promises_are_checked(graph, folder):
    store = EntityGraph.read(folder)
    largest = int(graph.degrees.max())
    promised = store.promise_degrees(largest)
    assert promised.fingerprint == graph.promise_degrees(largest).fingerprint
    with pytest.raises(GraphError, match="must be at least every protected entity's degree"):
        store.promise_degrees(1)


def test_a_store_is_pickled_by_its_place(folder):
    store = EntityGraph.read(folder)
    data = pickle.dumps(store)
    assert len(data) < 2000
    assert pickle.loads(data) == store  # noqa: S301


def changed(folder: Path, name: str, place: int) -> None:
    data = bytearray((folder / name).read_bytes())
    data[place] ^= 1
    (folder / name).write_bytes(data)


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("relations.npy", lambda store: store.relations),
        ("relations.npy", lambda store: store.cap_degrees(2, 0)),
        ("degrees.npy", lambda store: store.degrees),
        ("entities.arrow", lambda store: store.text([3])),
        ("entities.arrow", lambda store: store.entities),
    ],
)
def test_a_change_is_found_when_it_is_read(graph, tmp_path, name, use):
    graph.write(tmp_path / "graph")
    build_store(tmp_path / "graph", tmp_path / "store")
    place = (tmp_path / "store" / name).stat().st_size // 2
    changed(tmp_path / "store", name, place)
    with pytest.raises(GraphError, match=rf"{name} must be as it was built, but block"):
        use(EntityGraph.read(tmp_path / "store"))


def test_files_that_are_missing_or_short_are_found_at_once(graph, tmp_path):
    graph.write(tmp_path / "graph")
    build_store(tmp_path / "graph", tmp_path / "store")
    path = tmp_path / "store" / "relations.npy"
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    with pytest.raises(GraphError, match=r"relations.npy must be as it was built, .* bytes, got"):
        EntityGraph.read(tmp_path / "store")
    path.unlink()
    with pytest.raises(GraphError, match="bytes, got none"):
        EntityGraph.read(tmp_path / "store")
    manifest = tmp_path / "store" / "store.json"
    for text in ("", "{}", "[1]", manifest.read_text().replace("store 1", "store 2")):
        manifest.write_text(text)
        with pytest.raises(GraphError, match=r"store\.json"):
            EntityGraph.read(tmp_path / "store")


@pytest.mark.parametrize("typed", [False, True])
def test_parts_are_those_of_the_graph(tmp_path, typed):
    made = random_graph(4, typed=typed, protected=False)
    made.write(tmp_path / "graph")
    store = build_store(tmp_path / "graph", tmp_path / "store")
    shares = {"train": 0.7, "test": 0.3}
    for split in (split_relations, split_entities, partial(split_entities, together="text")):
        expected, got = split(made, shares, seed=3), split(store, shares, seed=3)
        for name, part in expected.items():
            stored = got[name]
            assert isinstance(stored, StoredGraph)
            assert stored == part
            assert stored.record == part.record
            assert np.array_equal(stored.degrees, part.degrees)
            assert stored.fingerprint == EntityGraph.fingerprint.func(stored)
            capped = stored.cap_degrees(2, 1)
            assert capped.fingerprint == part.cap_degrees(2, 1).fingerprint
            again = pickle.loads(pickle.dumps(stored))  # noqa: S301
            assert again.relations.tolist() == part.relations.tolist()
    domains = load("wordnet-verbs")
    domains.write(tmp_path / "verbs")
    store = build_store(tmp_path / "verbs", tmp_path / "verb store")
    assert split_by_column(store, "domain") == split_by_column(domains, "domain")


def test_declared_types_are_those_of_the_graph(tmp_path):
    made = random_graph(4, typed=True)
    made.write(tmp_path / "graph")
    store = build_store(tmp_path / "graph", tmp_path / "store")
    for names in (["a", "b", "c"], ["b", "0", "c", "a", "z"]):
        expected, got = made.with_types(names), store.with_types(names)
        assert got == expected
        assert got.record == expected.record
        assert np.array_equal(got.relation_types, expected.relation_types)
    for names in (["a"], []):
        with pytest.raises(GraphError) as expected:
            made.with_types(names, show_names=True)
        with pytest.raises(GraphError) as got:
            store.with_types(names, show_names=True)
        assert str(got.value) == str(expected.value)


def test_relations_in_memory_replace_those_of_the_store(graph, folder):
    store = EntityGraph.read(folder)
    other = store.replace(relations=np.array([[0, 1]]), record=store.record)
    assert other == graph.replace(relations=np.array([[0, 1]]), record=graph.record)
    mask = np.arange(graph.num_entities) % 3 > 0
    assert store.select_entities(mask) == graph.select_entities(mask)
