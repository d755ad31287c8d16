"""Progress of long loops inside of the library, for whoever wants to show it; by default nobody does.

It goes to the error stream, and nowhere if that is closed: not to standard output, which may be a result.

Private to the package: `begin`, `followed`, `is_on_terminal`, `reporting`, `show_line`, `tick`.

>>> seen = []
>>> with reporting(lambda phase, done, total: seen.append((phase, done, total))):
...     [len(batch) for batch in followed("tokenizing", ["ab", "c"], 3)]
[2, 1]
>>> seen
[('tokenizing', 2, 3), ('tokenizing', 3, 3)]
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar

__all__ = ["begin", "followed", "is_on_terminal", "reporting", "show_line", "tick"]

Report = Callable[[str, int, int], None]
Batch = TypeVar("Batch", bound=Sequence[Any])

_REPORT: ContextVar[Report | None] = ContextVar("report", default=None)


@contextmanager
def reporting(report: Report | None) -> Iterator[None]:
    """Call a function with phase, number done and total number whenever a loop goes on; None for silence."""
    token = _REPORT.set(report)
    try:
        yield
    finally:
        _REPORT.reset(token)


def tick(phase: str, done: int, total: int) -> None:
    """Report that so many of a phase's items are done."""
    report = _REPORT.get()
    if report is not None:
        report(phase, done, total)


def begin(phase: str) -> None:
    """Report that a phase begins whose progress is shown in another way: none of it is done, and its total is 0."""
    tick(phase, 0, 0)


def followed(phase: str, batches: Iterable[Batch], total: int) -> Iterator[Batch]:
    """Yield batches, and report each when the next one is asked for."""
    done = 0
    for batch in batches:
        yield batch
        done += len(batch)
        tick(phase, done, total)


def is_on_terminal() -> bool:
    """Return whether the error stream is a terminal."""
    stream = sys.stderr  # None if it was closed when the process started
    return stream is not None and not stream.closed and stream.isatty()


def show_line(text: str) -> None:
    """Print a line on the error stream, if it is open: nobody may be reading, and work goes on."""
    stream = sys.stderr
    if stream is not None and not stream.closed:
        with suppress(OSError):
            print(text, file=stream, flush=True)
