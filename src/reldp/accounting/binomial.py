"""Binomial distributions on a window, with everything outside bounded from above.

Probabilities come from the ratio of neighbors, starting at the mode, so they are accurate to about 1e-11
relative for any size up to 1e12, where gamma functions lose all digits. The mass outside the window is bounded
by Chernoff's inequality, P[Bin(m, g) >= am] <= exp(-m KL(a || g)), and never dropped.

>>> window = binomial_window(10, 0.5, log_tail=-100.0)
>>> window.low, window.high, round(float(window.probabilities[5]), 6)
(0, 10, 0.246094)
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BinomialWindow", "binomial_window", "log_upper_tail"]

Array = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class BinomialWindow:
    """Probabilities of low..high; at most exp(log_tail) lies on either side outside."""

    low: int
    high: int
    probabilities: Array
    log_tail: float

    @property
    def values(self) -> Array:
        """low, low + 1, ..., high as floats."""
        return np.arange(self.low, self.high + 1, dtype=np.float64)


def _relative_entropy(a: float, g: float) -> float:
    """KL(Bernoulli(a) || Bernoulli(g)) in nats."""
    if g >= 1.0:
        return 0.0 if a >= 1.0 else math.inf
    first = a * math.log(a / g) if a > 0 else 0.0
    second = (1 - a) * (math.log1p(-a) - math.log1p(-g)) if a < 1 else 0.0
    return max(first + second, 0.0)


def log_upper_tail(size: int, rate: float, above: float) -> float:
    """Return an upper bound on log P[Bin(size, rate) > above]."""
    smallest = math.floor(above) + 1
    if smallest > size:
        return -math.inf
    if smallest <= size * rate or smallest <= 0:
        return 0.0
    return -size * _relative_entropy(smallest / size, rate)


def _edge(size: int, rate: float, log_tail: float, *, upper: bool) -> int:
    """Return the outermost value inside the window: beyond it Chernoff gives less than exp(log_tail)."""
    mean = size * rate
    inner, outer = (math.ceil(mean), size) if upper else (math.floor(mean), 0)
    if -size * _relative_entropy(outer / size, rate) >= log_tail:
        return outer
    while abs(outer - inner) > 1:
        middle = (inner + outer) // 2
        if -size * _relative_entropy(middle / size, rate) >= log_tail:
            inner = middle
        else:
            outer = middle
    return inner


def binomial_window(size: int, rate: float, log_tail: float) -> BinomialWindow:
    """Bin(size, rate) on the smallest window that Chernoff allows for exp(log_tail) on each side."""
    if rate >= 1.0:
        return BinomialWindow(size, size, np.ones(1), -math.inf)
    low = _edge(size, rate, log_tail, upper=False)
    high = _edge(size, rate, log_tail, upper=True)
    mode = min(max(math.floor((size + 1) * rate), low), high)
    odds = math.log(rate) - math.log1p(-rate)
    up = np.arange(mode, high, dtype=np.float64)  # log p(l + 1) - log p(l)
    down = np.arange(mode, low, -1, dtype=np.float64)  # log p(l - 1) - log p(l)
    log_up = np.cumsum(np.log((size - up) / (up + 1)) + odds)
    log_down = np.cumsum(np.log(down / (size - down + 1)) - odds)
    logs = np.concatenate([log_down[::-1], [0.0], log_up])
    weights = np.exp(logs)
    tail = -math.inf if (low == 0 and high == size) else log_tail
    return BinomialWindow(low, high, weights / weights.sum(), tail)
