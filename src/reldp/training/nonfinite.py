"""Stops a run that learns nothing, because no gradient is finite, before it spends the budget.

Clip units whose gradient is not finite contribute nothing, so a run in which all of them are spends
its whole privacy budget on noise. Whether that happens depends on the data: the stop is for the
owner's eyes, and nothing of it is written to a file.

Public inside the package: `NonfiniteWatch`.

>>> NonfiniteWatch.PATIENCE
5
"""

import math
from typing import TYPE_CHECKING

from reldp.errors import RunError

if TYPE_CHECKING:
    from reldp.plan import PrivacyPlan
    from reldp.training.step_report import StepReport

__all__ = ["NonfiniteWatch"]


class NonfiniteWatch:
    """Count consecutive steps without any finite gradient; empty batches do not count."""

    PATIENCE = 5

    def __init__(self, plan: "PrivacyPlan", *, clip: bool = True) -> None:
        """Return empty counts for a plan.

        Args:
            plan: Says how many clip units a tuple has.
            clip: Whether gradients are clipped, and their norms known.
        """
        self._clip = clip
        self._units_per_tuple = plan.clipping.units_per_tuple(plan.num_negatives)
        self._in_a_row = 0

    def see(self, report: "StepReport") -> None:
        """Take note of a step.

        Raises:
            RunError: The last steps had no finite gradient at all.
        """
        if not report.num_tuples:
            return
        self._in_a_row = self._in_a_row + 1 if self._nothing_finite(report) else 0
        if self._in_a_row >= self.PATIENCE:
            raise RunError(
                f"Training must have finite gradients, got none in {self.PATIENCE} steps in a row; "
                "the rest of the privacy budget is not spent. Look for values that are not finite in "
                "the model, for a learning rate that is too high, or for reduced precision. "
                "Sensitive: this message depends on the data."
            )

    def _nothing_finite(self, report: "StepReport") -> bool:
        if self._clip:
            return report.num_nonfinite >= report.num_tuples * self._units_per_tuple
        # No norms are known, and one bad unit spoils the sum as well as the mean loss.
        return not math.isfinite(report.loss)
