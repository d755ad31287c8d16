"""Small Arrow files that decode to gigabytes are refused in little memory; honest ones are read."""

import os
import struct

import numpy as np
import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph, decoded_size
from reldp.graph.arrow_size import _Table, refuse_arrow_flood
from reldp.graph.store import build_store
from tests.graph.test_parquet_size import TABLE, measured, repeated

TOO_MUCH = r"^entities\.arrow must decode to at most 100 times its size, got more\. Write it as"


def views(text, number):
    """Texts that all lie in the same place."""
    _, view, *data = pa.array([text], pa.string_view()).buffers()
    view = pa.py_buffer(view.to_pybytes()[:16] * number)
    return pa.Array.from_buffers(pa.string_view(), number, [None, view, *data])


def write(path, table, **options):
    with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)


FLOODS = {
    "dictionary": lambda: {"id": repeated("x" * 100_000, 5000)},
    "views": lambda: {"id": views("x" * 100_000, 5000)},
    "views in structures": lambda: {
        "text": pa.StructArray.from_arrays([views("x" * 100_000, 5000)], ["u"])
    },
    "dictionary of wide values": lambda: {
        "id": pa.DictionaryArray.from_arrays(
            np.zeros(5000, np.int32), pa.array([b"x" * 100_000], pa.binary(100_000))
        )
    },
    "dictionary of lists": lambda: {
        "id": pa.DictionaryArray.from_arrays(np.zeros(5000, np.int32), [["x" * 100_000]])
    },
    "nothing": lambda: {"id": pa.nulls(2**31 - 1)},
    "runs": lambda: {"id": pa.RunEndEncodedArray.from_arrays(pa.array([2**30], pa.int32()), ["x"])},
    "compressed zeros": lambda: {"id": pa.array(np.zeros(15_000_000, np.int64))},
    "compressed texts": lambda: {"id": pa.array(["x" * 1000]).take(np.zeros(150_000, int))},
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_is_refused_in_one_line_and_little_memory(tmp_path, name):
    table = pa.table(FLOODS[name]())
    write(tmp_path / "entities.arrow", table, compression="zstd" if "compressed" in name else None)
    assert (tmp_path / "entities.arrow").stat().st_size < 10**6
    (tmp_path / "relations.csv").write_text("source,target\na,b\n")
    with measured() as pool:
        with pytest.raises(GraphError, match=TOO_MUCH) as error:
            EntityGraph.read(tmp_path)
        with pytest.raises(GraphError, match=TOO_MUCH):
            build_store(tmp_path, tmp_path / "store")
    assert "\n" not in str(error.value)
    assert pool.max_memory() < 100 * 2**20
    assert sorted(os.listdir(tmp_path)) == ["entities.arrow", "relations.csv"]


def test_a_batch_that_the_footer_lists_many_times_counts_each_time(tmp_path):
    path = tmp_path / "entities.arrow"
    small, large = (pa.record_batch({"id": ["x" * size]}) for size in (1, 500_000))
    with pa.ipc.new_file(path, small.schema) as writer:
        for batch in [small] * 500 + [large]:
            writer.write_batch(batch)
    refuse_arrow_flood(path)
    data = bytearray(path.read_bytes())
    [length] = struct.unpack_from("<i", data, len(data) - 10)
    first, count = _Table.root(data, len(data) - 10 - length).vector(3)
    assert count == 501
    data[first : first + 24 * 500] = data[first + 24 * 500 : first + 24 * 501] * 500
    path.write_bytes(data)
    assert pa.ipc.open_file(path).read_all().nbytes > 200_000_000
    with pytest.raises(GraphError, match=TOO_MUCH):
        refuse_arrow_flood(path)


V4 = pa.ipc.MetadataVersion.V4


@pytest.mark.parametrize("rows", [0, 999])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "zstd"},
        {"compression": "lz4"},
        {"metadata_version": V4},
        {"metadata_version": V4, "use_legacy_format": True},
    ],
)
def test_the_files_of_every_writer_are_understood(tmp_path, monkeypatch, options, rows):
    monkeypatch.setattr(
        decoded_size, "_ALLOWANCE", 10**6
    )  # sizes must not be misread as large ones
    write(tmp_path / "x.arrow", TABLE.slice(0, rows), **options)
    refuse_arrow_flood(tmp_path / "x.arrow")


def test_an_honest_table_of_few_values_is_read(tmp_path):
    table = pa.table(
        {"id": np.arange(10_000), "text": repeated("a text of sixty characters" * 2, 10_000)}
    )
    for compression in (None, "zstd"):
        write(tmp_path / "entities.arrow", table, compression=compression)
        (tmp_path / "relations.csv").write_text("source,target\n1,2\n")
        assert EntityGraph.read(tmp_path).num_entities == 10_000


def test_a_compressed_buffer_that_claims_any_size_is_refused(tmp_path):
    path = tmp_path / "entities.arrow"
    write(path, pa.table({"id": np.zeros(1000, np.int64)}), compression="zstd")
    data = path.read_bytes()
    place = data.index(struct.pack("<q", 8000) + b"\x28\xb5\x2f\xfd")  # how Zstandard begins
    path.write_bytes(data[:place] + struct.pack("<q", 2**40) + data[place + 8 :])
    with pytest.raises(GraphError, match=TOO_MUCH):
        refuse_arrow_flood(path)


@pytest.mark.parametrize("length", [3, 12, 200, -1])
def test_a_file_that_is_cut_off_is_damaged(tmp_path, length):
    path = tmp_path / "entities.arrow"
    write(path, pa.table({"id": ["a"]}))
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(pa.ArrowInvalid, match="metadata of a batch is damaged"):
        refuse_arrow_flood(path)
