"""Columns in batches of equal size, whose bytes depend on the values alone."""

import numpy as np
import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph.store import column_file as module
from reldp.graph.store.blocks import hash_blocks
from reldp.graph.store.column_file import ColumnFile, ColumnWriter


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(module, "BATCH_ROWS", 64)


def table(rows):
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "id": pa.array([f"e{i}" for i in range(rows)]),
            "text": pa.array(["x" * int(n) for n in rng.integers(1, 50, rows)]),
            "protected": pa.array(rng.random(rows) < 0.5),
            "year": pa.array(rng.integers(0, 9, rows), mask=rng.random(rows) < 0.3),
            "note": pa.array([None if i % 3 else f"n{i}" for i in range(rows)]),
            "share": pa.array(rng.random(rows)),
        }
    )


def written(path, whole, sizes):
    start = 0
    with ColumnWriter(path) as writer:
        while start < whole.num_rows:
            size = sizes[start % len(sizes)]
            writer.add(whole.slice(start, size))
            start += size
    return ColumnFile(path, hash_blocks(path, writer.boundaries))


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 300])
def test_the_bytes_do_not_depend_on_the_chunks(tmp_path, rows):
    whole = table(rows)
    one = written(tmp_path / "one", whole, [rows])
    written(tmp_path / "two", whole, [5, 11, 64, 1, 200])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert one.table().cast(whole.schema).equals(whole)
    assert one.num_batches == -(-rows // 64)


def test_values_at_any_rows(tmp_path):
    whole = table(300)
    columns = written(tmp_path / "one", whole, [70])
    rows = np.array([299, 0, 64, 64, 63, 128, 5])
    for name in whole.column_names:
        assert columns.take(name, rows) == whole.column(name).take(pa.array(rows)).to_pylist()
    assert columns.take("id", np.array([], dtype=np.int64)) == []


def test_a_batch_is_checked_when_one_of_its_rows_is_read(tmp_path):
    columns = written(tmp_path / "one", table(300), [70])
    blocks = columns._checker.blocks
    assert len(blocks.boundaries) == 5
    data = bytearray((tmp_path / "one").read_bytes())
    data[blocks.boundaries[1] + 700] ^= 1
    (tmp_path / "one").write_bytes(data)
    columns = ColumnFile(tmp_path / "one", blocks)
    assert columns.take("id", np.array([0, 127, 192])) == ["e0", "e127", "e192"]
    with pytest.raises(GraphError, match="block 3 of 5 differs"):
        columns.take("id", np.array([128]))
    data[-3] ^= 1
    (tmp_path / "one").write_bytes(data)
    with pytest.raises(GraphError, match="block 5 of 5 differs"):
        ColumnFile(tmp_path / "one", blocks)


@pytest.mark.parametrize("kind", ["dictionary", "compressed"])
def test_a_file_that_no_writer_of_stores_wrote_is_refused(tmp_path, kind):
    path = tmp_path / "entities.arrow"
    texts = pa.array(["x" * 1000]).dictionary_encode()
    columns = {"id": texts} if kind == "dictionary" else {"id": np.zeros(15_000_000, np.int64)}
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(path, pa.table(columns).schema, options=options) as writer:
        writer.write_table(pa.table(columns))
    what = "be as it was built" if kind == "dictionary" else "decode to at most 100 times"
    with pytest.raises(GraphError, match=f"entities.arrow must {what}"):
        ColumnFile(path, hash_blocks(path, [path.stat().st_size]))


def test_files_that_no_writer_wrote_are_one_clear_line(tmp_path):
    """Their hashes are right: somebody made them."""
    path = tmp_path / "entities.arrow"
    path.write_bytes(b"no Arrow file")
    with pytest.raises(GraphError, match=r"entities\.arrow must be as it was built"):
        ColumnFile(path, hash_blocks(path))
    path.unlink()
    written(path, table(200), [200])
    for boundaries in ([path.stat().st_size], [1, 2, 3, 4, path.stat().st_size]):
        with pytest.raises(GraphError, match=r"entities\.arrow must be as it was built"):
            ColumnFile(path, hash_blocks(path, boundaries))


@pytest.mark.parametrize("sizes", [[10, 64], [64, 0, 64], [64, 65]])
def test_batches_of_another_size_are_refused(tmp_path, sizes):
    """Row numbers would be those of other entities."""
    path, boundaries = tmp_path / "entities.arrow", []
    schema = written(tmp_path / "other", table(3), [3]).schema
    whole = table(100).cast(schema)
    with pa.OSFile(str(path), "wb") as sink:
        with pa.ipc.new_file(sink, schema) as writer:
            for size in sizes:
                parts = whole.slice(0, size).to_batches()
                writer.write_batch(parts[0] if parts else pa.RecordBatch.from_pylist([], schema))
                boundaries.append(sink.tell())
        boundaries[-1] = sink.tell()
    with pytest.raises(GraphError, match=r"entities\.arrow must be as it was built"):
        list(ColumnFile(path, hash_blocks(path, boundaries)).batches())
