"""Durable writes: a file is written completely or not at all, and survives a crash.

A file is written under a temporary name in the same folder, flushed to the disk, renamed, and the
folder is flushed too; a reader sees the old file or the new one. A full disk, a read-only folder and
the like become one `RunError` that names the file, and leave the old file in place.

Public inside the package: `write_durably`, `write_with`, `sync_folder`, `remove_durably`,
`disk_errors`, `lock_or_refuse`, `TEMPORARY`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as home:
...     write_durably(Path(home) / "plan.json", b"{}")
...     (Path(home) / "plan.json").read_bytes()
b'{}'
"""

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from reldp.errors import RunError

__all__ = [
    "TEMPORARY",
    "disk_errors",
    "lock_or_refuse",
    "remove_durably",
    "sync_folder",
    "write_durably",
    "write_with",
]

TEMPORARY = ".partial"

_RUST = re.compile(r"\(os error (\d+)\)")
_REASONS = {
    errno.ENOSPC: "the disk is full. Free some space and run the same command again.",
    errno.EDQUOT: "the disk quota is used up. Free some space and run the same command again.",
    errno.EROFS: "the disk is read-only. Choose another folder.",
    errno.EACCES: "the folder may not be written to. Choose another, or change its permissions.",
    errno.EPERM: "the folder may not be written to. Choose another, or change its permissions.",
}


@contextmanager
def disk_errors(path: Path, action: str = "written") -> Iterator[None]:
    """Turn an error of the operating system about a file into one clear line.

    Args:
        path: The file.
        action: What could not be done, as a participle.
    """
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, f"{error.strerror or error}.")
        raise RunError(f"{path.name} could not be {action}: {reason}") from error
    except Exception as error:
        # Libraries in Rust, such as safetensors, have errors of their own that only quote the system's.
        quoted = _RUST.search(str(error))
        if quoted is None:
            raise
        number = int(quoted.group(1))
        reason = _REASONS.get(number, f"{os.strerror(number)}.")
        raise RunError(f"{path.name} could not be {action}: {reason}") from error


def lock_or_refuse(descriptor: int, name: str, reason: str) -> None:
    """Allow one writer at a time; the lock ends with the process, however it ends.

    Args:
        descriptor: The open file or folder.
        name: What has one writer, in the message.
        reason: A sentence about who holds the lock.

    Raises:
        RunError: Another process holds it, or the file system has no locks.
    """
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RunError(f"{name} must have one writer, got a second. {reason}") from None
    except OSError as error:
        raise RunError(f"{name} could not be locked: {error.strerror or error}") from error


def write_durably(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write a whole file; its permissions are `mode` from the first byte on, whatever the umask."""

    def write(partial: Path) -> None:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)

    write_with(path, write)


def write_with(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file, which then replaces `path`."""
    partial = path.with_name(path.name + TEMPORARY)
    try:
        with disk_errors(path):
            partial.unlink(missing_ok=True)
            write(partial)
            _sync(partial)
            os.replace(partial, path)
            _sync(path.parent)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Flush all files of a folder, and the folder itself, to the disk."""
    with disk_errors(folder):
        for place in sorted(folder.rglob("*"), reverse=True):
            _sync(place)
        _sync(folder)
        _sync(folder.parent)


def remove_durably(path: Path) -> None:
    """Remove a file, if it exists, so that it stays removed after a crash."""
    with disk_errors(path):
        path.unlink(missing_ok=True)
        _sync(path.parent)


def _sync(path: Path) -> None:
    """Flush a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
