"""Progress of training as plain lines, for logs of jobs without a terminal.

One line every 30 seconds, and one at the end of a run that took longer: step, rate, time left and an upper bound on
epsilon, rounded up. Rate and time left are sensitive, because the time that steps take depends on the data: such a log
is for the owner of the data, and its first line says so.

Private to the package: `log_lines`.

>>> _duration(3725)
'1 h 2 min'
"""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from reldp.runs.wording import shown

__all__ = ["log_lines"]

_NOTE = "rate and time left depend on the data and are sensitive: keep this log with the data, or use --quiet."

INTERVAL = 30.0  # seconds between lines


@contextmanager
def log_lines(
    first: int, stop: int, spent: Callable[[int], float]
) -> Iterator[Callable[[int], None]]:
    """Yield a function that is called after every step, and prints a line from time to time.

    Args:
        first: The first step.
        stop: The step after the last one.
        spent: Returns an upper bound on epsilon after a number of steps.
    """
    began = printed = time.monotonic()
    was_noted = False

    def advance(step: int) -> None:
        nonlocal printed, was_noted
        now = time.monotonic()
        if now - printed < INTERVAL and (step != stop or printed == began):
            return
        printed = now
        rate = (step - first) / max(now - began, 1e-9)
        epsilon = spent(step)
        words = "infinite" if math.isinf(epsilon) else f"<= {shown(epsilon)}"
        left = _duration((stop - step) / rate) if rate else "unknown"
        with suppress(OSError):  # nobody may be reading, and training goes on
            if not was_noted:
                was_noted = True
                print(f"reldp: {_NOTE}", file=sys.stderr)
            print(
                f"reldp: step {step:,} of {stop:,}, {rate:.3g} steps/s, {left} left, epsilon {words}",
                file=sys.stderr,
                flush=True,
            )

    yield advance


def _duration(seconds: float) -> str:
    """Return a time in the two largest units."""
    hours, rest = divmod(round(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
