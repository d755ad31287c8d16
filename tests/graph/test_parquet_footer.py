"""The numbers of a footer are pyarrow's, and no damaged footer ends the process."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reldp.graph.parquet_footer import read_footer


def table(rows):
    words = [f"word {i % 7}" for i in range(rows)]
    return pa.table({
        "id": np.arange(rows),
        "text": words,
        "coded": pa.array(words).dictionary_encode(),
        "features": pa.array([[1.0, 2.0]] * rows, pa.list_(pa.float32())),
        "part": pa.array([{"a": i, "b": None} for i in range(rows)]),
    })  # fmt: skip


@pytest.mark.parametrize("rows", [0, 1, 100])
@pytest.mark.parametrize(
    "settings",
    [{}, {"use_dictionary": False}, {"row_group_size": 9, "data_page_version": "2.0"}, {"version": "1.0"}],
)  # fmt: skip
def test_numbers_are_those_of_pyarrow(tmp_path, rows, settings):
    path = tmp_path / "x.parquet"
    pq.write_table(table(rows), path, **settings)
    metadata = pq.ParquetFile(path).metadata
    groups = list(read_footer(path.read_bytes()))
    assert len(groups) == metadata.num_row_groups
    for place, (num_rows, columns) in enumerate(groups):
        group = metadata.row_group(place)
        assert num_rows == group.num_rows
        for number, chunk in enumerate(columns):
            theirs = group.column(number)
            offsets = [theirs.data_page_offset]
            offsets += [theirs.dictionary_page_offset] if theirs.has_dictionary_page else []
            assert chunk.start == min(offsets)
            assert chunk.num_values == theirs.num_values
            assert chunk.size == theirs.total_compressed_size
            assert chunk.is_text == (theirs.physical_type == "BYTE_ARRAY")


@pytest.mark.parametrize(
    "data", [b"", b"PAR1", b"\xff\xff\xff\xffPAR1", b"\x00" * 8, b"\x00\x01\x00\x00\x00PAR1"]
)
def test_what_is_no_footer_is_refused(data):
    with pytest.raises(pa.ArrowInvalid, match="damaged"):
        list(read_footer(data))


FLIP = """
import sys
from pathlib import Path
from reldp.errors import GraphError
from reldp.graph import EntityGraph
folder = Path(sys.argv[1])
path = folder / "entities.parquet"
data = path.read_bytes()
length = int.from_bytes(data[-8:-4], "little")
refused = 0
for place in range(len(data) - 8 - length, len(data)):
    for bit in range(8):
        changed = bytearray(data)
        changed[place] ^= 1 << bit
        path.write_bytes(changed)
        try:
            EntityGraph.read(folder)
        except GraphError:
            refused += 1
print(refused)
"""


def test_no_bit_of_a_footer_ends_the_process(tmp_path):
    pq.write_table(pa.table({"id": ["a", "b"]}), tmp_path / "entities.parquet", store_schema=False)
    (tmp_path / "relations.csv").write_text("source,target\na,b\n")
    done = subprocess.run(
        [sys.executable, "-c", FLIP, str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout) > 100, "a footer whose bits do not matter tests nothing"
