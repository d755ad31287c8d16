import bz2
import gzip
import lzma
from pathlib import Path

import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph.recipes.deb import paragraphs, read_deb, read_text
from tests.graph.recipes.sources import write_deb

TEXT = "Package: a\n\nPackage: b\n"


@pytest.mark.parametrize("compression", ["gz", "xz", "bz2"])
def test_a_package_is_read_whatever_its_compression(tmp_path: Path, compression: str) -> None:
    files = {"usr/share/wordnet/data.noun": b"odd", "usr/share/doc/copyright": b"even"}
    path = write_deb(tmp_path / "a.deb", files, "Package: a\nVersion: 1:2-3\n", compression)
    package = read_deb(path, prefix="usr/share/wordnet/")
    assert package.control == {"Package": "a", "Version": "1:2-3"}
    assert package.files == {"usr/share/wordnet/data.noun": b"odd"}


def test_names_inside_an_archive_choose_no_path_on_disk(tmp_path: Path) -> None:
    path = write_deb(tmp_path / "a.deb", {"../../evil": b"x"}, "Package: a\n")
    before = sorted(tmp_path.rglob("*"))
    assert read_deb(path).files == {"../../evil": b"x"}
    assert sorted(tmp_path.rglob("*")) == before


def test_a_package_cut_short_anywhere_is_a_clear_error(tmp_path: Path) -> None:
    whole = write_deb(tmp_path / "a.deb", {"f": b"x" * 999}, "Package: a\n").read_bytes()
    for length in range(0, len(whole) - 60, 37):
        (tmp_path / "cut.deb").write_bytes(whole[:length])
        with pytest.raises(GraphError, match=r"cut\.deb"):
            read_deb(tmp_path / "cut.deb")


def test_a_damaged_member_is_a_clear_error(tmp_path: Path) -> None:
    data = bytearray(write_deb(tmp_path / "a.deb", {"f": b"x" * 999}, "Package: a\n").read_bytes())
    data[-80:-40] = b"\xff" * 40
    (tmp_path / "a.deb").write_bytes(bytes(data))
    with pytest.raises(GraphError, match=r"a\.deb"):
        read_deb(tmp_path / "a.deb")


def _arrow(kind: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, kind) as stream:
        stream.write(TEXT.encode())
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("suffix", "data"),
    [
        ("", TEXT.encode()),
        (".gz", gzip.compress(TEXT.encode())),
        (".xz", lzma.compress(TEXT.encode())),
        (".bz2", bz2.compress(TEXT.encode())),
        (".lz4", _arrow("lz4")),
        (".zst", _arrow("zstd")),
    ],
    ids=["plain", "gz", "xz", "bz2", "lz4", "zst"],  # gzip writes down the time
)
def test_a_list_is_read_whatever_its_compression(tmp_path: Path, suffix: str, data: bytes) -> None:
    path = tmp_path / f"Packages{suffix}"
    path.write_bytes(data)
    assert read_text(path) == TEXT
    if suffix:
        path.write_bytes(data[: len(data) // 2])
        with pytest.raises(GraphError, match="Packages"):
            read_text(path)


def test_text_that_is_not_utf_8_is_refused_with_its_offset(tmp_path: Path) -> None:
    (tmp_path / "Packages").write_bytes(b"abc\xff")
    with pytest.raises(GraphError, match="offset 3 of Packages"):
        read_text(tmp_path / "Packages")


def test_paragraphs_keep_continuation_lines_and_skip_empty_blocks() -> None:
    text = "\n\nA: 1\nB: x:y\n\tz\n\n\n\nC:\n w\n"
    assert list(paragraphs(text)) == [{"A": "1", "B": "x:y\n\tz"}, {"C": "\n w"}]
