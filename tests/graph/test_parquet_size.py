"""Small Parquet files that decode to gigabytes are refused in little memory; honest ones of few values are read."""

import os
from contextlib import contextmanager

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph, decoded_size
from reldp.graph import parquet_size as module
from reldp.graph.parquet_size import refuse_parquet_flood
from reldp.graph.store import build_store

ONE = {"id": ["a"]}
TOO_MUCH = r"^entities\.parquet must decode to at most 100 times its size, got more\. Write it as"


def repeated(text, number):
    return pa.DictionaryArray.from_arrays(np.zeros(number, np.int32), [text])


def strings(text, number):
    return pa.chunked_array([pa.repeat(text, 1000)] * (number // 1000))


# Each decodes to 100 MB or more, from a few kilobytes.
FLOODS = {
    "dictionary": lambda: ({"id": repeated("x" * 10**6, 1900), "text": repeated("y", 1900)}, {}),
    "texts of no declared dictionary": lambda: ({"id": strings("x" * 1000, 300_000)}, {}),
    "shared prefixes": lambda: (
        {"id": pa.repeat("x" * 20_000, 10_000)},
        {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY", "data_page_size": 2**28},
    ),
    "compression": lambda: (
        {"id": pa.repeat("x" * 1000, 200_000)},
        {"use_dictionary": False, "data_page_size": 2**28},
    ),
    "numbers": lambda: ({"id": pa.array(np.zeros(16_000_000, np.int64))}, {}),
    "nothing": lambda: ({"id": pa.nulls(16_000_000)}, {}),
    "wide values": lambda: (
        ONE | {"text": pa.array([b"z" * 51_000_000], pa.binary(51_000_000))},
        {},
    ),
    "a long text": lambda: (ONE | {"text": ["z" * 60_000_000]}, {}),
    "lists": lambda: (
        ONE | {"text": pa.ListArray.from_arrays([0, 300_000], repeated("z" * 1000, 300_000))},
        {},
    ),
    "structures": lambda: (
        {"text": pa.StructArray.from_arrays([repeated("z" * 1000, 300_000)], ["u"])},
        {},
    ),
}


@contextmanager
def measured():
    """A pool for what is allocated meanwhile."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(before)


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_is_refused_in_one_line_and_little_memory(tmp_path, name):
    columns, options = FLOODS[name]()
    pq.write_table(pa.table(columns), tmp_path / "entities.parquet", compression="zstd", **options)
    (tmp_path / "relations.csv").write_text("source,target\na,b\n")
    assert (tmp_path / "entities.parquet").stat().st_size < 100_000
    with measured() as pool, pytest.raises(GraphError, match=TOO_MUCH) as error:
        EntityGraph.read(tmp_path)
    assert "\n" not in str(error.value)
    assert pool.max_memory() < 400 * 2**20
    if name in ("dictionary", "numbers"):
        with pytest.raises(GraphError, match=TOO_MUCH):
            build_store(tmp_path, tmp_path / "store")
        assert sorted(os.listdir(tmp_path)) == ["entities.parquet", "relations.csv"]


def test_a_footer_that_lies_changes_nothing(tmp_path):
    path = tmp_path / "entities.parquet"
    pq.write_table(pa.table({"id": repeated("x" * 10**6, 1900)}), path, compression="zstd")
    data = path.read_bytes()
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    varint = _varint(2 * column.total_uncompressed_size)  # zigzag
    assert varint in data
    path.write_bytes(data.replace(varint, _varint(2 * 10_000)))
    claimed = pq.ParquetFile(path).metadata.row_group(0).column(0).total_uncompressed_size
    assert claimed != column.total_uncompressed_size
    with pytest.raises(GraphError, match=TOO_MUCH):
        refuse_parquet_flood(path)


def _varint(value):
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    return bytes([*data, value])


def test_honest_tables_of_few_values_are_read(tmp_path):
    rng = np.random.default_rng(0)
    ids = [f"a long id that the table repeats many thousand times, {i}" for i in range(700)]
    left, right = np.triu_indices(700, 1)
    rows = np.sort(rng.permutation(len(left))[:200_000])
    pq.write_table(pa.table({"id": ids, "text": ["t" * 60] * 700}), tmp_path / "entities.parquet")
    relations = pa.table(
        {"source": pa.array(ids).take(left[rows]), "target": pa.array(ids).take(right[rows])}
    )
    pq.write_table(relations, tmp_path / "relations.parquet", compression="zstd")
    assert relations.nbytes > 50 * (tmp_path / "relations.parquet").stat().st_size
    assert EntityGraph.read(tmp_path).num_relations == 200_000


def test_the_same_text_ten_thousand_times_is_read(tmp_path):
    table = pa.table(
        {
            "id": np.arange(10_000),
            "text": ["the same text of sixty characters, for every one of the rows"] * 10_000,
        }
    )
    pq.write_table(table, tmp_path / "entities.parquet", compression="zstd")
    (tmp_path / "relations.csv").write_text("source,target\n1,2\n")
    assert EntityGraph.read(tmp_path).num_entities == 10_000


TABLE = pa.table(
    {
        "id": [f"e{i}" for i in range(999)],
        "text": [None if i % 5 else "x y" * (i % 7) for i in range(999)],
        "words": [["a", None] * (i % 3) if i % 4 else None for i in range(999)],
        "features": pa.FixedSizeListArray.from_arrays(np.zeros(999 * 4, np.float32), 4),
        "flag": [i % 2 == 0 for i in range(999)],
        "code": pa.array([b"abcd"] * 999, pa.binary(4)),
        "kind": pa.array(["a", "b", None] * 333).dictionary_encode(),
        "pair": [{"u": "q" * (i % 9), "v": i} for i in range(999)],
        "none": pa.nulls(999),
    }
)


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_the_pages_of_every_writer_are_understood(tmp_path, monkeypatch, compression, version):
    monkeypatch.setattr(
        decoded_size, "_ALLOWANCE", 10**6
    )  # pages must not be misread as large ones
    path = tmp_path / "x.parquet"
    for options in ({}, {"use_dictionary": False}, {"data_page_size": 100, "row_group_size": 300}):
        pq.write_table(TABLE, path, compression=compression, data_page_version=version, **options)
        refuse_parquet_flood(path)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_pages_of_duckdb_are_understood(tmp_path, monkeypatch, version):
    monkeypatch.setattr(decoded_size, "_ALLOWANCE", 10**6)
    path = tmp_path / "x.parquet"
    query = (
        "SELECT 'e' || i AS id, 'text ' || (i % 50) AS text, [i, i] AS list FROM range(20000) t(i)"
    )
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY ({query}) TO '{path}' (FORMAT parquet, PARQUET_VERSION {version})"
        )
    refuse_parquet_flood(path)


def test_bounds_are_tightened_only_as_far_as_needed(tmp_path, monkeypatch):
    counted = []
    count = module._count
    monkeypatch.setattr(
        module, "_count", lambda *given: counted.append(given[1].path) or count(*given)
    )
    path = tmp_path / "x.parquet"
    texts = {"short": [f"e{i}" for i in range(20_000)], "long": ["x" * 50_000, *["y"] * 19_999]}
    pq.write_table(pa.table(texts), path)
    refuse_parquet_flood(
        path
    )  # 20,000 rows of at most 50,000 bytes are a gigabyte, until they are counted
    assert counted == ["long"]


def test_a_damaged_page_is_named(tmp_path):
    path = tmp_path / "entities.parquet"
    pq.write_table(pa.table({"id": ["a"], "text": ["x"]}), path)
    start = pq.ParquetFile(path).metadata.row_group(0).column(0).dictionary_page_offset
    data = bytearray(path.read_bytes())
    data[start] = 0x1E  # no such kind of field
    path.write_bytes(data)
    (tmp_path / "relations.csv").write_text("source,target\na,b\n")
    with pytest.raises(GraphError, match="whole Parquet file: the header of a page is damaged"):
        EntityGraph.read(tmp_path)
