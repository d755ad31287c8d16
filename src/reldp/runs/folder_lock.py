"""One process at a time in a run folder, from before it looks for a run to the end of its session.

The lock of ledger.jsonl is not enough: two processes that start in one new folder find no ledger, and the second
would remove what the first has just written. So a file in the folder is locked first, and removed at the end. The lock
ends with the process, however it ends.

Public inside the package: `FolderLock`, `locked_folder`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as home:
...     locked_folder(Path(home) / "run").close()
"""

import os
from contextlib import suppress
from pathlib import Path

from reldp.runs.durable import disk_errors, lock_or_refuse
from reldp.runs.run_folder import LOCK

__all__ = ["FolderLock", "locked_folder"]


# A link would make the file somewhere else.
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)


class FolderLock:
    """A lock that is held until `close`."""

    def __init__(self, descriptor: int, place: Path, *, made_folder: bool = False) -> None:
        """Take over a locked descriptor; use `locked_folder`."""
        self._descriptor, self._place, self._made_folder = descriptor, place, made_folder

    def close(self) -> None:
        """Let another process use the folder; a folder that was made for the lock and is empty goes."""
        if self._descriptor >= 0:
            with suppress(OSError):  # removed while it is held: whoever opened it looks again
                self._place.unlink()
                if self._made_folder:
                    self._place.parent.rmdir()  # what was refused leaves no folder
            os.close(self._descriptor)
            self._descriptor = -1


def locked_folder(folder: Path) -> FolderLock:
    """Make a folder if need be, and lock it by a file in it.

    Raises:
        RunError: Another process uses it, or it cannot be made.
    """
    place, made_folder = folder / LOCK, not folder.exists()
    while True:
        with disk_errors(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(place, _FLAGS, 0o600)
        try:
            lock_or_refuse(
                descriptor,
                folder.name,
                "Another process has this run open. Wait until it ends, or stop it.",
            )
            if os.path.samestat(os.fstat(descriptor), os.stat(place)):
                return FolderLock(descriptor, place, made_folder=made_folder)
        except FileNotFoundError:  # its holder has just removed it
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
