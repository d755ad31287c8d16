"""What lies beside a store is used if it follows from the store, whoever made its hashes."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.store import build_store
from reldp.graph.store import part_values as module
from reldp.graph.store.part_values import kept_rows, save_kept
from tests.graph.store.rewriting import read_columns, write_array, write_columns
from tests.graph.store.test_cap import random_graph


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A typed store with features, a cap and three parts."""
    place = tmp_path_factory.mktemp("template")
    made = random_graph(4, typed=True, protected=False)
    entities, relations = made.to_arrow()
    vectors = np.random.default_rng(0).normal(size=(made.num_entities, 2)).astype(np.float32)
    lists = pa.array(vectors.tolist(), pa.list_(pa.float32()))
    entities = entities.append_column("features", lists)
    entities = entities.append_column("size", pa.array([float("nan"), None] * 200))
    EntityGraph.from_arrow(entities, relations).write(place / "graph")
    build_store(place / "graph", place / "store")
    for use in USES.values():
        use(EntityGraph.read(place / "store"))
    return place / "store"


def kept(store):
    mask = np.arange(store.num_relations) % 3 > 0
    return store.keep_relations(mask, record=store.record)


USES = {
    "cap": lambda store: store.cap_degrees(2, 0),
    "kept": kept,
    "types": lambda store: store.with_types((*store.type_names, "0")),
    "entities": lambda store: store.select_entities(np.arange(store.num_entities) % 2 == 0),
}


def use(store_folder, name):
    part = USES[name](EntityGraph.read(store_folder))
    _ = (part.fingerprint, part.relations, part.relation_types, part.protected)
    _ = getattr(part, "degrees", None)


@pytest.fixture
def store(template, tmp_path):
    shutil.copytree(template, tmp_path / "store")
    return tmp_path / "store"


def folder_of(store, name):
    """The folder that a use of a store reads."""
    kinds = {
        "cap": {"kept.npy"},
        "kept": {"degrees.npy"},
        "types": {"degrees.npy"},
        "entities": {"entities.arrow"},
    }
    marks = {"kept": "relations", "types": "types", "entities": "entities", "cap": "max_degree"}
    for path in sorted(store.glob("*/*/derived.json")):
        content = json.loads(path.read_text())
        if marks[name] in json.loads(content["depends_on"]):
            assert kinds[name] <= set(content["files"])
            return path.parent
    raise AssertionError(name)


@pytest.mark.parametrize("chunk", [8, 1 << 20])
@pytest.mark.parametrize("name", USES)
def test_what_follows_is_used_again(store, monkeypatch, name, chunk):
    monkeypatch.setattr(module, "_CHUNK", chunk)
    folder = folder_of(store, name)
    before = (folder / "relations.npy").stat()
    use(store, name)
    after = (folder / "relations.npy").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def swapped(array):
    array[[0, 1]] = array[[1, 0]]
    return array


def reversed_once(array):
    array[0] = array[0, ::-1]
    return array


def outside(array):
    array[-1, 0] = 10**6
    return array


def negative(array):
    array[3, 1] = -3
    return array


CHANGES = {
    "swapped": ("relations.npy", swapped),
    "reversed": ("relations.npy", reversed_once),
    "out of range": ("relations.npy", outside),
    "negative": ("relations.npy", negative),
    "floats": ("relations.npy", lambda array: array.astype(np.float64)),
    "flat": ("relations.npy", lambda array: array.reshape(-1)),
    "fewer": ("relations.npy", lambda array: array[:-1]),
    "more": ("relations.npy", lambda array: np.concatenate([array, array[:1]])),
    "types": ("types.npy", lambda array: (array + 1) % 3),
    "wide types": ("types.npy", lambda array: array.astype(np.int64)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", USES)
def test_what_does_not_follow_is_refused(store, name, change):
    file, edit = CHANGES[change]
    folder = folder_of(store, name)
    write_array(folder / file, edit(np.load(folder / file)))
    with pytest.raises(GraphError, match=r"^[^\n]*\.npy[^\n]* must [^\n]*again\.$"):
        use(store, name)


@pytest.mark.parametrize("name", ["kept", "types", "entities"])
def test_other_degrees_of_a_part_are_refused(store, name):
    path = folder_of(store, name) / "degrees.npy"
    write_array(path, np.load(path) - 1)
    with pytest.raises(GraphError, match=r"degrees\.npy[^\n]* must count the relations"):
        use(store, name)


@pytest.mark.parametrize("name", ["kept", "types"])
def test_another_fingerprint_of_a_part_is_refused(store, name):
    path = folder_of(store, name) / "derived.json"
    content = json.loads(path.read_text())
    content["values"]["fingerprint"] = "0" * 64
    path.write_text(json.dumps(content))
    with pytest.raises(GraphError, match="must hold the fingerprint of what the store holds"):
        use(store, name)


def test_a_cap_that_leaves_out_a_relation_with_room_is_refused(store):
    graph, folder = EntityGraph.read(store), folder_of(store, "cap")
    relations, types = np.load(folder / "relations.npy"), np.load(folder / "types.npy")
    packed = np.load(folder / "kept.npy")
    rows = kept_rows(packed, 0, graph.num_relations)
    mask = np.zeros(graph.num_relations, dtype=bool)
    mask[rows[1:]] = True
    write_array(folder / "relations.npy", relations[1:])
    write_array(folder / "types.npy", types[1:])
    write_array(folder / "kept.npy", np.packbits(mask))
    with pytest.raises(
        GraphError, match=r"relations\.npy in capped/\w+ must follow from the store"
    ):
        use(store, "cap")


def test_a_cap_above_its_bound_is_refused(store):
    graph, folder = EntityGraph.read(store), folder_of(store, "cap")
    write_array(folder / "relations.npy", np.array(graph.relations))
    write_array(folder / "types.npy", np.array(graph.relation_types))
    write_array(folder / "kept.npy", np.packbits(np.ones(graph.num_relations, dtype=bool)))
    with pytest.raises(
        GraphError, match=r"relations\.npy in capped/\w+ must follow from the store"
    ):
        use(store, "cap")


@pytest.mark.parametrize("edit", [lambda bits: bits[:-1], lambda bits: bits.astype(np.int64)])
def test_bits_of_another_form_are_refused(store, edit):
    path = folder_of(store, "cap") / "kept.npy"
    write_array(path, edit(np.load(path)))
    with pytest.raises(GraphError, match=r"kept\.npy in capped/\w+ must follow from the store"):
        use(store, "cap")


@pytest.mark.parametrize("column", ["text", "size", "id", "protected"])
def test_selected_entities_are_those_of_the_store(store, column):
    folder = folder_of(store, "entities")
    table = read_columns(folder)
    values = table.column(column).to_pylist()
    values[0] = {"text": "other", "size": 1.0, "id": "other", "protected": not values[0]}[column]
    kind = table.schema.field(column).type
    place = table.column_names.index(column)
    write_columns(folder, table.set_column(place, column, pa.array(values, kind)))
    with pytest.raises(
        GraphError, match=r"entities\.arrow in parts/\w+ must follow from the store"
    ):
        use(store, "entities")


def test_selected_features_are_those_of_the_store(store):
    path = folder_of(store, "entities") / "features.npy"
    write_array(path, np.load(path) + 1)
    with pytest.raises(GraphError, match=r"features\.npy in parts/\w+ must follow from the store"):
        use(store, "entities")


def test_the_count_of_cut_relations_is_that_of_the_store(store):
    path = folder_of(store, "entities") / "derived.json"
    content = json.loads(path.read_text())
    content["values"]["num_cut"] += 1
    path.write_text(json.dumps(content))
    with pytest.raises(GraphError, match=r"derived\.json in parts/\w+ must be as it was made"):
        use(store, "entities")


@pytest.mark.parametrize("count", [0, 1, 8, 29])
def test_kept_rows_are_those_of_the_mask(tmp_path, monkeypatch, count):
    monkeypatch.setattr(module, "_CHUNK", 8)
    mask = np.random.default_rng(count).random(count) < 0.5
    save_kept(tmp_path, mask)
    packed = np.load(tmp_path / "kept.npy")
    for start, stop in ((0, count), (count // 3, count), (count // 3, count // 2)):
        assert (
            kept_rows(packed, start, stop).tolist()
            == (start + np.flatnonzero(mask[start:stop])).tolist()
        )
