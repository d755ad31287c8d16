"""The path of a file or folder without links, also where there is none, or links go in a circle.

`pathlib.Path.resolve` raises a RuntimeError for a circle in some versions of Python, and not in others. Here a circle
stays as it is, and whatever opens it gets the error of the operating system.

Private to the package: `real_path`.

>>> real_path(".").is_absolute()
True
"""

import os
from pathlib import Path

__all__ = ["real_path"]


def real_path(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path without links."""
    return Path(os.path.realpath(path))
