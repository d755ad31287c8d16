"""When to save a checkpoint: by steps, and often enough that a kill loses a few minutes at most.

The interval by time is a number of steps, 1, 2, 4, ..., that follows from the speed of the machine on public rows
(`reldp.training.estimate`) and stays the same for a session. A clock that runs while private batches are
computed would not do: the ledger is public and names every checkpoint, so it would show how long steps took.

Private to the package: `CheckpointSchedule`, `checkpoint_schedule`.

>>> CheckpointSchedule(interval=100, short_interval=16).is_due(32, stop=1000)
True
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reldp.processes import join_processes
from reldp.training.estimate import estimate_step

if TYPE_CHECKING:
    from reldp.training.config import LoggingSettings
    from reldp.training.step import PrivateStep

__all__ = ["CheckpointSchedule", "checkpoint_schedule"]


@dataclass(frozen=True, kw_only=True)
class CheckpointSchedule:
    """The steps before which a checkpoint is saved.

    Attributes:
        interval: Steps between checkpoints, as set.
        short_interval: Steps that take at most the time that may be lost.
    """

    interval: int
    short_interval: int

    def is_due(self, taken: int, stop: int) -> bool:
        """Return whether a checkpoint is due after `taken` of `stop` steps."""
        return taken == stop or taken % self.interval == 0 or taken % self.short_interval == 0

    def steps_to_next(self, taken: int) -> int:
        """Return the number of steps from `taken` to the next checkpoint, 1 or more."""
        return min(n - taken % n for n in (self.interval, self.short_interval))


def checkpoint_schedule(logging: "LoggingSettings", step: "PrivateStep") -> CheckpointSchedule:
    """Return the schedule for a step on this machine."""
    interval = logging.checkpoint_every
    if logging.checkpoint_minutes == 0:
        return CheckpointSchedule(interval=interval, short_interval=interval)
    allowed = 60.0 * logging.checkpoint_minutes / max(estimate_step(step).seconds, 1e-9)
    short = interval if allowed >= interval else 1 << max(0, int(allowed).bit_length() - 1)
    # Processes measure different times, and all of them must save at the same step.
    agreed = join_processes().from_first(lambda: str(short).encode(), about="checkpoints")
    return CheckpointSchedule(interval=interval, short_interval=int(agreed))
