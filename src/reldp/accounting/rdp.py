"""The Renyi accountant (theory.md 3.3): the paper's bounds, and the anchored one.

Per step, eps(alpha) = log(E)/(alpha - 1) with E the larger of E_l E_Q[(M_l/Q)^alpha] and E_l E_Q[(M_l/Q)^(1-alpha)],
M_l the measure of `dominating`; `StepDivergence` of `renyi` bounds log E. The order is searched and never taken from a
list: with little noise the best one is often between 1.2 and 4. Epsilon follows by

    eps(delta) = min over alpha of  T eps(alpha) + log((alpha-1)/alpha) - (log delta + log alpha)/(alpha-1).

>>> from reldp.accounting.events import CoupledStep
>>> step = CoupledStep(num_relations=100, pool_size=100, max_degree=1, num_negatives=0, sample_rate=1.0,
...                    noise_multiplier=2.0)
>>> round(float(renyi_epsilon(step, "replacement", [3.0])[0]), 9)  # plain Gaussian: alpha / (2 sigma^2)
0.375
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reldp.accounting.cost import PrivacyCost
from reldp.accounting.events import Composition, CoupledStep
from reldp.accounting.overflow import composed_cost
from reldp.accounting.renyi import StepDivergence

__all__ = ["RenyiAccountant", "renyi_epsilon", "to_epsilon"]

Array = npt.NDArray[np.floating[Any]]


def to_epsilon(order: float, divergence: float, delta: float) -> float:
    """Epsilon at delta of a mechanism with that total Renyi divergence at that order (theory.md 3.3)."""
    return divergence + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


def renyi_epsilon(event: CoupledStep, analysis: str, orders: Sequence[float]) -> Array:
    """Per-step Renyi epsilon of one analysis at the given orders, all above 1."""
    if event.noise_multiplier == 0:
        return np.full(len(orders), np.inf)
    step = StepDivergence(event, analysis, num_orders=len(orders))
    return np.array([step.log_moment(order) / (order - 1) for order in orders])


@dataclass(frozen=True, kw_only=True)
class RenyiAccountant:
    """Accountant that uses Renyi divergences; the order is searched, not taken from a list.

    Attributes:
        analysis: ``"best"``, ``"anchored"`` or ``"replacement"``.
    """

    analysis: str = "best"
    name: str = "rdp"

    def epsilon(self, composition: Composition, delta: float) -> PrivacyCost:
        """Return the smaller epsilon of the analyses asked for, as a `PrivacyCost`."""
        totals: dict[str, Callable[[float], float]] = {}

        def cost(analyses: tuple[str, ...], target: float) -> PrivacyCost:
            for analysis in analyses:
                totals.setdefault(analysis, _total(composition, analysis))
            costs = [
                PrivacyCost(_least(total, target), target, self.name, analysis)
                for analysis, total in totals.items()
            ]
            return min(costs, key=lambda cost: cost.epsilon)

        return composed_cost(composition, delta, self.name, self.analysis, cost)


def _total(composition: Composition, analysis: str) -> Callable[[float], float]:
    """Total Renyi divergence of all steps as a function of the order, remembered."""
    steps = [(StepDivergence(event, analysis), count) for event, count in composition.running]
    known: dict[float, float] = {}

    def total(order: float) -> float:
        if order not in known:
            moments = sum(count * step.log_moment(order) for step, count in steps)
            known[order] = moments / (order - 1)
        return known[order]

    return total


def _least(total: Callable[[float], float], delta: float) -> float:
    """Return the smallest epsilon over all orders above 1: a coarse grid, then golden section around its best."""

    def epsilon(log_excess: float) -> float:
        order = 1 + math.exp(log_excess)
        return to_epsilon(order, total(order), delta)

    grid = np.linspace(math.log(1e-4), math.log(1e4), 28).tolist()
    values: list[float] = []
    for point in grid:
        values.append(epsilon(point))
        # Past a clear minimum the divergence only grows.
        if len(values) > 6 and min(values[-2:]) > 2 * min(values) + 1:
            break
    while values[0] == min(values) and grid[0] > math.log(
        1e-9
    ):  # losses so large that order 1 calls
        grid.insert(0, grid[0] - 1.0)
        values.insert(0, epsilon(grid[0]))
    best = int(np.argmin(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    return max(0.0, min(*values, _golden(epsilon, low, high)))


def _golden(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the smallest value that golden section finds between low and high."""
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(12):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = function(right)
    return min(at_left, at_right)
