"""A store that somebody edited: each change is one clear line, when the store is opened or used."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.store import build_store, contents
from reldp.graph.store.blocks import hash_blocks
from tests.graph.store.rewriting import (
    keep_fingerprint,
    read_columns,
    write_array,
    write_columns,
)
from tests.graph.store.test_cap import random_graph


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


def changed_array(name: str, place: object, value: object):
    def change(store: Path) -> None:
        array = np.load(store / name)
        array[place] = value
        write_array(store / name, array)

    return change


def changed_column(name: str, value: object):
    def change(store: Path) -> None:
        table = read_columns(store)
        values = table.column(name).to_pylist()
        values[7] = value
        place, kind = table.column_names.index(name), table.schema.field(name).type
        write_columns(store, table.set_column(place, name, pa.array(values, kind)))

    return change


def repeated_relation(store: Path) -> None:
    for name in ("relations.npy", "types.npy"):
        array = np.load(store / name)
        array[1] = array[0]
        write_array(store / name, array)
    counts = np.bincount(np.load(store / "relations.npy").reshape(-1), minlength=400)
    write_array(store / "degrees.npy", counts)


def self_relation(store: Path) -> None:
    changed_array("relations.npy", 5, [7, 7])(store)
    counts = np.bincount(np.load(store / "relations.npy").reshape(-1), minlength=400)
    write_array(store / "degrees.npy", counts)


@pytest.mark.parametrize("with_fingerprint", [False, True])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (changed_array("relations.npy", (5, 1), 10**6), r"relations\.npy must hold entity indices"),
        (changed_array("relations.npy", (5, 1), -3), r"relations\.npy must hold entity indices"),
        (changed_array("relations.npy", (5, 1), -(2**62)), r"relations\.npy must hold entity"),
        (self_relation, r"relations\.npy must relate two different entities, got self-relations"),
        (
            repeated_relation,
            r"relations\.npy must name a source, type and target once, got repeats",
        ),
        (
            changed_array("degrees.npy", 0, 0),
            r"degrees\.npy must count the relations of each entity",
        ),
        (changed_array("degrees.npy", 0, 2**62), r"degrees\.npy must count the relations"),
        (changed_array("types.npy", 0, -1), r"types\.npy must hold codes of types in 0\.\.2"),
        (changed_array("features.npy", (0, 0), np.nan), r"features\.npy must hold finite numbers"),
        (changed_column("id", None), r"entities\.arrow must .* column 'id', got nulls"),
        (changed_column("id", "e3"), r"entities\.arrow must give every entity an id of its own"),
        (changed_column("text", None), r"entities\.arrow must .* column 'text', got nulls"),
        (changed_column("text", " "), r"entities\.arrow must .* column 'text', got blank ones"),
    ],
)
def test_values_that_no_build_writes_are_one_clear_line(
    typed_store, change, words, with_fingerprint
):
    """Hashes are right, and the fingerprint too where there is one: somebody made them."""
    change(typed_store)
    if with_fingerprint:
        try:
            keep_fingerprint(typed_store)
        except GraphError:  # columns are refused before anything is computed from them
            assert "column" in words or "features" in words
    with pytest.raises(GraphError, match=rf"^{words}[^\n]*Build the store again\.$"):
        use(typed_store)


def test_a_null_in_protected_is_refused(tmp_path):
    random_graph(4, protected=False).write(tmp_path / "graph")
    build_store(tmp_path / "graph", tmp_path / "store")
    changed_column("protected", None)(tmp_path / "store")
    with pytest.raises(GraphError, match="in every row of column 'protected', got nulls"):
        _ = EntityGraph.read(tmp_path / "store").protected


def test_a_fingerprint_of_another_graph_is_refused(typed_store):
    changed_column("shelf", "other")(typed_store)
    with pytest.raises(
        GraphError, match=r"store\.json must hold the fingerprint of what the store"
    ):
        use(typed_store)
    keep_fingerprint(typed_store)
    use(typed_store)


def test_values_are_checked_once_per_process(typed_store, monkeypatch):
    changed_column("shelf", "another")(typed_store)
    keep_fingerprint(typed_store)
    calls = []
    right = contents.check_relations
    monkeypatch.setattr(contents, "check_relations", lambda *a: calls.append(1) or right(*a))
    for _ in range(2):
        store = EntityGraph.read(typed_store)
        assert store.with_record(store.record).num_relations == len(store.relations)
    assert calls == [1]
