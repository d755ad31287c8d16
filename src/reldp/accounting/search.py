"""The privacy cost of a hyperparameter search that releases only its best run (theory.md 3.5).

The number of runs is drawn secretly from a truncated negative binomial distribution TNB(eta, gamma): eta = 0 is the
logarithmic distribution, eta = 1 the geometric one. If one run has Renyi divergences epsilon(order), the released
run has

    epsilon(order) + (1 + eta) min over other orders o of [(1 - 1/o) epsilon(o) + log(1/gamma) / o]
                   + log(mean) / (order - 1)

at every order (Papernot and Steinke, ICLR 2022, Theorem 2). Orders come from a grid: every choice gives an upper bound.

Batches that cannot be drawn are left out of the divergences. A thousandth of delta is set aside for them, and plans
that need more are refused.

Public inside the package: `SearchSize`, `search_cost`.

>>> size = SearchSize(mean=10.0)
>>> round(size.gamma, 3)
0.027
"""

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from reldp._validate import check_choice, check_integer, check_number
from reldp.accounting.cost import PrivacyCost, check_request
from reldp.accounting.events import Composition
from reldp.accounting.overflow import log_overflow
from reldp.accounting.rdp import renyi_epsilon, to_epsilon
from reldp.errors import PlanError

__all__ = ["DISTRIBUTIONS", "SearchSize", "search_cost"]

DISTRIBUTIONS = {"logarithmic": 0, "geometric": 1}
"""Distributions of the number of runs, with eta of each."""

ORDERS = tuple(1 + float(x) for x in np.geomspace(1e-2, 1e3, 60))
LARGEST_MEAN = 1e4
SET_ASIDE = 1e-3  # share of delta for batches that cannot be drawn


@dataclass(frozen=True, kw_only=True)
class SearchSize:
    """The number of runs of a search: drawn secretly from a distribution, or fixed and known.

    Attributes:
        mean: Expected number of runs, above 1; None for a fixed number.
        distribution: ``"logarithmic"`` or ``"geometric"``.
        runs: The fixed number; None for one that is drawn.
    """

    mean: float | None = None
    distribution: str = "logarithmic"
    runs: int | None = None

    def __post_init__(self) -> None:
        if (self.mean is None) == (self.runs is None):
            raise PlanError(
                "`mean` or `runs` must be given, and not both. Use mean for a secret number of runs."
            )
        if self.runs is not None:
            check_integer("runs", self.runs, low=1, high=int(LARGEST_MEAN), error=PlanError)
            return
        check_number("mean", self.mean, above=1, high=LARGEST_MEAN, error=PlanError)
        check_choice("distribution", self.distribution, DISTRIBUTIONS, error=PlanError)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        if self.runs is not None:
            return {"runs": self.runs}
        return {"mean": self._mean, "distribution": self.distribution}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "SearchSize":
        """Return what `to_dict` wrote.

        Raises:
            PlanError: The values are others.
        """
        if set(values) not in ({"runs"}, {"mean", "distribution"}):
            raise PlanError("`size` must be runs, or mean and distribution, got something else.")
        return cls(**values)

    @property
    def _mean(self) -> float:
        assert self.mean is not None
        return float(self.mean)

    @property
    def eta(self) -> int:
        """The shape of the distribution."""
        return DISTRIBUTIONS[self.distribution]

    @property
    def log_mean(self) -> float:
        """Logarithm of the expected number of runs, with room for the rounding of `gamma`."""
        return math.log(self._mean) + 1e-12

    @cached_property
    def gamma(self) -> float:
        """The distribution's other parameter, rounded down, which raises the cost."""
        if self.eta == 1:
            return 1.0 / self._mean
        low, high = 1e-12, 1.0 - 1e-9  # the mean falls with gamma
        for _ in range(200):
            middle = math.sqrt(low * high)
            if _logarithmic_mean(middle) > self._mean:
                low = middle
            else:
                high = middle
        return low

    def probability(self, count: int) -> float:
        """Return the probability of a number of runs, 1 or more."""
        if self.eta == 1:
            return self.gamma * (1 - self.gamma) ** (count - 1)
        return float((1 - self.gamma) ** count / (count * math.log(1 / self.gamma)))

    def draw(self) -> int:
        """Draw the number of runs by the operating system's randomness. Sensitive: never release it."""
        if self.runs is not None:
            return self.runs
        rest, count = secrets.randbelow(2**53) / 2**53, 1
        while rest >= (chance := self.probability(count)) and count < 10**7:
            rest, count = rest - chance, count + 1
        return count

    def quantile(self, share: float) -> int:
        """Return a number of runs that a search exceeds with probability 1 - share at most."""
        if self.runs is not None:
            return self.runs
        total, count = self.probability(1), 1
        while total < share and count < 10**7:
            count += 1
            total += self.probability(count)
        return count


def search_cost(
    composition: Composition, size: SearchSize, delta: float, analysis: str = "best"
) -> PrivacyCost:
    """Return the privacy cost of releasing the best of a secret number of runs.

    Args:
        composition: The steps of one run; all runs of the search have this cost or less.
        size: The distribution of the number of runs.
        delta: The delta of the guarantee.
        analysis: ``"best"``, ``"anchored"`` or ``"replacement"``.

    Raises:
        PlanError: Batches that cannot be drawn are too likely.
    """
    check_request(composition, delta)
    analyses = composition.analyses(analysis)
    if any(event.noise_multiplier == 0 for event, _ in composition.running):
        return PrivacyCost(math.inf, delta, "rdp", analyses[0])
    totals = np.min([_totals(composition, name) for name in analyses], axis=0)
    epsilon = _best(totals.tolist(), size, delta * (1 - SET_ASIDE))
    logs = [math.log(count) + log_overflow(event) for event, count in composition.running]
    charge = max(logs, default=-math.inf) + math.log(max(len(logs), 1)) + size.log_mean
    # On either side a run differs from the analyzed one with this probability; 4 leaves room for both.
    if charge + math.log(4.0) + epsilon > math.log(SET_ASIDE * delta):
        raise PlanError(
            "`num_negatives` times the batch size must stay far below the pool of negatives in a search, got "
            "batches that could not be drawn too often. Use fewer negatives or a smaller batch."
        )
    return PrivacyCost(epsilon, delta, "rdp", analyses[0])


def _totals(composition: Composition, analysis: str) -> list[float]:
    """Return the Renyi divergence of all steps at each order."""
    totals = np.zeros(len(ORDERS))
    for event, count in composition.running:
        totals += count * renyi_epsilon(event, analysis, ORDERS)
    return [float(total) for total in totals]


def _best(totals: Sequence[float], size: SearchSize, delta: float) -> float:
    """Return the smallest epsilon over both orders."""
    selection = (1 + size.eta) * min(
        (1 - 1 / order) * total + math.log(1 / size.gamma) / order
        for order, total in zip(ORDERS, totals, strict=True)
    )

    released = [
        t + selection + size.log_mean / (o - 1) for o, t in zip(ORDERS, totals, strict=True)
    ]
    return max(0.0, min(map(to_epsilon, ORDERS, released, [delta] * len(ORDERS))))


def _logarithmic_mean(gamma: float) -> float:
    return (1 / gamma - 1) / math.log(1 / gamma)
