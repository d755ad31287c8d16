"""Progress of a long build: which phase, how far, how fast, and how long it will take.

A build tells a `Progress` what it does; whoever shows it sets `report`, or `reporting` for all that is done
inside of it, as the command line does. Nothing about the data is reported except how many rows or bytes are
through.

Public: `Progress`, `Tick`, `reporting`.

>>> seen = []
>>> with Progress(seen.append).phase("reading", 10, "rows") as advance:
...     advance(10)
>>> seen[-1].phase, seen[-1].done, seen[-1].total
('reading', 10, 10)
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["Progress", "Tick", "reporting"]

_Report = Callable[["Tick"], None]
_REPORT: ContextVar[_Report | None] = ContextVar("report", default=None)
_INTERVAL = 0.5  # seconds between two reports


@dataclass(frozen=True, kw_only=True)
class Tick:
    """How far a phase is.

    Attributes:
        phase: What is being done, in words.
        done: Units that are through.
        total: Units there are; 0 if that is not known.
        unit: What is counted.
        seconds: Time since the phase began.
        ended: Whether the phase is over.
    """

    phase: str
    done: int
    total: int
    unit: str
    seconds: float
    ended: bool = False

    @property
    def rate(self) -> float:
        """Units per second."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimate of the time that the phase still takes; None if nothing is known."""
        if not self.total or not self.rate:
            return None
        return max(0.0, self.total - self.done) / self.rate


class Progress:
    """Where a build stands.

    Args:
        report: Called with a `Tick` at the beginning and end of a phase and twice a second in between
            (default: what `reporting` set).
    """

    def __init__(self, report: _Report | None = None) -> None:
        self._report = report or _REPORT.get() or (lambda tick: None)

    @contextmanager
    def phase(
        self, name: str, total: int = 0, unit: str = "rows"
    ) -> Iterator[Callable[[int], None]]:
        """Run a phase; what is yielded is called with the number of units that got through."""
        start = last = time.monotonic()
        done = 0

        def tell(*, ended: bool = False) -> None:
            seconds = time.monotonic() - start
            self._report(
                Tick(phase=name, done=done, total=total, unit=unit, seconds=seconds, ended=ended)
            )

        def advance(count: int) -> None:
            nonlocal done, last
            done += count
            if time.monotonic() - last >= _INTERVAL:
                last = time.monotonic()
                tell()

        tell()
        yield advance
        tell(ended=True)


@contextmanager
def reporting(report: _Report) -> Iterator[None]:
    """Report all progress inside of it that nobody else asked for."""
    token = _REPORT.set(report)
    try:
        yield
    finally:
        _REPORT.reset(token)
