"""Files in chunks hold what the whole files hold."""

import gzip
import json

import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph.formats import read_table
from reldp.graph.store import format_chunks as module
from reldp.graph.store.format_chunks import file_chunks
from tests.graph.folders import arrow, parquet

LINES = [{"id": i, "text": f"text {i}", "note": None} for i in range(20)]
LINES += [{"id": i, "text": f"text {i}", "note": 1.5, "more": [i]} for i in range(20, 40)]
CSV = "id,text\n" + "".join(f'{i},"two, {i}"\n' for i in range(30))
FILES = {
    "x.csv": CSV,
    "x.csv.gz": gzip.compress(CSV.encode()),
    "x.tsv": "id\ttext\n" + "".join(f"{i}\ttext\n" for i in range(30)),
    "x.jsonl": "\n".join(map(json.dumps, LINES)) + "\n\n",
    "x.jsonl.gz": gzip.compress("\n".join(map(json.dumps, LINES)).encode()),
    "x.parquet": parquet(id=list(range(30)), text=["x"] * 30),
    "x.arrow": arrow(id=list(range(30)), text=["x"] * 30),
}


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("name", FILES)
def test_chunks_join_to_the_table(tmp_path, monkeypatch, name, size):
    monkeypatch.setattr(module, "BLOCK_BYTES", (1 << 20) + 300)  # JSON in many blocks
    path, data = tmp_path / name, FILES[name]
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    file = file_chunks(path)
    tables = list(file.tables(file.schema.names, size))
    whole = read_table(path)
    assert all(table.num_rows <= size for table in tables)
    got, expected = pa.concat_tables(tables), whole.table
    assert got.select(sorted(got.column_names)).equals(
        expected.select(sorted(expected.column_names)).cast(
            got.select(sorted(got.column_names)).schema
        )
    )
    assert got.schema.field("id").type == expected.schema.field("id").type
    assert file.typed == whole.typed
    assert file.locate([0, 5]) == whole.locate([0, 5])
    one = next(file.tables(["text"], size))
    assert one.column_names == ["text"]


def test_malformed_lines_are_left_out_and_counted(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("id,text\na,x\nb\nc,y,z\nd,w\n")
    file = file_chunks(path, drop=frozenset({"malformed_lines"}), scratch=tmp_path)
    assert pa.concat_tables(file.tables(["id"], 10)).column("id").to_pylist() == ["a", "d"]
    assert file.num_malformed == 2
    assert file.locate([1]) == ["line 5"]


def test_a_block_of_another_type_is_explained_by_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_BYTES", (1 << 20) + 20)
    path = tmp_path / "x.jsonl"
    path.write_text('{"id": 1, "text": "x"}\n' * 50_000 + '{"id": "b", "text": "x"}\n')
    with pytest.raises(
        GraphError, match="one type of value in column 'id', got an integer on line 1"
    ):
        file_chunks(path)


def test_files_of_one_source_share_what_small_files_may_decode_to(tmp_path):
    path = tmp_path / "entities.parquet"
    path.write_bytes(parquet(id=[0] * 1_000_000, text=["x"] * 1_000_000))
    file_chunks(path)
    with pytest.raises(GraphError, match="must decode to at most 100 times its size"):
        file_chunks(path, num_files=1000)
