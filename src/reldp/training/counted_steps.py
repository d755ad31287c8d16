"""The steps of a session: each is counted in the ledger before it runs, and runs once.

`Trainer` and the loops of users (`reldp.training.recording`) take their steps here, so that both count
alike.

Private to the package: `CountedSteps`, `spent_after`, `warn_about_plan`.

>>> CountedSteps.__name__
'CountedSteps'
"""

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from reldp.errors import RunError
from reldp.runs.privacy_cost import privacy_cost
from reldp.training.advice import (
    PoorPlanWarning,
    StartingWeightsWarning,
    advice,
    advice_about_start,
)
from reldp.training.nonfinite import NonfiniteWatch
from reldp.training.repeatability import no_random_numbers

if TYPE_CHECKING:
    from reldp.encoders import Encoder
    from reldp.plan import PrivacyPlan
    from reldp.runs.session import Session
    from reldp.training.step import PrivateStep
    from reldp.training.step_report import StepReport

__all__ = ["BLOCK", "CountedSteps", "spent_after", "warn_about_plan"]

BLOCK = 8
"""Steps reserved at a time where steps are not repeated: reserved steps that did not run stay counted."""


class CountedSteps:
    """Take the steps of a session's newest branch.

    Args:
        step: The step, open with the session's streams.
        session: The open run.
        plan: The plan.
        clip: Whether gradients are clipped.
    """

    def __init__(
        self, step: "PrivateStep", session: "Session", plan: "PrivacyPlan", *, clip: bool = True
    ) -> None:
        self._step, self._session = step, session
        self._stream = session.stream_number
        self._watch = NonfiniteWatch(plan, clip=clip)
        self._is_first = True

    def reserve(self, number: int, block: int) -> None:
        """Count the next steps before the first of them runs, unless they are counted already."""
        ledger = self._session.ledger
        if number >= ledger.next_uncounted_step:
            ledger.reserve(number, min(number + block, self._session.stop))

    def take(self, number: int) -> "StepReport":
        """Draw the batch of a step and set ``.grad``. The report is sensitive.

        Raises:
            RunError: The step is not counted, the last steps had no finite gradient, or the first one changed frozen
                weights.
        """
        if number >= self._session.ledger.next_uncounted_step:
            raise RunError(f"Step {number} must be counted before it runs, got one that is not.")
        with self._step._counted():
            batch = self._step.draw(number, self._stream)
            if batch.overflow:
                self._session.ledger.overflow(number)
            with no_random_numbers():
                report = self._step.run(batch, number, self._stream)
        self._watch.see(report)
        if self._is_first:
            self.check_frozen()
            self._is_first = False
        return report

    def check_frozen(self) -> None:
        """Refuse frozen weights and buffers that steps have changed: before anything is saved, and after the last step.

        Raises:
            RunError: They have.
        """
        self._step._guard.frozen.check()


def warn_about_plan(plan: "PrivacyPlan", encoder: "Encoder", *, stacklevel: int) -> None:
    """Warn about weaknesses of a plan, and weights that were trained before, before a new run."""
    for line in advice_about_start(encoder.source) if plan.noise_multiplier else []:
        warnings.warn(line, StartingWeightsWarning, stacklevel=stacklevel + 1)
    for line in advice(plan, privacy_cost(plan, "pld", plan.num_steps).epsilon):
        warnings.warn(line, PoorPlanWarning, stacklevel=stacklevel + 1)


def spent_after(plan: "PrivacyPlan", session: "Session") -> Callable[[int], float]:
    """Return a function for an upper bound on epsilon after a step, computed at up to sixteen points of the run."""
    points = max(1, min(16, plan.num_steps // 50))
    stride = max(1, -(-plan.num_steps // points))

    def spent(step: int) -> float:
        # A step of a later branch comes after what was abandoned before it.
        ran = step + session.ledger.record.num_abandoned
        rounded_up = -(-ran // stride) * stride
        return privacy_cost(plan, "pld", min(rounded_up, plan.num_steps)).epsilon

    return spent
