"""Progress of commands that embed or tokenize: a bar on a terminal, and a line every 30 seconds elsewhere.

>>> with show_progress(quiet=True):
...     pass
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from reldp._progress import is_on_terminal, reporting, show_line

__all__ = ["show_busy", "show_progress"]

INTERVAL = 30.0  # seconds between lines


@contextmanager
def show_progress(
    *,
    quiet: bool = False,
    watch: Callable[[str, int, int], None] | None = None,
    is_sensitive: bool = True,
) -> Iterator[None]:
    """Show what loops report; a bar goes when its phase is done, so that another display may follow.

    Args:
        quiet: Whether to show nothing.
        watch: Called with every report too, unless quiet, and with a total of 0 when a phase begins that is shown in
            another way.
        is_sensitive: Whether times depend on private data, so that lines are marked.
    """
    if quiet:
        with reporting(None):
            yield
        return
    shown = _Bar() if is_on_terminal() else _Lines("(sensitive) " * is_sensitive)

    def report(phase: str, done: int, total: int) -> None:
        if total:
            shown.report(phase, done, total)
        if watch is not None:
            watch(phase, done, total)

    try:
        with reporting(report):
            yield
    finally:
        shown.close()


@contextmanager
def show_busy(phase: str, *, is_sensitive: bool = True) -> Iterator[Callable[[str], None]]:
    """Show that work goes on which cannot say how far it is: a spinner on a terminal, and lines elsewhere.

    Args:
        phase: What is done.
        is_sensitive: Whether the time depends on private data, so that lines are marked.

    Yields:
        A function that changes what is shown.
    """
    if is_on_terminal():
        from rich.console import Console

        with Console(stderr=True).status(phase) as status:
            yield status.update
        return
    shown, ended, began = [phase], threading.Event(), time.monotonic()

    def lines() -> None:
        while not ended.wait(INTERVAL):
            mark = "(sensitive) " * is_sensitive
            show_line(f"reldp: {mark}{shown[0]}, for {time.monotonic() - began:.0f} s")

    watcher = threading.Thread(target=lines, daemon=True)
    watcher.start()
    try:
        yield lambda text: shown.__setitem__(0, text)
    finally:
        ended.set()
        watcher.join()


class _Lines:
    """A line from time to time."""

    def __init__(self, mark: str) -> None:
        self._mark, self._printed = mark, time.monotonic()

    def report(self, phase: str, done: int, total: int) -> None:
        if time.monotonic() - self._printed < INTERVAL:
            return
        self._printed = time.monotonic()
        share = 100 * done // total  # exact numbers of entities are sensitive
        show_line(f"reldp: {self._mark}{phase} {share} %")

    def close(self) -> None:
        """Do nothing."""


class _Bar:
    """A bar for the phase under way."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._phase, self._task = "", None

    def report(self, phase: str, done: int, total: int) -> None:
        from rich.console import Console
        from rich.progress import Progress

        if phase != self._phase:
            self.close()
            self._phase = phase
            self._bar = Progress(console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(phase, total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done)
        if done >= total:
            self.close()

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
        self._bar, self._phase = None, ""
