"""Files of another kind than their names say are called what they are."""

import bz2
import gzip
import io
import zipfile

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.formats import read_table
from reldp.graph.store import build_store

CSV = b"id,text\na,x\nb,y\n"
TABLE = pa.table({"id": ["a", "b"], "text": ["x", "y"]})


def spreadsheet():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return packed.getvalue()


def parquet():
    packed = io.BytesIO()
    pq.write_table(TABLE, packed)
    return packed.getvalue()


def arrow():
    packed = io.BytesIO()
    feather.write_feather(TABLE, packed, compression="uncompressed")
    return packed.getvalue()


def zstandard(data):
    return pa.compress(data, codec="zstd", asbytes=True)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("entities.csv", gzip.compress(CSV), r"plain text, got a gzip file\. .* to entities\.csv\.gz\."),
        ("entities.tsv", bz2.compress(CSV), r"got a bzip2 file\. Rename it to entities\.tsv\.bz2\."),
        ("entities.csv", bz2.compress(b""), r"got a bzip2 file\."),
        ("entities.jsonl", zstandard(CSV), r"a Zstandard file\. Rename it to entities\.jsonl\.zst\."),
        ("entities.csv.gz", bz2.compress(CSV), r"gzip file, got a bzip2 .* to entities\.csv\.bz2\."),
        ("entities.csv", spreadsheet(), r"got an Excel file or another zip .*Export it as CSV"),
        ("entities.csv.gz", spreadsheet(), r"a gzip file, got an Excel file or another zip"),
        (
            "entities.tsv",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504),
            r"got an old Excel file\. Export it as CSV",
        ),
        ("entities.csv", parquet(), r"got a Parquet file\. Rename it to entities\.parquet\."),
        ("entities.jsonl", arrow(), r"got an Arrow file\. Rename it to entities\.arrow\."),
    ],
)  # fmt: skip
def test_a_file_is_called_what_its_first_bytes_say(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(GraphError, match=words) as error:
        read_table(tmp_path / name)
    assert "iconv" not in str(error.value)


def test_a_store_is_built_of_files_that_are_what_their_names_say(tmp_path):
    (tmp_path / "entities.csv").write_bytes(spreadsheet())
    (tmp_path / "relations.csv").write_text("source,target\na,b\n")
    with pytest.raises(GraphError, match=r"entities\.csv must be plain text, got an Excel file"):
        build_store(tmp_path, tmp_path / "store")


@pytest.mark.parametrize("header", ["PAR1", "PK", "BZh9", "ARROW1"])
def test_columns_may_be_called_like_a_format(tmp_path, header):
    (tmp_path / "entities.csv").write_text(f"{header},id,text\n1,a,x\n2,b,y\n")
    (tmp_path / "relations.csv").write_text("source,target\na,b\n")
    assert EntityGraph.read(tmp_path).num_entities == 2


@pytest.mark.parametrize("content", [b"a\nb", b"PAR1\nb"])
def test_short_files_are_read_as_text(tmp_path, content):
    (tmp_path / "entities.csv").write_bytes(content)
    assert read_table(tmp_path / "entities.csv").table.num_rows == 1
