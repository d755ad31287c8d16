"""From scores of two neighbouring graphs to a lower bound on epsilon.

If a mechanism is (epsilon, delta)-private then P[A] <= e^epsilon Q[A] + delta for every event A, so any event gives
epsilon >= log((P[A] - delta) / Q[A]). Two ways to bound the probabilities:

* `counting_bound`: how often the real outputs, noise and all, fell into A. Believes nothing.
* `gaussian_bound`: the auditor also sees the sums before the noise. Given its sum, an output is Gaussian, so the
  probability of a half-line is known exactly for every trial, and only the sums' own randomness is left to chance.
  Believes the noise (which has tests of its own) and reaches further into the tails.

The event is chosen on one half of the trials and judged on the other. P and Q each miss with half of `miss`.

Public to `reldp.auditing`: `Judged`, `counting_bound`, `gaussian_bound`.

>>> score = np.linspace(0.0, 1.0, 2000)  # the same scores on both sides: nothing is shown
>>> counting_bound((score, score), (score, score), delta=0.01, miss=0.01).epsilon
0.0
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from reldp.auditing.confidence import (
    mean_lower,
    mean_upper,
    proportion_lower,
    proportion_upper,
)

__all__ = ["Judged", "counting_bound", "gaussian_bound"]

Array = npt.NDArray[np.float64]
Sides = tuple[Array, Array]  # trials of P, trials of Q

_THRESHOLDS = 256


@dataclass(frozen=True, kw_only=True)
class Judged:
    """An event and what it shows.

    Attributes:
        epsilon: The lower bound, 0 or more.
        expected: What the pilot trials promised, from which events are compared.
        threshold: The event is a score above this, or below it.
        above: Which of the two.
        probability: Lower bound on P of the event.
        other: Upper bound on Q of the event.
    """

    epsilon: float
    expected: float
    threshold: float
    above: bool
    probability: float
    other: float


def _epsilon(probability: npt.ArrayLike, other: npt.ArrayLike, delta: float) -> Array:
    """log((P - delta) / Q), 0 where that says nothing."""
    spare = np.asarray(probability, dtype=np.float64) - delta
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(np.maximum(spare, 0.0) / np.asarray(other, dtype=np.float64))
    return np.asarray(np.maximum(np.nan_to_num(found, nan=0.0, neginf=0.0), 0.0))


def _candidates(pilot: Sides) -> Array:
    """Thresholds at quantiles of both sides, denser in the tails."""
    inner = np.linspace(0.0, 1.0, _THRESHOLDS // 2)
    tail = np.geomspace(1e-4, 0.05, _THRESHOLDS // 8)
    levels = np.concatenate([inner, tail, 1 - tail])
    both = [np.quantile(side, levels, method="nearest") for side in pilot]
    return np.unique(np.concatenate(both))


def _hits(scores: Array, thresholds: Array, above: bool) -> npt.NDArray[np.int64]:
    """How many scores are strictly beyond each threshold."""
    ordered = np.sort(scores)
    if above:
        return scores.size - np.searchsorted(ordered, thresholds, side="right")
    return np.asarray(np.searchsorted(ordered, thresholds, side="left"))


def counting_bound(pilot: Sides, trials: Sides, *, delta: float, miss: float) -> Judged:
    """The bound of the best half-line of a score, by counting.

    Args:
        pilot: Scores of the trials that choose the event: P's, then Q's.
        trials: Scores of the trials that judge it.
        delta: The delta of the claim.
        miss: Probability with which the bound may exceed the true epsilon.
    """
    thresholds = _candidates(pilot)
    best = (-1.0, 0.0, True)
    for above in (True, False):
        hits = [_hits(side, thresholds, above) for side in pilot]
        low = proportion_lower(hits[0], pilot[0].size, miss=miss / 2)
        high = proportion_upper(hits[1], pilot[1].size, miss=miss / 2)
        values = _epsilon(low, high, delta)
        place = int(np.argmax(values))
        best = max(best, (float(values[place]), float(thresholds[place]), above))
    expected, threshold, above = best
    at = np.array([threshold])
    counts = [int(_hits(side, at, above)[0]) for side in trials]
    probability = float(proportion_lower(counts[0], trials[0].size, miss=miss / 2))
    other = float(proportion_upper(counts[1], trials[1].size, miss=miss / 2))
    return Judged(
        epsilon=float(_epsilon(probability, other, delta)),
        expected=expected,
        threshold=threshold,
        above=above,
        probability=probability,
        other=other,
    )


def _beyond(sums: Array, threshold: float, deviation: float, above: bool) -> Array:
    """Exact probability, given each sum, that sum plus noise lies beyond the threshold."""
    distance = (sums - threshold) / deviation
    return np.asarray(ndtr(distance if above else -distance), dtype=np.float64)


def gaussian_bound(
    pilot: Sides, trials: Sides, *, deviation: float, delta: float, miss: float
) -> Judged:
    """The bound of the best half-line of the noisy sum, its probability exact given each sum.

    Args:
        pilot: Sums before noise of the trials that choose the event: P's, then Q's.
        trials: Sums of the trials that judge it.
        deviation: Standard deviation of the noise on these sums.
        delta: The delta of the claim.
        miss: Probability with which the bound may exceed the true epsilon.
    """
    best = (-1.0, 0.0, True)
    allowance = math.log(2 / miss) / trials[1].size  # what the upper bound adds at the least
    low, high = min(map(np.min, pilot)), max(map(np.max, pilot))
    for threshold in np.linspace(low - 6 * deviation, high + 6 * deviation, _THRESHOLDS):
        for above in (True, False):
            given = [_beyond(side, float(threshold), deviation, above).mean() for side in pilot]
            value = float(_epsilon(given[0] - allowance, given[1] + allowance, delta))
            best = max(best, (value, float(threshold), above))
    expected, threshold, above = best
    given_p, given_q = (_beyond(side, threshold, deviation, above) for side in trials)
    pilot_p, pilot_q = (_beyond(side, threshold, deviation, above) for side in pilot)
    probability = mean_lower(given_p, pilot_p, miss=miss / 2)
    other = mean_upper(given_q, pilot_q, miss=miss / 2)
    return Judged(
        epsilon=float(_epsilon(probability, other, delta)),
        expected=expected,
        threshold=threshold,
        above=above,
        probability=probability,
        other=other,
    )
