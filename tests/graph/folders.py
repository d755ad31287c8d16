"""Small graph folders, written as people write them."""

import gzip
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ENTITIES = "id,text\na,first\nb,second\nc,third\n"
RELATIONS = "source,target\na,b\nb,c\n"


def folder_of(path: Path, **files: str | bytes) -> Path:
    """A folder with a good graph, except for the files given; in names, _ stands for a dot."""
    content: dict[str, str | bytes] = {"entities_csv": ENTITIES, "relations_csv": RELATIONS} | files
    for role in ("entities", "relations"):
        if any(name.startswith(role) and not name.endswith("_csv") for name in files):
            del content[f"{role}_csv"]
    for name, text in content.items():
        data = text.encode() if isinstance(text, str) else text
        (path / name.replace("_", ".")).write_bytes(data)
    return path


def parquet(**columns: object) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue().to_pybytes())


def arrow(**columns: object) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table(columns)
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def corrupted_gzip(text: str) -> bytes:
    data = bytearray(gzip.compress(text.encode()))
    data[-8:-4] = struct.pack("<I", 12345)  # the checksum
    return bytes(data)


FORMATS = {
    "csv": (ENTITIES, RELATIONS),
    "csv.gz": (gzip.compress(ENTITIES.encode()), gzip.compress(RELATIONS.encode())),
    "tsv": (ENTITIES.replace(",", "\t"), RELATIONS.replace(",", "\t")),
    "tsv.gz": (
        gzip.compress(ENTITIES.replace(",", "\t").encode()),
        gzip.compress(RELATIONS.replace(",", "\t").encode()),
    ),
    "jsonl": (
        '{"id": "a", "text": "first"}\n{"id": "b", "text": "second"}\n{"id":"c","text":"third"}',
        '{"source": "a", "target": "b"}\n{"source": "b", "target": "c"}\n',
    ),
    "parquet": (
        parquet(id=["a", "b", "c"], text=["first", "second", "third"]),
        parquet(source=["a", "b"], target=["b", "c"]),
    ),
    "arrow": (
        arrow(id=["a", "b", "c"], text=["first", "second", "third"]),
        arrow(source=["a", "b"], target=["b", "c"]),
    ),
}
