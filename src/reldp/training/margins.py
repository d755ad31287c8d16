"""Safety margins of a step: batches that are beyond doubt too large, and thresholds below the bound.

All of them follow from public settings, so that neighboring graphs have the same (theory.md 6).

Public inside the package: `MAX_SUM`, `max_batch_units`, `threshold_margin`.

>>> MAX_SUM
1048576.0
"""

import math
from typing import TYPE_CHECKING

from reldp.gradients import sum_error
from reldp.noise import GRID

if TYPE_CHECKING:
    from reldp.plan import PrivacyPlan

__all__ = ["MAX_SUM", "max_batch_units", "threshold_margin"]

# Sums up to this many standard deviations are exact in float64 on the noise's grid of 2^-30, with
# three bits to spare.
MAX_SUM = 2.0**20


def max_batch_units(plan: "PrivacyPlan") -> int:
    """Return a number of clip units that a batch stays below with probability 1 - e^-500 or more."""
    per_tuple = plan.clipping.units_per_tuple(plan.num_negatives)
    return math.ceil(8 * per_tuple * (plan.expected_batch_size + 100))


def threshold_margin(plan: "PrivacyPlan", *, max_positions: int, num_inexact: int) -> float:
    """Return the share by which thresholds are reduced for sums that are not exact.

    Sums of small parameters are exact and need none. Those of large parameters are within an error
    of the exact sums, in units of the clip norm, and move by half a grid step per coordinate when
    noise is added; both happen to either of two neighboring graphs.

    Args:
        plan: The plan.
        max_positions: Largest number of positions in one microbatch's sum of a large parameter.
        num_inexact: Number of elements of the parameters whose sums are not exact.
    """
    if not num_inexact:
        return 0.0
    error = sum_error(max_positions, max_batch_units(plan))
    rounding = 0.5 * GRID * plan.noise_multiplier * math.sqrt(num_inexact)
    # The least by which one entity moves the sum, if it moves it at all, in clip norms.
    least = min(1.0, plan.clipping.replacement_sensitivity(plan.num_negatives))
    return 2.0 * (error + rounding) / least
