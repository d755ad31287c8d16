"""Reading files of a folder that may come from an attacker: regular files only, of limited size.

A link can point anywhere, a named pipe blocks forever, a device never ends. So a file is opened
without following a link and without blocking, must be a regular file, and has a size limit. A folder
is listed entry by entry, and everything in it that is neither a folder nor a regular file is reported.

Public inside the package: `Listing`, `list_plain`, `read_plain`, `hash_plain`, `open_plain`, `refuse_holes`, `LINKED`.

>>> read_plain(Path("no-such-file"), limit=10)
Traceback (most recent call last):
reldp.errors.RunError: no-such-file must be there to be read: No such file or directory.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from reldp.errors import ReldpError, RunError

__all__ = [
    "LINKED",
    "Listing",
    "hash_plain",
    "list_plain",
    "open_plain",
    "read_plain",
    "refuse_holes",
]

_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
LINKED = "a link"
_KINDS = (
    (stat.S_ISLNK, LINKED),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISDIR, "a folder"),
)
_MAX_DEPTH = 16
_LARGE = 16 << 20
_MAX_FACTOR = 100  # as for compressed files


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The content of a folder, by paths relative to it with forward slashes.

    Attributes:
        files: Regular files.
        empty: Folders that hold nothing.
        odd: Everything else, with its kind: ``{"x": "a link"}``.
    """

    files: tuple[str, ...]
    empty: tuple[str, ...]
    odd: dict[str, str]


def list_plain(folder: Path) -> Listing:
    """Return everything below a folder; no link is followed, and no file opened.

    Raises:
        RunError: The folder cannot be listed.
    """
    files: list[str] = []
    empty: list[str] = []
    odd: dict[str, str] = {}
    for name, mode in _entries(str(folder), ""):
        if mode is None:
            empty.append(name)
        elif stat.S_ISREG(mode):
            files.append(name)
        else:
            odd[name] = _kind(mode)
    return Listing(files=tuple(sorted(files)), empty=tuple(sorted(empty)), odd=odd)


def read_plain(path: Path, *, limit: int) -> bytes:
    """Return the bytes of a regular file.

    Args:
        path: The file; its last part must not be a link.
        limit: Maximum number of bytes.

    Raises:
        RunError: It is not there, no regular file, or too large.
    """
    with open_plain(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise RunError(f"{path.name} must have at most {limit:,} bytes, got more.")
    return data


def hash_plain(path: Path) -> str:
    """Return the SHA-256 of a regular file, however large its content.

    Raises:
        RunError: It is not there, no regular file, or a large one that consists almost of holes.
    """
    with open_plain(path) as file:
        refuse_holes(path, file)
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_holes(path: Path, file: BufferedReader, *, error: type[ReldpError] = RunError) -> None:
    """Refuse a file that consists almost of holes: a few bytes on the disk would take hours to read.

    Args:
        path: The file.
        file: The same, opened; it is at its beginning afterwards.
        error: What is raised.

    Raises:
        ReldpError: Less than a hundredth of a large file is data.
    """
    size, descriptor = os.fstat(file.fileno()).st_size, file.fileno()
    if size <= _LARGE or not hasattr(os, "SEEK_DATA"):
        return
    data = place = 0
    while data * _MAX_FACTOR < size:
        try:
            begin = os.lseek(descriptor, place, os.SEEK_DATA)
        except OSError as failure:
            if failure.errno != errno.ENXIO:  # a file system that knows no holes
                break
            raise error(
                f"{path.name} must be a file with content, got {size:,} bytes of which {data:,} are there: "
                "the rest are holes."
            ) from None
        place = os.lseek(descriptor, begin, os.SEEK_HOLE)
        data += place - begin
    file.seek(0)


def _entries(folder: str, before: str) -> Iterator[tuple[str, int | None]]:
    """Yield names and modes of everything except folders; mode None for an empty folder."""
    if before.count("/") > _MAX_DEPTH:
        raise RunError(f"{before[:40]}... must not hold so many folders in one another.")
    try:
        with os.scandir(folder) as scanned:
            entries = [(item.name, item.stat(follow_symlinks=False).st_mode) for item in scanned]
    except OSError as error:
        name = os.path.basename(folder)
        raise RunError(f"{name} must be there to be read: {error.strerror}.") from None
    if before and not entries:
        yield before.rstrip("/"), None
    for name, mode in entries:
        if stat.S_ISDIR(mode):
            yield from _entries(f"{folder}/{name}", f"{before}{name}/")
        else:
            yield before + name, mode


@contextmanager
def open_plain(path: Path) -> Iterator[BufferedReader]:
    """Open a regular file for reading.

    Raises:
        RunError: It is not there, or no regular file.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        linked = error.errno in (errno.ELOOP, errno.EMLINK) and path.is_symlink()
        why = "it is a link" if linked else error.strerror
        raise RunError(f"{path.name} must be there to be read: {why}.") from None
    try:
        with open(descriptor, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise RunError(f"{path.name} must be a regular file, got {_kind(mode)}.")
            yield file
    except OSError as error:
        raise RunError(f"{path.name} must be there to be read: {error.strerror}.") from None


def _kind(mode: int) -> str:
    return next((words for is_kind, words in _KINDS if is_kind(mode)), "a device")
