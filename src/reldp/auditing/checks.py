"""Direct checks of what the proof assumes, on what the training step released at the plan's own settings.

A bound on epsilon needs many trials to show that noise is a little too small or batches a little too large; looking
at the noise and at the batches shows it at once. On the graph without the entity, with gradients that are all zero, a
released value is noise and nothing else. Each check is a test whose chance of a false alarm is known exactly, or
bounded (`miss`); nothing leans on a normal approximation but the noise itself, which is claimed to be normal.

Public to `reldp.auditing`: `Check`, `batch_checks`, `clip_check`, `noise_checks`, `repetition_checks`.

>>> quiet = np.random.default_rng(0).normal(size=(1000, 8)) / 2**0.5
>>> found = noise_checks(quiet, np.zeros(1000), expected=1.0, deviation=1.0, miss=0.001)
>>> [check.name for check in found if check.refuted]
['noise deviation', 'noise deviation, empty batches', 'noise distribution']
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "Check",
    "batch_checks",
    "clip_check",
    "noise_checks",
    "repetition_checks",
]

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_LEAST = 20  # steps that a group must have to be looked at
_LEVELS = (0.1, 0.5, 0.9)


@dataclass(frozen=True, kw_only=True)
class Check:
    """One property of the step that the proof needs.

    Attributes:
        name: What is checked.
        expected: What the plan says.
        seen: What the steps show.
        p_value: Chance of seeing this or worse if the plan is right.
        miss: Below this p-value the check fails.
    """

    name: str
    expected: str
    seen: str
    p_value: float
    miss: float

    @property
    def refuted(self) -> bool:
        """Whether the plan's statement is false, with confidence 1 - miss."""
        return self.p_value < self.miss

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = {"name": self.name, "expected": self.expected, "seen": self.seen}
        return {**values, "p_value": self.p_value, "refuted": self.refuted}


def noise_checks(
    values: Array, sizes: npt.ArrayLike, *, expected: float, deviation: float, miss: float
) -> list[Check]:
    """Whether released values of steps without gradients are Gaussian noise, and enough of it.

    Args:
        values: In clip norms, (steps, weights).
        sizes: Batch sizes of the steps, (steps,).
        expected: The expected batch size: noise must not depend on the batch.
        deviation: The noise multiplier.
        miss: Chance of a false alarm of all checks together.
    """
    from scipy.special import chdtr
    from scipy.stats import kstest

    size = np.asarray(sizes)
    groups = {
        "noise deviation": np.ones(len(size), dtype=np.bool_),
        "noise deviation, large batches": size > expected,
        "noise deviation, small batches": (size <= expected) & (size > 0),
        "noise deviation, empty batches": size == 0,
    }
    part = miss / (len(groups) + 2)
    checks = []
    for name, chosen in groups.items():
        group = values[chosen] / deviation
        if len(group) < _LEAST and name != "noise deviation":
            continue
        # The sum of squares is chi-squared: exact, and only too little noise breaks the promise.
        p_value = float(chdtr(group.size, float((group**2).sum())))
        seen = deviation * float(np.sqrt((group**2).mean()))
        checks.append(_check(name, f"{deviation:.4g}", f"{seen:.4g}", p_value, part))
    shape = kstest(values.ravel() / deviation, "norm")
    checks.append(
        _check(
            "noise distribution", "Gaussian", f"distance {shape.statistic:.3g}", shape.pvalue, part
        )
    )
    checks.append(_coordinates(values / deviation, part))
    return checks


def _coordinates(unit: Array, miss: float) -> Check:
    """Whether weights get noise of their own: products of different weights must average to zero."""
    steps, weights = unit.shape
    first, second = np.triu_indices(weights, 1)
    correlation = np.abs((unit.T @ unit / steps)[first, second])
    worst = float(correlation.max(initial=0.0))
    p_value = min(1.0, first.size * _tail(worst, steps))
    return _check(
        "noise of different weights", "independent", f"correlation {worst:.2g}", p_value, miss
    )


def _tail(correlation: float, count: int) -> float:
    """Bound on P[|mean of `count` products of independent standard Gaussians| >= correlation].

    Chernoff: log E exp(t x y) = -log(1 - t^2) / 2.
    """
    if correlation <= 0:
        return 1.0
    # The best t solves t / (1 - t^2) = c.
    t = (np.sqrt(1 + 4 * correlation**2) - 1) / (2 * correlation)
    return float(min(1.0, 2 * np.exp(-count * (t * correlation + 0.5 * np.log1p(-(t**2))))))


def repetition_checks(values: dict[int, Array], *, deviation: float, miss: float) -> list[Check]:
    """Whether the noise of every step and branch is its own.

    Args:
        values: Released values of consecutive steps with empty batches, in clip norms, by branch.
        deviation: The noise multiplier.
        miss: Chance of a false alarm of all checks together.
    """
    stacked = np.concatenate(list(values.values()))
    rounded = np.ascontiguousarray(stacked.astype(np.float32))
    _, counts = np.unique(rounded.view([("", np.float32)] * rounded.shape[1]), return_counts=True)
    repeated = int((counts - 1).sum())
    text = f"{repeated:,} of {len(stacked):,} repeated"
    checks = [
        _check(
            "noise of steps and branches",
            "never the same",
            text,
            float(repeated == 0),
            miss / 2,
        )
    ]
    first = next(iter(values.values())) / deviation
    checks.append(_lags(first, miss / 2))
    return checks


def _lags(unit: Array, miss: float) -> Check:
    """Whether noise of a step tells nothing about that of a later one, for every lag up to half of the steps."""
    from scipy.fft import irfft, next_fast_len, rfft

    steps, weights = unit.shape
    lags = np.arange(1, max(2, steps // 2))
    size = next_fast_len(2 * steps)
    products = irfft((np.abs(rfft(unit, size, axis=0)) ** 2).sum(axis=1), size)[lags]
    counts = weights * (steps - lags)
    correlation = np.abs(products) / counts
    tails = _chain_tails(correlation, lags, steps, weights)
    p_value = min(1.0, float(lags.size * tails.min()))
    place = int(np.argmin(tails))
    text = f"correlation {correlation[place]:.2g} at lag {int(lags[place])}"
    return _check("noise of steps at every lag", "independent", text, p_value, miss)


def _chain_tails(correlation: Array, lags: IntArray, steps: int, weights: int) -> Array:
    """Bounds on P[|mean of products of each value with the one a lag later| >= correlation], one for each lag.

    The products of one lag form chains x_1 x_2, x_2 x_3, ... of n values each. For |t| < 1/2 the expectation of
    exp(t times their sum) is det^(-1/2), det being that of a path, (r^(n+1) - q^(n+1)) / (r - q) with
    r, q = (1 +- sqrt(1 - 4 t^2)) / 2. Then Chernoff, on both sides.
    """
    t = np.clip(correlation, 1e-9, 0.45)
    root = np.sqrt(1 - 4 * t**2)
    large, ratio = (1 + root) / 2, (1 - root) / (1 + root)

    def log_det(values: IntArray) -> Array:
        rest = np.log1p(-(ratio ** (values + 1))) - np.log1p(-ratio)
        return np.asarray(values * np.log(large) + rest)

    short, num_long = steps // lags, steps % lags
    log_mean = -0.5 * weights * (num_long * log_det(short + 1) + (lags - num_long) * log_det(short))
    exponent = log_mean - weights * (steps - lags) * t * correlation
    return np.asarray(np.minimum(1.0, 2 * np.exp(np.minimum(exponent, 0.0))))


def batch_checks(
    sizes: IntArray, *, num_relations: int, sample_rate: float, miss: float
) -> list[Check]:
    """Whether batch sizes are binomial with the plan's rate, in their mean and in their spread.

    Args:
        sizes: Realized batch sizes, (steps,).
        num_relations: Relations of the graph that they were drawn from.
        sample_rate: The plan's rate.
        miss: Chance of a false alarm of all checks together.
    """
    from scipy.stats import binom, binomtest

    part = miss / (1 + len(_LEVELS))
    steps, total = len(sizes), int(sizes.sum())
    trials = steps * num_relations
    low, high = binom.cdf(total, trials, sample_rate), binom.sf(total - 1, trials, sample_rate)
    mean = f"{num_relations * sample_rate:.5g} relations"
    checks = [
        _check("mean batch size", mean, f"{total / steps:.5g}", min(1.0, 2 * min(low, high)), part)
    ]
    for level in _LEVELS:
        limit = int(binom.ppf(level, num_relations, sample_rate))
        chance = float(binom.cdf(limit, num_relations, sample_rate))
        hits = int((sizes <= limit).sum())
        p_value = 1.0 if chance >= 1 else float(binomtest(hits, steps, chance).pvalue)
        name = f"share of batches of at most {limit}"
        checks.append(_check(name, f"{chance:.4g}", f"{hits / steps:.4g}", p_value, part))
    return checks


def clip_check(along: Array, sizes: IntArray, *, deviation: float, miss: float) -> Check:
    """Whether a tuple contributes more than one clip norm, where all of them pull the same way.

    Args:
        along: Released values along the direction, in clip norms, every tuple pulling to the negative side, (steps,).
        sizes: Batch sizes, (steps,).
        deviation: The noise multiplier.
        miss: Chance of a false alarm.
    """
    from scipy.special import ndtr

    tuples = max(int(sizes.sum()), 1)
    excess = -float(along.sum()) - tuples  # at most the noise of all steps
    p_value = float(ndtr(-excess / (deviation * np.sqrt(len(sizes)))))
    seen = f"{-float(along.sum()) / tuples:.4g}"
    return _check("clip norms that one tuple adds", "at most 1", seen, p_value, miss)


def _check(name: str, expected: str, seen: str, p_value: float, miss: float) -> Check:
    return Check(name=name, expected=expected, seen=seen, p_value=float(p_value), miss=miss)
