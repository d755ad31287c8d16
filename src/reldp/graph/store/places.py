"""Folders that appear whole or not at all: one maker at a time, and replacement in one step.

A folder that is replaced is exchanged with the new one by one call of the operating system, so whoever looks finds
the old folder or the new one, also if the process is killed at any point. Where the system or the file system
cannot exchange two folders, the old one is renamed first; `settle` puts it back if the process was killed then.

Inside the package: `exclusive`, `put`, `settle`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as home, exclusive(Path(home) / "lock"):
...     (Path(home) / "new").mkdir()
...     put(Path(home) / "new", Path(home) / "store")
...     sorted(path.name for path in Path(home).iterdir())
['lock', 'store']
"""

import ctypes
import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reldp._remove_tree import remove_tree

__all__ = ["exclusive", "put", "settle"]

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of <fcntl.h> and <linux/fs.h>
_CANNOT = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)


@contextmanager
def exclusive(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock file, which is removed afterwards; the lock ends with the process, however that ends.

    Args:
        path: The file.
        wait: Whether to wait for another process that holds it.

    Raises:
        BlockingIOError: Another process holds it, and `wait` is False.
    """
    handle = _locked(path, wait)
    try:
        yield
    finally:
        path.unlink(
            missing_ok=True
        )  # before it is released: whoever waits notices, and starts over
        os.close(handle)


def put(folder: Path, target: Path) -> None:
    """Rename a complete folder into place and remove the one that was there.

    Args:
        folder: The new folder, on the disk already; afterwards there is nothing.
        target: Its final name: nothing, or a folder.
    """
    if not target.exists():
        os.rename(folder, target)
    elif not _exchange(folder, target):
        os.rename(target, _aside(target))
        os.rename(folder, target)
    _sync(target.parent)
    for old in (folder, _aside(target)):
        remove_tree(old)


def settle(target: Path) -> None:
    """Put back, or remove, what a `put` that was killed left beside the target."""
    old = _aside(target)
    if old.exists() and not target.exists():
        os.rename(old, target)
    remove_tree(old)


def _aside(target: Path) -> Path:
    return target.parent / f".{target.name}.old"


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; return False where that is impossible."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:  # another system, or an old C library
        return False
    names = os.fsencode(one), os.fsencode(other)
    if rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(other))


def _locked(path: Path, wait: bool) -> int:
    """Return the open lock file, locked."""
    while True:
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if _is_at(handle, path):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the one who held it has removed the file


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open file is the one at a path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
