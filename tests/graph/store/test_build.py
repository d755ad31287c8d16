"""Stores: the same graphs and the same errors as `EntityGraph.read` gives, from files of any size."""

import hashlib
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.sources import DROPPABLE
from reldp.graph.store import BuildSettings, build_store, source_files
from tests.graph.folders import FORMATS, RELATIONS, folder_of, parquet
from tests.graph.test_damage import DAMAGE

SMALL = BuildSettings(memory_limit="200MB", threads=1)


def files_of(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def outcome(make) -> object:
    """A graph's content, or the error that came instead."""
    try:
        graph = make()
    except GraphError as error:  # Arrow says of some files in whose words it failed to open them
        return re.sub(r"Could not open Parquet input source '[^']*': ", "", str(error))
    return graph.fingerprint, dict(graph.record.drops), graph.record.source, graph.type_names


@pytest.fixture(params=[1 << 18, 16])
def rows_per_chunk(request, monkeypatch):
    monkeypatch.setattr(source_files, "CHUNK_ROWS", request.param)
    return request.param


@pytest.mark.parametrize(
    ("kinds", "show_ids"), [((), False), ((), True), (tuple(DROPPABLE), False)]
)
@pytest.mark.parametrize("name", DAMAGE)
def test_damage_gives_what_reading_gives(tmp_path, monkeypatch, name, kinds, show_ids):
    monkeypatch.setattr(source_files, "CHUNK_ROWS", 2)
    source = tmp_path / "graph"
    source.mkdir()
    folder_of(source, **DAMAGE[name][0])
    store = tmp_path / "store"
    expected = outcome(lambda: EntityGraph.read(source, drop=kinds, show_ids=show_ids))
    got = outcome(lambda: build_store(source, store, drop=kinds, show_ids=show_ids, settings=SMALL))
    assert got == expected
    left = ["graph"] if isinstance(expected, str) else ["graph", "store"]
    assert sorted(os.listdir(tmp_path)) == left


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_the_same_graph(tmp_path, form, rows_per_chunk):
    entities, relations = FORMATS[form]
    name = form.replace(".", "_")
    source = folder_of(tmp_path, **{f"entities_{name}": entities, f"relations_{name}": relations})
    graph = EntityGraph.read(source)
    stored = build_store(source, tmp_path / "store", settings=SMALL)
    assert stored == graph
    assert stored.text() == graph.text()
    assert stored.relations.tolist() == graph.relations.tolist()
    assert stored.degrees.tolist() == graph.degrees.tolist()
    assert EntityGraph.read(tmp_path / "store").record == graph.record


def typed_table(rng, num_entities, num_rows):
    names = np.array(["knows", "likes", "sold to"])
    ends = rng.integers(0, num_entities, (2, num_rows))
    return pa.table(
        {
            "source": [f"e{i}" for i in ends[0]],
            "target": [f"e{i}" for i in ends[1]],
            "type": names[rng.integers(0, 3, num_rows)],
        }
    )


def random_source(folder: Path, seed: int, *, typed: bool) -> Path:
    """Files with every kind of damage that may be dropped."""
    rng = np.random.default_rng(seed)
    rows = 300
    names = [f"e{i}" for i in rng.integers(0, 250, rows)]
    texts = [None if i % 17 == 0 else "" if i % 29 == 0 else f"text {i}" for i in range(rows)]
    vectors = rng.normal(size=(rows, 3)).astype(np.float32)
    vectors[5, 1] = np.nan
    columns = {
        "id": [None if i == 7 else "  " if i == 8 else name for i, name in enumerate(names)],
        "text": texts,
        "features": list(vectors),
        "protected": [i % 3 > 0 for i in range(rows)],
        "note": [None if i % 2 else i for i in range(rows)],
    }
    folder.mkdir(parents=True)
    pq.write_table(pa.table(columns), folder / "entities.parquet", row_group_size=64)
    table = typed_table(rng, 260, 700)
    if not typed:
        table = table.drop_columns(["type"])
    table = pa.concat_tables([table, table.slice(3, 40)])
    pq.write_table(table, folder / "relations.parquet", row_group_size=200)
    return folder


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_dropping_gives_the_same_graph_and_counts(tmp_path, seed, typed, rows_per_chunk):
    source = random_source(tmp_path / "graph", seed, typed=typed)
    graph = EntityGraph.read(source, drop=DROPPABLE)
    stored = build_store(source, tmp_path / "store", drop=DROPPABLE, settings=SMALL)
    assert stored.fingerprint == graph.fingerprint
    assert stored.record == graph.record
    assert len(graph.record.drops) >= 6
    assert stored.entities.schema.names == graph.entities.schema.names
    assert np.array_equal(stored.features, graph.features)
    assert np.array_equal(stored.protected, graph.protected)
    assert np.array_equal(stored.relations, graph.relations)
    assert stored.type_names == graph.type_names
    if typed:
        assert np.array_equal(stored.relation_types, graph.relation_types)
    assert stored.column("note") == graph.column("note")
    assert outcome(lambda: build_store(source, tmp_path / "other")) == outcome(
        lambda: EntityGraph.read(source)
    )


def test_chunks_memory_and_threads_do_not_change_a_byte(tmp_path, monkeypatch):
    source = random_source(tmp_path / "graph", 0, typed=True)
    build_store(source, tmp_path / "one", drop=DROPPABLE, settings=SMALL)
    monkeypatch.setattr(source_files, "CHUNK_ROWS", 7)
    settings = BuildSettings(memory_limit="1GB", threads=2, temp_dir=tmp_path / "temp")
    build_store(source, tmp_path / "two", drop=DROPPABLE, settings=settings)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    assert os.listdir(tmp_path / "temp") == []


@pytest.mark.parametrize("seed", range(24))
def test_random_damage_is_refused_by_both_or_by_neither_and_leaves_nothing(
    tmp_path, seed, monkeypatch
):
    """Where several things are wrong, the two may name another one first."""
    monkeypatch.setattr(source_files, "CHUNK_ROWS", 2)
    rng = np.random.default_rng(seed)
    (tmp_path / "graph").mkdir()
    form = list(FORMATS)[seed % len(FORMATS)]
    names = [f"{role}_{form.replace('.', '_')}" for role in ("entities", "relations")]
    source = folder_of(tmp_path / "graph", **dict(zip(names, FORMATS[form], strict=True)))
    path = source / f"{('entities', 'relations')[int(rng.integers(2))]}.{form}"
    data = bytearray(path.read_bytes())
    place = int(rng.integers(len(data)))
    data[place : place + int(rng.integers(3))] = rng.bytes(int(rng.integers(3)))
    path.write_bytes(data)
    kinds = DROPPABLE if seed % 3 == 0 else ()
    expected = outcome(lambda: EntityGraph.read(source, drop=kinds))
    got = outcome(lambda: build_store(source, tmp_path / "store", drop=kinds, settings=SMALL))
    assert got == expected or (isinstance(got, str) and isinstance(expected, str))
    left = ["graph"] if isinstance(expected, str) else ["graph", "store"]
    assert sorted(os.listdir(tmp_path)) == left


def test_files_in_folders_named_by_columns(tmp_path):
    source = tmp_path / "graph"
    for kind, pairs in {"likes": "a,b\n", "sold%20to": "b,c\na,b\n"}.items():
        part = source / "relations" / f"type={kind}"
        part.mkdir(parents=True)
        (part / "part-0.csv").write_text("source,target\n" + pairs)
        (part / "_SUCCESS").write_text("")
    (source / "entities").mkdir()
    (source / "entities" / "0.csv").write_text("id,text\na,x\nb,y\n")
    (source / "entities" / "1.csv").write_text("id,text\nc,z\n")
    stored = build_store(source, tmp_path / "store", settings=SMALL)
    pairs = [("a", "b"), ("b", "c"), ("a", "b")]
    types = ["likes", "sold to", "sold to"]
    graph = EntityGraph.from_lists(["a", "b", "c"], pairs, text=["x", "y", "z"], types=types)
    assert stored.fingerprint == graph.fingerprint
    by_pattern = build_store(
        source, tmp_path / "p", entities="entities/*.csv", relations="relations/**/*.csv"
    )
    assert by_pattern.fingerprint == graph.fingerprint


def test_an_error_in_one_of_several_files_names_the_file(tmp_path):
    source = folder_of(tmp_path)
    (source / "relations.csv").unlink()
    (source / "relations").mkdir()
    (source / "relations" / "0.csv").write_text(RELATIONS)
    (source / "relations" / "1.csv").write_text("source,target\na,zz\n")
    with pytest.raises(GraphError, match=r"relations/ .* unknown target ids \(1\.csv line 2\)"):
        build_store(source, tmp_path / "store")
    (source / "relations" / "1.csv").write_text("source,target,day\na,c,1\n")
    with pytest.raises(GraphError, match="same columns in every file, got column number 3 in some"):
        build_store(source, tmp_path / "store")


def test_a_store_is_replaced_on_request_only_and_kept_if_a_build_fails(tmp_path):
    source = folder_of(tmp_path / "graph" if (tmp_path / "graph").mkdir() is None else tmp_path)
    store = tmp_path / "store"
    first = build_store(source, store)
    before = files_of(store)
    with pytest.raises(GraphError, match="must not hold a store already"):
        build_store(source, store)
    (source / "relations.csv").write_text(RELATIONS + "a,zz\n")
    with pytest.raises(GraphError, match="unknown target ids"):
        build_store(source, store, overwrite=True)
    assert files_of(store) == before
    (store / "sizes.private.json").write_text("{}")
    (source / "relations.csv").write_text(RELATIONS + "a,c\n")
    second = build_store(source, store, overwrite=True)
    assert second.num_relations == first.num_relations + 1
    assert (store / "sizes.private.json").read_text() == "{}"
    assert sorted(os.listdir(tmp_path)) == ["graph", "store"]


def test_other_files_are_never_written_over(tmp_path):
    source = folder_of(tmp_path)
    with pytest.raises(GraphError, match="new or empty, got other files"):
        build_store(source, source, overwrite=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(GraphError, match="must be written to a folder, got a file"):
        build_store(source, tmp_path / "file")


def test_what_an_interrupted_build_left_is_removed_and_reads_as_nothing(tmp_path):
    source = folder_of(tmp_path)
    store = build_store(source, tmp_path / "store").folder
    shutil.copytree(store, tmp_path / ".store.partial")
    (tmp_path / ".store.partial" / "store.json").unlink()
    with pytest.raises(GraphError, match="must hold one relations file, got"):
        EntityGraph.read(tmp_path / ".store.partial")
    build_store(source, tmp_path / "store", overwrite=True)
    assert not (tmp_path / ".store.partial").exists()


def test_owners_are_refused(tmp_path):
    source = folder_of(tmp_path, entities_parquet=parquet(id=["a"], text=["x"], owner=["o"]))
    with pytest.raises(GraphError, match="no column 'owner' in a graph store"):
        build_store(source, tmp_path / "store")
