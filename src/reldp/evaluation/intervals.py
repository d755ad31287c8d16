"""Percentile bootstrap intervals of means over relations.

The unit that is resampled is the relation, with its two queries together. The interval says how
much the number would move with other relations of the same kind; the encoder and the candidates
are held fixed, so the spread between training seeds is not in it. More relations than
`MAX_BUNDLES` are put into that many random bundles first: the same width in bounded time.

Public: `Estimate`, `bootstrap`, `difference`.

>>> estimate = bootstrap(np.array([0.0, 1.0] * 200), resamples=200, confidence=0.95, seed=1)
>>> estimate.low < estimate.value == 0.5 < estimate.high
True
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reldp._validate import check_integer, check_number
from reldp.errors import InputError

__all__ = ["MAX_BUNDLES", "Estimate", "bootstrap", "difference"]

MAX_BUNDLES = 20_000
_BLOCK = 32

_Values = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean and its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def bootstrap(values: _Values, *, resamples: int, confidence: float, seed: int) -> Estimate:
    """Return the mean of values, one per relation, and its interval.

    Args:
        values: Shape (relations,).
        resamples: How many times the relations are drawn anew.
        confidence: Of the interval, such as 0.95.
        seed: Of the draws; the same seed draws the same relations for every metric.
    """
    check_number("confidence", confidence, above=0, below=1, error=InputError)
    check_integer("resamples", resamples, low=1, error=InputError)
    if not len(values):
        raise InputError("`values` must hold at least one relation, got none.")
    generator = np.random.default_rng(seed)
    sums, sizes = _bundles(values, generator)
    means = np.empty(resamples)
    for start in range(0, resamples, _BLOCK):
        count = min(_BLOCK, resamples - start)
        drawn = generator.integers(0, len(sums), size=(count, len(sums)))
        means[start : start + count] = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Estimate(value=float(values.mean()), low=float(low), high=float(high))


def difference(
    after: _Values, before: _Values, *, resamples: int, confidence: float, seed: int
) -> Estimate:
    """Return the mean gain and its interval, relation by relation (the two must be in the same order)."""
    if after.shape != before.shape:
        raise InputError(
            f"`before` must cover the same relations, got {len(before)} and {len(after)} after."
        )
    return bootstrap(after - before, resamples=resamples, confidence=confidence, seed=seed)


def _bundles(values: _Values, generator: np.random.Generator) -> tuple[_Values, _Values]:
    """Return sums and sizes of bundles of relations; a bundle is one relation if there are few."""
    if len(values) <= MAX_BUNDLES:
        return values, np.ones(len(values))
    bundle = generator.permutation(len(values)) % MAX_BUNDLES
    sums = np.bincount(bundle, weights=values, minlength=MAX_BUNDLES).astype(np.float64)
    return sums, np.bincount(bundle, minlength=MAX_BUNDLES).astype(np.float64)
