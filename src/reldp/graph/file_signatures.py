r"""What a file is by its first bytes, where its name says that it is text.

A spreadsheet saved as entities.csv, or a compressed file without .gz at the end of its name, is no damaged text: it is
named for what it is, with what to do. Only bytes that no text starts with decide.

Private to the package: `refuse_other_content`.

>>> import pathlib, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = pathlib.Path(folder) / "entities.csv"
...     _ = path.write_bytes(b"\x1f\x8b\x08")
...     refuse_other_content(path, b"\x1f\x8b\x08")
Traceback (most recent call last):
reldp.errors.GraphError: entities.csv must be plain text, got a gzip file. Rename it to entities.csv.gz.
"""

import os
from pathlib import Path

from reldp.errors import GraphError
from reldp.graph.compression import COMPRESSED

__all__ = ["LONGEST", "refuse_other_content"]

_BZIP2 = tuple(b"BZh%d" % level for level in range(1, 10))
_BZIP2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")  # the first block, or the end of an empty file
_EXPORT = "Export it as CSV, with commas and in UTF-8"
_PARQUET = b"PAR1"
_SHORTEST = 12  # bytes of a Parquet file
LONGEST = 10
"""Number of first bytes that decide."""


def refuse_other_content(path: Path, first: bytes) -> None:
    """Refuse a text file, plain or compressed by its name, that is a file of another kind.

    Args:
        path: The file.
        first: Its first bytes, `LONGEST` of them if it has as many.

    Raises:
        GraphError: It is; the message says what to do.
    """
    end = path.suffix if path.suffix in COMPRESSED else ""
    packed = _compression(first)
    if packed and packed == end:
        return
    expected = f"a {COMPRESSED[end]} file" if end else "plain text"
    plain = path.name.removesuffix(end)
    if packed:
        raise GraphError(
            f"{path.name} must be {expected}, got a {COMPRESSED[packed]} file. Rename it to {plain}{packed}."
        )
    kind, fix = _other(path, first)
    if kind:
        raise GraphError(f"{path.name} must be {expected}, got {kind}. {fix}.")


def _compression(first: bytes) -> str:
    """Return the end of the name that fits a compressed file; nothing for other files."""
    if first.startswith(b"\x1f\x8b"):
        return ".gz"
    if first.startswith(b"\x28\xb5\x2f\xfd"):
        return ".zst"
    return ".bz2" if first[:4] in _BZIP2 and first[4:] in _BZIP2_BLOCKS else ""


def _other(path: Path, first: bytes) -> tuple[str, str]:
    """Return what a file is that holds no text, and what to do; nothing where it is not known."""
    stem = path.name.partition(".")[0]
    if first.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "an Excel file or another zip archive", f"{_EXPORT}, or unpack it"
    if first.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        return "an old Excel file", _EXPORT
    if first.startswith(b"ARROW1\x00\x00"):
        return "an Arrow file", f"Rename it to {stem}.arrow"
    if first.startswith(_PARQUET) and _ends_like_parquet(path):  # a column may be called so
        return "a Parquet file", f"Rename it to {stem}.parquet"
    return "", ""


def _ends_like_parquet(path: Path) -> bool:
    """Return whether a file has the last bytes of a Parquet file, after the length of its footer."""
    if path.stat().st_size < _SHORTEST:
        return False
    with path.open("rb") as file:
        file.seek(-len(_PARQUET), os.SEEK_END)
        return file.read() == _PARQUET
