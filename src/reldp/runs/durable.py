"""Durable writes: a file is written completely or not at all, and survives a crash.

A file is written under a temporary name in the same folder, flushed to the disk, renamed, and the
folder is flushed too; a reader sees the old file or the new one. A full disk, a read-only folder and
the like become one `RunError` that names the file, and leave the old file in place.

A process that is killed leaves the temporary file. `write_durably` holds a lock on that file, which ends with the
process, so `remove_leftovers` removes it later, and removes none that another process is writing.

Public inside the package: `write_durably`, `write_with`, `sync_folder`, `remove_durably`,
`remove_leftovers`, `disk_errors`, `lock_or_refuse`, `TEMPORARY`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as home:
...     write_durably(Path(home) / "plan.json", b"{}")
...     (Path(home) / "plan.json").read_bytes()
b'{}'
"""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from reldp.errors import RunError

__all__ = [
    "TEMPORARY",
    "disk_errors",
    "lock_or_refuse",
    "remove_durably",
    "remove_leftovers",
    "sync_folder",
    "write_durably",
    "write_whole",
    "write_with",
]

TEMPORARY = ".partial"

_RUST = re.compile(r"\(os error (\d+)\)")
REASONS = {
    errno.ENOSPC: "the disk is full. Free some space and run the same command again.",
    errno.EDQUOT: "the disk quota is used up. Free some space and run the same command again.",
    errno.EFBIG: "files may not be that large here. Raise the limit (ulimit -f) and run the same command again.",
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
        reason = REASONS.get(error.errno or 0, f"{error.strerror or error}.")
        raise RunError(f"{path.name} could not be {action}: {reason}") from error
    except Exception as error:
        # Libraries in Rust, such as safetensors, have errors of their own that only quote the system's.
        quoted = _RUST.search(str(error))
        if quoted is None:
            raise
        number = int(quoted.group(1))
        reason = REASONS.get(number, f"{os.strerror(number)}.")
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
    with ExitStack() as until_replaced:

        def write(partial: Path) -> None:
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            file = until_replaced.enter_context(open(descriptor, "wb", buffering=0))
            _lock(descriptor)  # so that nobody takes it for a leftover
            os.fchmod(descriptor, mode)
            left = memoryview(data)
            while left:
                left = left[file.write(left) :]

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


def write_whole(descriptor: int, data: bytes) -> None:
    """Write all bytes to an open file; what stops a write half-way is raised, a full disk or a limit for files.

    Raises:
        OSError: They were not written, or not all of them.
    """
    written = os.write(descriptor, data)
    if written != len(data) and os.write(descriptor, data[written:]) != len(data) - written:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


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


def remove_leftovers(folder: Path, names: Iterable[str]) -> None:
    """Remove the temporary files that killed processes left; what cannot be removed stays.

    Only regular files are removed, no link is followed, and a file that another process is writing stays.

    Args:
        folder: The folder; nothing is removed if it is a link.
        names: Names of the files, relative to the folder and without folders, whose temporary files are removed.
    """
    flags = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
    with suppress(OSError):
        descriptor = os.open(folder, flags)
        try:
            for name in names:
                with suppress(OSError):
                    _remove_leftover(name + TEMPORARY, descriptor)
        finally:
            os.close(descriptor)


def _remove_leftover(name: str, folder: int) -> None:
    """Remove a regular file of an open folder unless a process holds its lock."""
    if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(name, flags, dir_fd=folder)
    try:
        # Before the lock was taken, its writer may have renamed it, and another one may have made a new file.
        if _lock(descriptor) and os.path.samestat(
            os.fstat(descriptor), os.stat(name, dir_fd=folder, follow_symlinks=False)
        ):
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Try to lock an open file until it is closed; return whether no other process holds the lock."""
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sync(path: Path) -> None:
    """Flush a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
