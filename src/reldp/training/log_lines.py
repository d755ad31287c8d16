"""Progress of training as plain lines, for logs of jobs without a terminal.

One line every 30 seconds, and one at the end of a run that took longer: step, rate, time left and an upper bound on
epsilon, rounded up. How long steps take depends on realized batch sizes, so these lines are sensitive, in logs with
times of their own even the step alone. They are coarse: the step is rounded down to a hundredth of the run, the
rate to one digit, the time left to one unit. No guarantee covers them, so every line is marked as sensitive, to be
removed from a log before others see it, and the first one says so.

Private to the package: `log_lines`.

>>> _duration(3725)
'63 min'
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from reldp._progress import show_line
from reldp.runs.wording import shown

__all__ = ["log_lines"]

_NOTE = (
    "lines marked (sensitive) show how long steps take, which depends on the data: remove them before others see "
    "this log, or use --quiet."
)

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
        grid = max(1, stop // 100)
        coarse = stop if step == stop else step // grid * grid
        rate = float(f"{(step - first) / max(now - began, 1e-9):.1g}")
        epsilon = spent(min(coarse + grid, stop) if coarse < step else step)
        words = "infinite" if math.isinf(epsilon) else f"<= {shown(epsilon)}"
        left = _duration((stop - step) / rate) if rate else "unknown"
        if not was_noted:
            was_noted = True
            show_line(f"reldp: {_NOTE}")
        show_line(
            f"reldp: (sensitive) step {coarse:,} of {stop:,}, about {rate:.3g} steps/s, {left} left, epsilon {words}"
        )

    yield advance


def _duration(seconds: float) -> str:
    """Return a time in one unit, rounded up."""
    if seconds > 2 * 3600:
        return f"{math.ceil(seconds / 3600):,} h"
    return (
        f"{math.ceil(seconds / 60)} min" if seconds > 120 else f"{math.ceil(seconds / 10) * 10} s"
    )
