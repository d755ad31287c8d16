"""Logarithms of sums of exponentials, for real numbers and weights of at least 0.

An accountant adds up thousands of short rows, and `scipy.special.logsumexp`, which serves every kind of array, spends
most of its time on finding out what it was given. This is the same arithmetic for the one kind that occurs here: the
largest terms are taken out of the sum, so that the rest goes through ``log1p`` and small terms are not lost.

Private to `reldp.accounting`: `log_sum_exp`.

>>> round(float(np.exp(log_sum_exp(np.log([1.0, 2.0, 5.0])))), 9)
8.0
>>> float(log_sum_exp(np.array([-np.inf, -np.inf])))
-inf
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["log_sum_exp"]

Array = npt.NDArray[np.floating[Any]]


def log_sum_exp(
    logs: Array | Sequence[float], *, axis: int | None = None, weights: Array | None = None
) -> Any:
    """Return log(sum(weights * exp(logs))) along an axis, or of everything if there is none given.

    Args:
        logs: Any real numbers; -inf adds nothing.
        axis: The axis that is summed.
        weights: Numbers of at least 0 that broadcast with ``logs``; a weight of 0 leaves out its term, also
            where that is infinite. All 1 if None.
    """
    terms = np.asarray(logs, dtype=np.float64)
    if weights is not None:
        terms, weights = np.broadcast_arrays(terms, weights)
        terms = np.where(weights == 0, -np.inf, terms)
    largest = terms.max(axis=axis, keepdims=True, initial=-np.inf)
    is_largest = terms == largest
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rest = np.exp(np.where(is_largest, -np.inf, terms) - largest)
        first = is_largest.astype(np.float64)
        if weights is not None:
            rest, first = weights * rest, weights * first
        count = first.sum(axis=axis, keepdims=True)
        share = rest.sum(axis=axis, keepdims=True)
        share = np.where(share == 0, share, share / count)
        result = np.log1p(share) + np.log(count) + largest
        if not np.isfinite(result).all():  # an infinite or undefined term, or no term at all
            plain = np.exp(terms) if weights is None else weights * np.exp(terms)
            total = np.log(plain.sum(axis=axis, keepdims=True))
            result = np.where(np.isfinite(result), result, total)
    return result.squeeze(axis=axis)[()]
