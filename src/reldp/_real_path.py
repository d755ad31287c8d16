"""The path of a file or folder without links, also where there is none, or links go in a circle.

`pathlib.Path.resolve` raises a RuntimeError for a circle in some versions of Python, and not in others. Here a circle
stays as it is, and whatever opens it gets the error of the operating system.

Files that name a folder hold its path as text. A name whose bytes are not UTF-8 would make such a file unreadable for
good, and with it all other entries of the file, so it is refused.

Private to the package: `real_path`, `path_text`.

>>> real_path(".").is_absolute()
True
"""

import os
from pathlib import Path

from reldp.errors import ConfigError

__all__ = ["path_text", "real_path"]


def real_path(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path without links."""
    return Path(os.path.realpath(path))


def path_text(path: str | os.PathLike[str]) -> str:
    """Return the absolute path without links as text that a file can hold.

    Raises:
        ConfigError: Its bytes are not UTF-8.
    """
    text = str(real_path(path))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"The path of a budget must be valid UTF-8, got {os.path.basename(text)!r}, which is not, or lies in a "
            "folder that is not. Rename that folder."
        ) from None
    return text
