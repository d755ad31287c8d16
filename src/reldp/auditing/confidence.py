"""Confidence bounds on probabilities and means: exact for counts, by betting for bounded values.

Guarantees: every bound misses with probability at most `miss`, for any distribution and any number of trials; none
leans on a normal approximation. `mean_upper` is Markov's inequality for the wealth of a gambler who stakes
a fixed share on every trial (Waudby-Smith and Ramdas, arXiv:2010.09686); the share comes from trials that the bound
does not use, so nothing is tuned on what is counted.

Public to `reldp.auditing`: `proportion_lower`, `proportion_upper`, `mean_lower`, `mean_upper`.

>>> round(float(proportion_upper(0, 100, miss=0.05)), 4)  # 1 - 0.05^(1/100)
0.0295
>>> mean_lower(np.full(1000, 0.3), np.full(100, 0.3), miss=0.05) > 0.29
True
"""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from reldp._validate import check_number
from reldp.errors import InputError

__all__ = ["mean_lower", "mean_upper", "proportion_lower", "proportion_upper"]

Array = npt.NDArray[np.float64]

_HALVINGS = 60
_LARGEST_STAKE = 0.95  # of the wealth; at 1 a single trial could ruin the gambler


def _check_miss(miss: float) -> None:
    check_number("miss", miss, above=0, below=1, error=InputError)


def proportion_upper(hits: npt.ArrayLike, trials: int, *, miss: float) -> Array:
    """Clopper-Pearson upper bounds on the probabilities that gave these hits."""
    _check_miss(miss)
    count = np.asarray(hits, dtype=np.float64)
    inside = np.minimum(count, trials - 1)
    bound = betaincinv(inside + 1, trials - inside, 1 - miss)
    return np.asarray(np.where(count >= trials, 1.0, bound), dtype=np.float64)


def proportion_lower(hits: npt.ArrayLike, trials: int, *, miss: float) -> Array:
    """Clopper-Pearson lower bounds on the probabilities that gave these hits."""
    return 1.0 - proportion_upper(trials - np.asarray(hits), trials, miss=miss)


def mean_upper(values: Array, pilot: Array, *, miss: float) -> float:
    """Return an upper bound on the mean of independent values in [0, 1].

    Args:
        values: The trials that count.  (N,)
        pilot: Other trials of the same kind, from which the stake is chosen.  (M,)
        miss: Probability with which the bound may be below the mean.
    """
    _check_miss(miss)
    if values.size == 0 or float(values.min()) < 0 or float(values.max()) > 1:
        raise InputError(f"`values` must be numbers in [0, 1], got {values.size} others.")
    needed = math.log(1 / miss)
    spread = max(float(pilot.var()), 1e-12) if pilot.size else 0.25
    stake = min(math.sqrt(2 * needed / (values.size * spread)), _LARGEST_STAKE)
    # If the mean is at least `guess`, the wealth prod(1 - stake (x - guess)) does not grow on average;
    # a wealth of 1/miss has then probability at most `miss`. Wealth grows with the guess.
    low, high = float(values.mean()), 1.0
    if np.log1p(-stake * (values - high)).sum() < needed:
        return 1.0
    for _ in range(_HALVINGS):
        guess = 0.5 * (low + high)
        if np.log1p(-stake * (values - guess)).sum() >= needed:
            high = guess
        else:
            low = guess
    return high


def mean_lower(values: Array, pilot: Array, *, miss: float) -> float:
    """Return a lower bound on the mean of independent values in [0, 1]; see `mean_upper`."""
    return 1.0 - mean_upper(1.0 - values, 1.0 - pilot, miss=miss)
