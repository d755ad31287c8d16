"""An opened store: what a graph in memory gives, from mapped files that are checked when they are read."""

import dataclasses
import json
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.bundled import load
from reldp.graph.inspection import inspect_graph
from reldp.graph.splits import split_by_column, split_entities, split_relations
from reldp.graph.store import build_store
from reldp.graph.store.blocks import hash_blocks
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


@pytest.fixture
def typed_store(tmp_path) -> Path:
    """A store with texts, features, a further column, and relations of three types."""
    made = random_graph(4, typed=True)
    entities, relations = made.to_arrow()
    vectors = np.random.default_rng(0).normal(size=(made.num_entities, 2)).astype(np.float32)
    entities = entities.append_column(
        "features", pa.array(vectors.tolist(), pa.list_(pa.float32()))
    )
    entities = entities.append_column("shelf", pa.array([f"s{i}" for i in range(len(vectors))]))
    EntityGraph.from_arrow(entities, relations).write(tmp_path / "graph")
    build_store(tmp_path / "graph", tmp_path / "store")
    return tmp_path / "store"


def use(folder: Path) -> None:
    """Use everything that a store has."""
    store = EntityGraph.read(folder)
    _ = (store.entities, store.features, store.relations, store.relation_types, store.degrees)
    _ = (store.protected, store.text([0]), store.owners, store.to_arrow())
    store.cap_degrees(2, 0)
    store.with_types((*store.type_names, "zz"))
    mask = np.arange(store.num_relations) % 2 == 0
    _ = store.keep_relations(mask, record=store.record).relation_types
    _ = store.select_entities(np.arange(store.num_entities) % 2 == 0).relations


def changes_of(values: dict) -> list[dict]:
    """Return a manifest with each field changed in some ways."""
    columns, files = values["columns"], values["files"]
    other = [c for c in columns if c not in ("text", "features", "id")]
    changed: list[dict] = [
        {"columns": ["NaN", "features"]},
        {"columns": [*columns, "NaN"]},
        {"columns": [c for c in columns if c != "features"]},
        {"columns": [c for c in columns if c != "text"]},
        {"columns": [c for c in columns if c not in other]},
        {"columns": [{"id": "text", "text": "id"}.get(c, c) for c in columns]},
        {"columns": [{"shelf": "owner"}.get(c, c) for c in columns]},
        {"columns": [{"shelf": "protected"}.get(c, c) for c in columns if c != "protected"]},
        {"type_names": values["type_names"][:-1]},
        {"type_names": values["type_names"][:1]},
    ]
    for name in ("num_entities", "num_relations", "feature_size"):
        changed += [{name: values[name] + n} for n in (-1, 1, 2**62)]
    for name in files:
        changed.append({"files": {k: v for k, v in files.items() if k != name}})
        changed += [{"files": files | {name: files[k]}} for k in files if k != name]
        two = {"boundaries": [1, *files[name]["boundaries"]], "sha256": files[name]["sha256"] * 2}
        changed.append({"files": files | {name: two}})
    return changed


def test_an_edited_manifest_is_one_clear_line(typed_store):
    use(typed_store)
    manifest = typed_store / "store.json"
    values = json.loads(manifest.read_text())
    for change in changes_of(values):
        manifest.write_text(json.dumps(values | change))
        with pytest.raises(GraphError, match=r"^[^\n]*must .*Build the store again\.$"):
            use(typed_store)


def test_columns_that_the_file_lacks_are_found_at_once(typed_store):
    manifest = typed_store / "store.json"
    values = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(values | {"columns": [*values["columns"], "NaN"]}))
    with pytest.raises(GraphError, match=r"store\.json must name the columns of entities\.arrow"):
        EntityGraph.read(typed_store)


@pytest.mark.parametrize("name", ["relations.npy", "types.npy", "degrees.npy", "features.npy"])
def test_a_file_of_another_kind_is_found_at_once(typed_store, name):
    """Its hashes are right: somebody made them."""
    path, manifest = typed_store / name, typed_store / "store.json"
    np.save(path, np.load(path).astype(np.float64))
    values = json.loads(manifest.read_text())
    values["files"][name] = hash_blocks(path).to_json()
    manifest.write_text(json.dumps(values))
    with pytest.raises(GraphError, match=f"{name} must be as it was built"):
        EntityGraph.read(typed_store)


def test_an_edited_part_is_one_clear_line(typed_store):
    use(typed_store)
    found = sorted(
        path for kind in ("capped", "parts") for path in typed_store.rglob(f"{kind}/*/derived.json")
    )
    assert len(found) == 4
    for path in found:
        text = path.read_text()
        content = json.loads(text)
        changed = [
            {"files": {}},
            {"files": content["files"] | {"x.npy": content["files"]["relations.npy"]}},
        ]
        for name in content["values"]:
            changed.append({"values": {k: v for k, v in content["values"].items() if k != name}})
            changed += [
                {"values": content["values"] | {name: value}} for value in (-1, "a", None, 1.5)
            ]
        for change in changed:
            path.write_text(json.dumps(content | change))
            with pytest.raises(
                GraphError, match=r"^derived\.json in \w+/\w+ must be as it was made, got"
            ):
                use(typed_store)
        path.write_text(text)
    use(typed_store)
