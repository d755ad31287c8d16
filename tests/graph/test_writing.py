"""What is written reads back as the same graph, and is nobody else's to read."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.record import GraphRecord
from reldp.graph.store import build_store
from reldp.graph.writing import write_folder

# Everything but surrogates, which are no characters, and NUL, which no text holds.
TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1
).filter(str.strip)


@st.composite
def graphs(draw: st.DrawFn) -> EntityGraph:
    """Graphs with ids of either type, texts and features, protected or not, with a further column."""
    ids = draw(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=12, unique=True)
        | st.lists(TEXT, min_size=1, max_size=12, unique=True)
    )
    n = len(ids)
    each = {"min_size": n, "max_size": n}
    columns: dict[str, object] = {"id": ids, "text": draw(st.lists(TEXT, **each))}
    if draw(st.booleans()):
        vector = st.lists(
            st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=2
        )
        columns["features"] = pa.array(draw(st.lists(vector, **each)), pa.list_(pa.float32()))
    if draw(st.booleans()):
        columns["protected"] = draw(st.lists(st.booleans(), **each))
    if draw(st.booleans()):
        columns["domain"] = pa.array(draw(st.lists(st.none() | TEXT, **each)), pa.string())
    pairs = draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=20))
    typed = draw(st.booleans())
    once = [(ids[a], ids[b]) for a, b in sorted(pairs) if a < b or (typed and a != b)]
    kind = pa.array(ids).type
    endpoints = {
        name: pa.array([p[i] for p in once], kind) for i, name in enumerate(("source", "target"))
    }
    names = draw(st.lists(TEXT, min_size=1, max_size=4, unique=True))
    if typed:
        types = draw(st.lists(st.sampled_from(names), min_size=len(once), max_size=len(once)))
        endpoints["type"] = pa.array(types, pa.string())
    record = GraphRecord(source=draw(TEXT), drops={"unknown_ids": 2}, notes=("One.",), capped_at=3)
    graph = EntityGraph.from_arrow(pa.table(columns), pa.table(endpoints), record=record)
    return graph.with_types(names) if typed and draw(st.booleans()) else graph


@pytest.mark.parametrize("format", ["parquet", "arrow"])
@given(graph=graphs())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_reading_what_was_written_gives_the_same_graph(
    format: str, graph: EntityGraph, tmp_path: Path
) -> None:
    graph.write(tmp_path / "graph", format=format, overwrite=True)
    again = EntityGraph.read(tmp_path / "graph")
    assert again == graph
    assert again.record == graph.record
    assert again.entities.equals(graph.entities)
    assert np.array_equal(again.relations, graph.relations)


def small() -> EntityGraph:
    return EntityGraph.from_lists(["a", "b"], [("a", "b")], text=["x", "y"])


def test_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    small().write(tmp_path / "graph")
    assert (tmp_path / "graph").stat().st_mode & 0o777 == 0o700
    for path in (tmp_path / "graph").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600, path.name


def test_a_graph_is_replaced_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "nodes.tsv").write_text("a\tx\n")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(GraphError, match=r"must not hold a graph already, got nodes\.tsv"):
        small().write(tmp_path)
    small().write(tmp_path, overwrite=True)
    small().write(tmp_path, overwrite=True, format="arrow")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["entities.arrow", "notes.txt", "record.json", "relations.arrow"]


def test_a_graph_is_never_written_into_a_store(tmp_path: Path) -> None:
    """The manifest would stay, and what was just written could not be read."""
    small().write(tmp_path / "graph")
    store = build_store(tmp_path / "graph", tmp_path / "store")
    before = sorted(path.name for path in (tmp_path / "store").iterdir())
    for graph in (small(), store):
        for overwrite in (False, True):
            with pytest.raises(GraphError, match="into the folder of a graph store, got 'store'"):
                graph.write(tmp_path / "store", overwrite=overwrite)
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == before
    assert EntityGraph.read(tmp_path / "store") == small()


def test_a_graph_can_be_written_over_the_folder_it_is_mapped_from(tmp_path: Path) -> None:
    small().write(tmp_path, format="arrow")
    mapped = EntityGraph.read(tmp_path)
    mapped.write(tmp_path, format="arrow", overwrite=True)
    assert mapped == small()
    assert EntityGraph.read(tmp_path) == small()


def test_an_arrow_folder_stays_on_disk_when_read(tmp_path: Path) -> None:
    """Twenty megabytes of text take next to nothing of Arrow's memory."""
    texts = [f"{i:04d}" * 5000 for i in range(1000)]
    EntityGraph.from_lists(range(1000), [(0, 1)], text=texts).write(tmp_path, format="arrow")
    before = pa.total_allocated_bytes()
    graph = EntityGraph.read(tmp_path)
    assert pa.total_allocated_bytes() - before < 1_000_000
    assert graph.text([999]) == [texts[999]]


def test_a_failed_write_leaves_the_old_graph(tmp_path: Path) -> None:
    small().write(tmp_path)
    entities, _ = small().to_arrow()
    with pytest.raises(AttributeError):
        write_folder(tmp_path, entities, None, GraphRecord(), overwrite=True)
    assert len(list(tmp_path.iterdir())) == 3
    assert EntityGraph.read(tmp_path) == small()


def test_a_failed_write_leaves_no_new_folder(tmp_path: Path) -> None:
    entities = pa.table({"id": ["a", "b"], "text": ["x", "y"]})
    relations = pa.table({"source": ["a"], "target": ["b"]})
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        with pytest.raises(UnicodeEncodeError):
            write_folder(tmp_path / name, entities, relations, GraphRecord(license="\ud800"))
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def test_wrong_places_and_formats_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(GraphError, match="must be written to a folder, got a file"):
        small().write(tmp_path / "file")
    with pytest.raises(GraphError, match="`format` must be 'parquet' or 'arrow', got 'csv'"):
        small().write(tmp_path / "graph", format="csv")
