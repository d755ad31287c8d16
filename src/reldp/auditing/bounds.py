"""From scores of two neighboring graphs to a lower bound on epsilon.

If a mechanism is (epsilon, delta)-private then P[A] <= e^epsilon Q[A] + delta for every event A, so any event gives
epsilon >= log((P[A] - delta) / Q[A]). Two ways to bound the probabilities:

* `counting_bound`: how often the real outputs, noise and all, fell into A. Believes nothing.
* `gaussian_bound`: the auditor also sees the sums before the noise. Given its sums, outputs are Gaussian, so the
  probability that their total, or any of them, exceeds a threshold is known exactly for every trial, and only the
  sums are random. Assumes that the noise is right (other tests check it) and, where the auditor's gradients are all
  zero, that they add up to zero. Reaches any delta with few trials.

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
from scipy.special import log_ndtr, ndtr

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
_CUTS = 24


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
        score: What is compared with the threshold, where the bound itself chose it.
    """

    epsilon: float
    expected: float
    threshold: float
    above: bool
    probability: float
    other: float
    score: str = ""


def _epsilon(probability: npt.ArrayLike, other: npt.ArrayLike, delta: float) -> Array:
    """log((P - delta) / Q), 0 where that says nothing."""
    spare = np.asarray(probability, dtype=np.float64) - delta
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.log(np.maximum(spare, 0.0) / np.asarray(other, dtype=np.float64))
    return np.asarray(np.maximum(np.nan_to_num(bound, nan=0.0, neginf=0.0), 0.0))


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
    """Return the bound of the best half-line of a score, by counting.

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


def _chances(sums: Array, event: "_Event", deviation: float) -> Array:
    """Exact probability of the event given each trial's sums.  (N, T) -> (N,)."""
    if event.kind == "total":
        scale = deviation * sums.shape[1] ** 0.5
        distance = (sums.sum(axis=1) - event.threshold) / scale
        return np.asarray(ndtr(distance if event.above else -distance), dtype=np.float64)
    none = log_ndtr((event.threshold - sums) / deviation).sum(axis=1)  # log P[no step is above]
    return np.asarray(-np.expm1(none) if event.above else np.exp(none), dtype=np.float64)


@dataclass(frozen=True)
class _Event:
    """The total, or some step, is above a threshold; or the opposite."""

    kind: str
    threshold: float
    above: bool


def _events(pilot: Sides, deviation: float) -> list[_Event]:
    """Candidates: where sums can be, and some deviations beyond."""
    steps = pilot[0].shape[1]
    events = []
    for kind in ("total", "largest output")[: 1 + (steps > 1)]:
        columns = [side.sum(axis=1) if kind == "total" else side for side in pilot]
        scale = deviation * (steps**0.5 if kind == "total" else 1.0)
        low, high = min(map(np.min, columns)), max(map(np.max, columns))
        for threshold in np.linspace(low - 6 * scale, high + 8 * scale, _THRESHOLDS):
            events += [_Event(kind, float(threshold), above) for above in (True, False)]
    return events


def _distinct(sums: Array, deviation: float) -> tuple[Array, Array]:
    """Different trials and their shares; the order of a trial's steps does not matter.  (N, T) -> (U, T), (U,)."""
    ordered = np.sort((sums / deviation).round(9), axis=1)
    rows, counts = np.unique(ordered, axis=0, return_counts=True)
    return rows * deviation, counts / len(sums)


def _cut(chances: Array, shares: Array, sizes: tuple[int, int], miss: float) -> tuple[float, float]:
    """Where to cut chances before bounding their mean from below, and the bound to expect then.

    Expects little: the pilot trials' own error is taken off too, because an event whose bound falls below delta
    shows nothing at all. `sizes` are those of the pilot and of the judging trials.
    """
    units = np.unique(chances[chances > 0])
    if units.size == 0:
        return 0.0, 0.0
    units = units[np.unique(np.linspace(0, units.size - 1, _CUTS).round().astype(np.int64))]
    capped = np.minimum(chances[None, :], units[:, None])  # (cuts, U)
    mean = capped @ shares
    spread = np.maximum((capped**2) @ shares - mean**2, 0.0)
    pilot, trials = sizes
    cost = math.log(1 / miss) / trials
    expected = mean - np.sqrt(2 * spread * cost) - units * cost - 2 * np.sqrt(spread / pilot)
    best = int(np.argmax(expected))
    return float(units[best]), max(float(expected[best]), 0.0)


def _lower(values: Array, pilot: Array, *, miss: float) -> float:
    """Return a lower bound on a mean, far from 1 as well.

    Values above a cut that the pilot trials chose are lowered to it, which only lowers the mean; the rest is measured
    in units of the cut, so a bound on chances of a millionth is as good as one on a half.
    """
    shares = np.full(pilot.size, 1 / pilot.size)
    cut, _ = _cut(pilot, shares, (pilot.size, values.size), miss)
    if cut == 0.0:
        return 0.0
    return cut * mean_lower(np.minimum(values / cut, 1.0), np.minimum(pilot / cut, 1.0), miss=miss)


def gaussian_bound(
    pilot: Sides,
    trials: Sides,
    *,
    deviation: float,
    delta: float,
    miss: float,
    certain: tuple[bool, bool] = (False, False),
) -> Judged:
    """Return the bound of the best event about noisy sums, its probability exact given each trial's sums.

    Args:
        pilot: Sums before noise of the trials that choose the event, (N, T) each: P's, then Q's.
        trials: Sums of the trials that judge it.
        deviation: Standard deviation of the noise on each sum.
        delta: The delta of the claim.
        miss: Probability with which the bound may exceed the true epsilon.
        certain: Whether P's, or Q's, sums are the same in every trial by construction, so that one trial
            says all. Believed only if all trials agree.
    """
    sure = [
        known and np.ptp(np.concatenate([first.ravel(), second.ravel()])) == 0
        for known, first, second in zip(certain, pilot, trials, strict=True)
    ]
    rows_p, shares_p = _distinct(pilot[0], deviation)
    rows_q, shares_q = _distinct(pilot[1], deviation)
    sizes = pilot[0].shape[0], trials[0].shape[0]
    allowance = math.log(2 / miss) / sizes[1]  # what an upper bound on a mean costs at the least
    best: tuple[float, _Event | None] = (-1.0, None)
    for event in _events(pilot, deviation):
        p, q = _chances(rows_p, event, deviation), _chances(rows_q, event, deviation)
        low = float(p @ shares_p) if sure[0] else _cut(p, shares_p, sizes, miss / 2)[1]
        high = float(q @ shares_q) + (0.0 if sure[1] else allowance)
        value = float(_epsilon(low, high, delta))
        if value > best[0]:
            best = (value, event)
    expected, chosen = best
    assert chosen is not None  # an epsilon is 0 at least
    return _judged(chosen, expected, pilot, trials, sure, deviation, delta, miss)


def _judged(
    event: _Event,
    expected: float,
    pilot: Sides,
    trials: Sides,
    sure: list[bool],
    deviation: float,
    delta: float,
    miss: float,
) -> Judged:
    """Return the chosen event on the judging trials."""
    given_p, given_q = (_chances(side, event, deviation) for side in trials)
    pilot_p, pilot_q = (_chances(side, event, deviation) for side in pilot)
    probability = float(given_p[0]) if sure[0] else _lower(given_p, pilot_p, miss=miss / 2)
    other = float(given_q[0]) if sure[1] else mean_upper(given_q, pilot_q, miss=miss / 2)
    return Judged(
        epsilon=float(_epsilon(probability, other, delta)),
        expected=expected,
        threshold=event.threshold,
        above=event.above,
        probability=probability,
        other=other,
        score=event.kind,
    )
