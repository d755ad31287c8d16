"""Removing a folder, or whatever is in its place.

`shutil.rmtree` opens its argument: a named pipe that somebody put there would block it for ever.

Private to the package: `remove_tree`.

>>> remove_tree(Path("no/such/folder"))
"""

import shutil
from contextlib import suppress
from pathlib import Path

__all__ = ["remove_tree"]


def remove_tree(place: Path) -> None:
    """Remove a folder with everything in it, or another thing of that name; what cannot be removed stays."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=True)
        return
    with suppress(OSError):
        place.unlink()
