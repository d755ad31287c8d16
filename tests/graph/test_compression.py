"""gzip, bzip2 and Zstandard are read alike; damage and floods of bytes are one line."""

import bz2
import gzip
import time

import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph, compression
from reldp.graph.compression import open_unpacked

PACK = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}


@pytest.mark.parametrize("end", PACK)
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_a_graph_is_the_same_in_every_compression(tmp_path, kind, end):
    rows = {
        "csv": ("id,text\na,x\nb,y\n", "source,target\na,b\n"),
        "tsv": ("id\ttext\na\tx\nb\ty\n", "source\ttarget\na\tb\n"),
        "jsonl": (
            '{"id":"a","text":"x"}\n{"id":"b","text":"y"}\n',
            '{"source":"a","target":"b"}\n',
        ),
    }[kind]
    for folder, ending, pack in (("plain", "", bytes), ("packed", end, PACK[end])):
        (tmp_path / folder).mkdir()
        for name, text in zip(("entities", "relations"), rows, strict=True):
            (tmp_path / folder / f"{name}.{kind}{ending}").write_bytes(pack(text.encode()))
    plain, packed = (EntityGraph.read(tmp_path / folder) for folder in ("plain", "packed"))
    assert packed.promise_degrees(1).fingerprint == plain.promise_degrees(1).fingerprint


@pytest.mark.parametrize("end", PACK)
@pytest.mark.parametrize("damage", ["cut", "noise"])
def test_damage_is_named(tmp_path, end, damage):
    data = PACK[end](b"id\ttext\n" + b"".join(b"%d\tx\n" % i for i in range(9999)))
    data = data[: len(data) // 2] if damage == "cut" else b"\x00" * 99
    (tmp_path / f"entities.tsv{end}").write_bytes(data)
    (tmp_path / "relations.tsv").write_text("source\ttarget\n1\t2\n")
    with pytest.raises(GraphError, match=rf"entities\.tsv\{end} ") as error:
        EntityGraph.read(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("end", PACK)
def test_a_small_file_that_unpacks_to_gigabytes_is_refused_soon(tmp_path, end, monkeypatch):
    monkeypatch.setattr(compression, "_ALLOWANCE", 2**20)
    flood = PACK[end](b"id\ttext\n" + bytes(2**25))
    assert len(flood) < 2**25 / 200
    (tmp_path / f"entities.tsv{end}").write_bytes(flood)
    (tmp_path / "relations.tsv").write_text("source\ttarget\na\tb\n")
    began = time.monotonic()
    with pytest.raises(GraphError, match="must unpack to at most 100 times its size"):
        EntityGraph.read(tmp_path)
    assert time.monotonic() - began < 10


def test_a_plain_file_has_no_limit_and_a_missing_one_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(compression, "_ALLOWANCE", 0)
    (tmp_path / "x.tsv").write_bytes(bytes(2**20))
    with open_unpacked(tmp_path / "x.tsv") as stream:
        assert len(stream.read()) == 2**20
    with (
        pytest.raises(GraphError, match=r"none\.gz cannot be read"),
        open_unpacked(tmp_path / "none.gz"),
    ):
        pass
