"""Searches on the safe side: the least noise, or the largest number of steps, that keeps epsilon within a target.

Both rest on epsilon falling in the noise and growing in the steps; epsilon is computed for what they return, so
epsilon(returned) <= target whatever the search did.

>>> noise, epsilon = least_noise(lambda noise: 2.0 / noise, target=0.5)
>>> 4.0 <= noise <= 4.004, epsilon <= 0.5
(True, True)
>>> max_steps(lambda steps: 0.1 * steps, target=1.0)
(10, 1.0)
"""

import math
from collections.abc import Callable

from reldp._validate import check_number
from reldp.errors import PlanError, UnreachableTarget

__all__ = ["least_noise", "max_steps"]

TOLERANCE = 1e-3  # relative, of the noise
SMALLEST_NOISE, LARGEST_NOISE = 1e-3, 1e7
MAX_STEPS = 10**9
SMALLEST_TARGET = 1e-3  # below it, no noise in range leaves a signal


def least_noise(
    epsilon: Callable[[float], float], target: float, start: float = 1.0
) -> tuple[float, float]:
    """Return the least noise, to 0.1 %, whose epsilon is at most the target.

    Args:
        epsilon: Epsilon of a noise multiplier, decreasing.
        target: The largest epsilon allowed.
        start: A first guess.

    Returns:
        The noise and its epsilon.
    """
    check_number("target_epsilon", target, low=SMALLEST_TARGET, error=PlanError)
    low, at_low, high, at_high = _bracket(epsilon, target, start)
    while high > low * (1 + TOLERANCE):
        middle = _between(low, at_low, high, at_high, target)
        at_middle = epsilon(middle)
        if at_middle <= target:
            high, at_high = middle, at_middle
        else:
            low, at_low = middle, at_middle
    return high, at_high


def _bracket(
    epsilon: Callable[[float], float], target: float, start: float
) -> tuple[float, float, float, float]:
    """Two noises, the lower with too much epsilon and the higher without."""
    noise, at_noise = start, epsilon(start)
    factor = 1.5
    while at_noise > target:
        low, at_low = noise, at_noise
        if noise >= LARGEST_NOISE:
            raise UnreachableTarget(
                f"`target_epsilon` {target:g} cannot be reached: even noise {noise:g} leaves epsilon "
                f"{at_noise:.4g}, because batch sizes alone reveal that much. Take fewer steps, a smaller "
                "batch, fewer negatives or a larger delta."
            )
        noise, factor = min(noise * factor, LARGEST_NOISE), factor**1.5
        at_noise = epsilon(noise)
        if at_noise <= target:
            return low, at_low, noise, at_noise
    while at_noise <= target:
        high, at_high = noise, at_noise
        if noise <= SMALLEST_NOISE:
            return noise, at_noise, noise, at_noise
        noise, factor = max(noise / factor, SMALLEST_NOISE), factor**1.5
        at_noise = epsilon(noise)
    return noise, at_noise, high, at_high


def _between(low: float, at_low: float, high: float, at_high: float, target: float) -> float:
    """Return the next noise to try: log-log interpolation kept inside the bracket, or its geometric middle."""
    width = math.log(high / low)
    if not (math.isfinite(at_low) and at_high > 0):
        return math.sqrt(low * high)
    share = math.log(at_low / target) / max(math.log(at_low / at_high), 1e-300)
    # Aim slightly to the safe side, so that the upper end closes in too.
    share += 0.35 * TOLERANCE / width
    return (
        low * math.exp(width * min(max(share, 0.05), 0.95))
        if width > 2 * TOLERANCE
        else (math.sqrt(low * high))
    )


def max_steps(
    epsilon: Callable[[int], float], target: float, start: int = 1000
) -> tuple[int, float]:
    """Return the largest number of steps whose epsilon is at most the target, and that epsilon.

    Args:
        epsilon: Epsilon of a number of steps, increasing.
        target: The largest epsilon allowed.
        start: A first guess.
    """
    check_number("target_epsilon", target, above=0, error=PlanError)
    low, at_low, high = 0, 0.0, max(1, start)
    at_high = epsilon(high)
    while at_high <= target:
        low, at_low = high, at_high
        if high >= MAX_STEPS:
            return high, at_high
        high = min(MAX_STEPS, 4 * high)
        at_high = epsilon(high)
    while high - low > 1:
        middle = max(low + 1, min(high - 1, round(math.sqrt(max(low, 1) * high))))
        if high - low < 64 or middle - low < 2:
            middle = (low + high) // 2
        at_middle = epsilon(middle)
        if at_middle <= target:
            low, at_low = middle, at_middle
        else:
            high = middle
    if low == 0:
        raise UnreachableTarget(
            f"`target_epsilon` {target:g} is exceeded by a single step, which costs {epsilon(1):.4g}. "
            "Use more noise or a larger delta."
        )
    return low, at_low
