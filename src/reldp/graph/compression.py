"""Compressed text files: gzip, bzip2 and Zstandard, unpacked as they are read, up to a limit.

A small file can unpack to any number of bytes. So reading stops where the content exceeds a hundred times the
size of the file and 16 MiB: tables of texts and ids shrink to a third or a tenth.

Private to the package: `open_unpacked`, `COMPRESSED`.

>>> import gzip, pathlib, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = pathlib.Path(folder) / "entities.tsv.gz"
...     _ = path.write_bytes(gzip.compress(b"id"))
...     with open_unpacked(path) as stream:
...         stream.read()
b'id'
"""

import bz2
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from reldp.errors import GraphError
from reldp.runs.plain_files import refuse_holes

__all__ = ["COMPRESSED", "open_unpacked"]

COMPRESSED = {".gz": "gzip", ".bz2": "bzip2", ".zst": "Zstandard"}
"""Name of each compression by the end of a file's name."""

_RATIO, _ALLOWANCE = 100, 16 * 2**20


@contextmanager
def open_unpacked(
    path: Path, advance: Callable[[int], None] | None = None
) -> Iterator[io.BufferedIOBase]:
    """Open a file for reading, unpacked if its name ends so.

    Args:
        path: The file.
        advance: Called with the number of bytes of the file, still packed, that were read.

    Raises:
        GraphError: The file is damaged, consists almost of holes, unpacks to too much, or cannot be read.
    """
    try:
        if path.suffix not in COMPRESSED:
            with _opened(path, advance) as stream:
                yield stream
            return
        with _opened(path, advance) as file, _unpacking(path, file) as packed:
            limit = _RATIO * path.stat().st_size + _ALLOWANCE
            yield io.BufferedReader(_Limited(packed, path, limit), 1 << 20)
    except OSError as error:
        raise GraphError(f"{path.name} cannot be read: {error.strerror or error}.") from None


@contextmanager
def _opened(path: Path, advance: Callable[[int], None] | None) -> Iterator[Any]:
    """Open a file as it is."""
    with path.open("rb") as file:
        refuse_holes(path, file, error=GraphError)
        yield file if advance is None else io.BufferedReader(_Followed(file, advance), 1 << 20)


def _unpacking(path: Path, file: Any) -> Any:
    """Return a stream of the unpacked bytes."""
    if path.suffix == ".gz":
        return gzip.open(file)
    if path.suffix == ".bz2":
        return bz2.open(file)
    return pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")


class _Followed(io.RawIOBase):
    """A file that tells how many bytes were read."""

    def __init__(self, file: Any, advance: Callable[[int], None]) -> None:
        super().__init__()
        self._file, self._advance = file, advance

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer)
        self._advance(count)
        return int(count)


class _Limited(io.RawIOBase):
    """A stream that ends with an error at damage, and after a number of bytes."""

    def __init__(self, stream: Any, path: Path, limit: int) -> None:
        super().__init__()
        self._stream, self._path, self._left = stream, path, limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except (EOFError, pa.ArrowException, OSError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise self._damage(error) from None
        self._left -= len(data)
        if self._left < 0:
            raise GraphError(
                f"{self._path.name} must unpack to at most {_RATIO} times its size, got more. Unpack "
                "it yourself if this is right."
            )
        buffer[: len(data)] = data
        return len(data)

    def _damage(self, error: Exception) -> GraphError:
        kind = COMPRESSED[self._path.suffix]
        early = isinstance(error, EOFError)
        what = "ends too early" if early else f"is damaged or not {kind} at all"
        return GraphError(
            f"{self._path.name} must be a whole {kind} file, but it {what}. Copy it again."
        )
