import bz2
import gzip
import io
import lzma
import os
import random
import tarfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph.recipes.deb import MAX_BYTES, paragraphs, read_deb, read_file, read_text
from tests.graph.recipes.sources import write_ar, write_deb

TEXT = "Package: a\n\nPackage: b\n"
CONTROL = b"Package: a\n"


def _peak(call: Callable[[], object]) -> int:
    """Return the most memory that a refused call took."""
    tracemalloc.start()
    try:
        with pytest.raises(GraphError):
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Return a tar with headers as given: their size need not be that of the data."""
    plain = b""
    for member, data in members:
        plain += member.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512)
    return plain + bytes(1024)


def _member(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member


def _deb(path: Path, data: bytes, name: str = "data.tar") -> Path:
    control = _tar((_member("control", len(CONTROL)), CONTROL))
    return write_ar(path, {"control.tar": control, name: data})


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


def _arrow(kind: str, data: bytes = TEXT.encode()) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, kind) as stream:
        stream.write(data)
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


def test_a_long_field_is_read_in_linear_time() -> None:
    text = "Package: a\n" + " x\n" * 1_000_000
    start = time.monotonic()
    (fields,) = paragraphs(text)
    assert time.monotonic() - start < 20  # joined line by line it takes minutes
    assert len(fields["Package"]) == 3_000_001


PACKED = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".lz4": lambda data: _arrow("lz4", data),
    ".zst": lambda data: _arrow("zstd", data),
}


@pytest.mark.parametrize("suffix", PACKED)
def test_a_list_that_unpacks_to_too_much_is_refused_before_memory_is_used(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"x_Packages{suffix}"
    path.write_bytes(PACKED[suffix](bytes(100 << 20)))
    limit = 100 * path.stat().st_size + (16 << 20)
    if suffix == ".lz4":  # shrinks to no less than a 255th
        limit = 20 << 20
    with pytest.raises(
        GraphError,
        match=rf"must unpack to at most {limit:,} bytes, got more in x_Packages\{suffix}",
    ):
        read_text(path, limit=limit if suffix == ".lz4" else MAX_BYTES)
    assert _peak(lambda: read_text(path, limit)) < 2 * limit + (16 << 20)


@pytest.mark.parametrize("suffix", PACKED)
def test_a_list_as_repetitive_as_real_ones_are_is_read(tmp_path: Path, suffix: str) -> None:
    text = "".join(f"Package: p{i}\nSection: libs\nDepends: p{i + 1}\n\n" for i in range(99_999))
    path = tmp_path / f"x_Packages{suffix}"
    path.write_bytes(PACKED[suffix](text.encode()))
    assert read_text(path) == text


def test_a_package_that_unpacks_to_too_much_is_refused_before_memory_is_used(
    tmp_path: Path,
) -> None:
    bomb = lzma.compress(bytes(100 << 20))
    path = _deb(tmp_path / "a.deb", bomb, "data.tar.xz")
    with pytest.raises(GraphError, match=r"must unpack to at most .* bytes, got more in a\.deb"):
        read_deb(path)
    assert _peak(lambda: read_deb(path)) < 64 << 20
    nested = _deb(tmp_path / "b.deb", bomb)  # tarfile would unpack what is not named as packed
    assert _peak(lambda: read_deb(nested)) < 1 << 20


def test_only_the_two_archives_of_a_package_are_unpacked_each_once(tmp_path: Path) -> None:
    data = _tar((_member("f", 1), b"x"))
    control = _tar((_member("control", len(CONTROL)), CONTROL))
    members = {"other.tar.xz": b"no xz", "control.tar": control, "data.tar": data}
    path = write_ar(tmp_path / "a.deb", members)
    assert read_deb(path).files == {"f": b"x"}
    path = write_ar(tmp_path / "b.deb", {**members, "data.tar.gz": gzip.compress(data)})
    with pytest.raises(GraphError, match=r"must have one data archive, got two in b\.deb"):
        read_deb(path)


def _pax(**headers: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("f")
        member.pax_headers = headers
        archive.addfile(member)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (_pax(**{"GNU.sparse.map": "a,b,c"}), "a pax header"),
        (_pax(**{"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}), "a pax header"),
        (_tar((_member("f", 512, tarfile.GNUTYPE_SPARSE), bytes(512))), "a sparse file"),
        (
            _tar((_member("f", 1 << 80), b"x")),
            "got 1,208,925,819,614,629,174,706,176",
        ),
        (_tar((_member("f", -1024), b"x")), "must have 0 to 268,435,456 bytes, got -1,024"),
        (_tar(*[(_member("f", 2, tarfile.GNUTYPE_LONGNAME), b"f\0")] * 2000), "recursion"),
        (_tar((_member("f", 1 << 20), b"x")), "unexpected end of data"),
    ],
    ids=["sparse map", "sparse major", "sparse", "huge", "negative", "nested names", "cut"],
)
def test_odd_headers_inside_a_package_are_a_clear_error(
    tmp_path: Path, data: bytes, words: str
) -> None:
    with pytest.raises(GraphError, match=words) as caught:
        read_deb(_deb(tmp_path / "a.deb", data))
    assert "got a.deb" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", PACKED)
def test_a_damaged_list_or_package_is_a_clear_error_or_read(tmp_path: Path, suffix: str) -> None:
    rng = random.Random(0)
    tar = _tar((_member("f", 2000), rng.randbytes(2000)))
    for _ in range(200):
        packed = bytearray(PACKED[suffix](tar))
        plain = bytearray(tar)
        for data in (packed, plain):
            for _ in range(rng.choice((1, 3, 20))):
                data[rng.randrange(min(len(data), 600))] = rng.randrange(256)
        (tmp_path / f"x_Packages{suffix}").write_bytes(packed)
        for read in (
            lambda: read_text(tmp_path / f"x_Packages{suffix}"),
            lambda data=bytes(packed): read_deb(
                _deb(tmp_path / "a.deb", data, f"data.tar{suffix}")
            ),
            lambda data=bytes(plain): read_deb(_deb(tmp_path / "a.deb", data)),
        ):
            try:
                read()
            except GraphError as error:
                assert "x_Packages" in str(error) or "a.deb" in str(error)  # noqa: PT017


def test_a_gzip_list_with_damage_inside_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "x_Packages.gz"
    path.write_bytes(gzip.compress(TEXT.encode())[:10] + b"\xff" * 20)
    with pytest.raises(GraphError, match=r"damaged data in x_Packages\.gz \(Error -3"):
        read_text(path)


def test_only_regular_files_of_limited_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name, words in (
        ("pipe", "no regular file"),
        ("zero", "no regular file"),
        ("nowhere", "not there"),
    ):
        for read in (read_text, read_deb, read_file):
            with pytest.raises(GraphError, match=rf"got {name}, which is {words}"):
                read(tmp_path / name)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(20 << 30)
    for read in (read_text, read_deb, read_file):
        with pytest.raises(GraphError, match=r"at most 268,435,456 bytes in a file, got 21,474"):
            read(tmp_path / "sparse")
    (tmp_path / "link").symlink_to(write_deb(tmp_path / "a.deb", {}, "Package: a\n"))
    assert read_deb(tmp_path / "link").control == {"Package": "a"}
