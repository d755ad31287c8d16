"""Warnings as one line each: those of reldp in every command, and all of them while a run is trained.

Public to the other commands: `all_as_lines`, `reldp_as_lines`.

>>> reldp_as_lines.__name__
'reldp_as_lines'
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from reldp.cli.output import say

__all__ = ["all_as_lines", "reldp_as_lines"]


@contextmanager
def all_as_lines() -> Iterator[None]:
    """Print every warning at once, one line each."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = _show
        yield


@contextmanager
def reldp_as_lines() -> Iterator[None]:
    """Print warnings of reldp as one line each, and leave others to Python."""
    with warnings.catch_warnings():
        show_other = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if category.__module__.partition(".")[0] == "reldp":
                _show(message, category, filename, lineno, file, line)
            else:
                show_other(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def _show(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    say(f"reldp: warning: {' '.join(str(message).split())}", err=True)
