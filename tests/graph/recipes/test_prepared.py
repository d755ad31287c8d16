import hashlib
from pathlib import Path

import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.recipes.prepared import NOTICE, PreparedGraph, sha256_file
from reldp.graph.record import GraphRecord


def _prepared(notice: str = "") -> PreparedGraph:
    entities = pa.table({"id": ["a", "b", "c"], "text": ["x", "y", "z"], "domain": ["d", "d", "e"]})
    record = GraphRecord(source="by hand", license="CC0-1.0", notes=("a note",))
    return PreparedGraph.from_pairs(entities, [("a", "b"), ("b", "c")], record, notice)


def test_what_was_written_reads_back_with_record_domain_and_notice(tmp_path: Path) -> None:
    written = _prepared("keep this").write(tmp_path / "graph")
    graph = EntityGraph.read(tmp_path / "graph")
    assert graph == written
    assert graph.relations.tolist() == [[0, 1], [1, 2]]
    assert graph.column("domain") == ["d", "d", "e"]
    assert graph.record == _prepared().record
    assert (tmp_path / "graph" / NOTICE).read_text() == "keep this"


def test_without_a_notice_there_is_no_notice_file(tmp_path: Path) -> None:
    _prepared().write(tmp_path / "graph")
    assert not (tmp_path / "graph" / NOTICE).exists()


def test_a_folder_in_use_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(GraphError, match="new or empty folder"):
        _prepared().write(tmp_path)
    with pytest.raises(GraphError, match="new or empty folder"):
        _prepared().write(tmp_path / "mine.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_tables_that_are_no_graph_are_refused(tmp_path: Path) -> None:
    entities = pa.table({"id": ["a", "b"], "text": ["x", "y"]})
    damaged = PreparedGraph.from_pairs(entities, [("a", "nobody")], GraphRecord())
    with pytest.raises(GraphError, match="relations"):
        damaged.write(tmp_path / "graph")
    assert not (tmp_path / "graph").exists()


def test_hashes_are_of_the_bytes_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    assert sha256_file(tmp_path / "f") == hashlib.sha256(b"abc").hexdigest()
