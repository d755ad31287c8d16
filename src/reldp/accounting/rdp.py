"""The Renyi accountant (theory.md 3.3): the paper's bounds, and the anchored one.

Per step, eps(alpha) = log(E)/(alpha - 1) with E the larger of E_l E_Q[(M_l/Q)^alpha] and E_l E_Q[(M_l/Q)^(1-alpha)],
M_l the measure of `dominating`. Since E_l E_Q[M_l/Q] = 1, E - 1 is the mean of the non-negative
phi(u) = exp(beta u) - 1 - beta (exp(u) - 1), u = log(M_l/Q), beta = alpha or 1 - alpha: nothing cancels, and steps
that cost 1e-18 are as exact as steps that cost 1. The integral over the output is a trapezoidal sum, which converges
geometrically for analytic integrands; it is halved until two sums agree, and their difference and both cut tails are
added.

>>> from reldp.accounting.events import CoupledStep
>>> step = CoupledStep(num_relations=100, pool_size=100, max_degree=1, num_negatives=0, sample_rate=1.0,
...                    noise_multiplier=2.0)
>>> round(float(renyi_epsilon(step, "replacement", [3.0])[0]), 9)  # plain Gaussian: alpha / (2 sigma^2)
0.375
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, logsumexp

from reldp.accounting.discretisation import loss_at
from reldp.accounting.dominating import DominatingPair, dominating_pair
from reldp.accounting.events import Composition, CoupledStep
from reldp.accounting.overflow import epsilon_with_overflow
from reldp.accounting.price import Price, check_delta

__all__ = ["RenyiAccountant", "renyi_epsilon", "to_epsilon"]

Array = npt.NDArray[np.floating[Any]]

REACH = 12.0  # standard deviations of noise kept on either side of every peak
MAX_POINTS = 60_000
AGREED = 1e-7
LOG_TAIL = -100.0
LOG_CUT = -90.0


def to_epsilon(order: float, divergence: float, delta: float) -> float:
    """Epsilon at delta of a mechanism with that total Renyi divergence at that order (theory.md 3.3)."""
    return divergence + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


@dataclass(frozen=True)
class _Grid:
    """Outputs x/s, log losses there and log densities of Q times the spacing, for one dominating pair."""

    pair: DominatingPair
    high: float
    spacing: float

    @cached_property
    def tables(self) -> tuple[Array, Array]:
        """Losses (R, E) and log quadrature weights (E,)."""
        low = -REACH - 2.0
        x = low + self.spacing * np.arange(math.ceil((self.high - low) / self.spacing) + 1)
        width = max(1, 4_000_000 // max(1, self.pair.log_weights.size))
        losses = np.concatenate(
            [loss_at(self.pair, x[i : i + width]) for i in range(0, len(x), width)], axis=1
        )
        log_weights = -0.5 * x**2 - 0.5 * math.log(2 * math.pi) + math.log(self.spacing)
        return losses, log_weights

    def log_mean(self, power: float) -> float:
        """log of the node average of the quadrature of phi(loss), phi as in the module's text."""
        losses, log_weights = self.tables
        with np.errstate(over="ignore", invalid="ignore"):
            large = np.abs(power * losses) > 30.0
            phi = np.expm1(np.where(large, 0.0, power * losses)) - power * np.expm1(
                np.minimum(losses, 60.0)
            )
            logs = np.log(np.maximum(np.where(large, 1.0, phi), 0.0) + 1e-320)
        # Far out the power alone counts; leaving out -1 - beta (e^u - 1) there errs upwards for beta > 0,
        # and for beta < 0 that part is positive and kept.
        if power > 0:
            logs = np.where(large, power * losses, logs)
        else:
            rest = np.log(np.maximum(-1.0 - power * np.expm1(np.minimum(losses, 700.0)), 1e-320))
            logs = np.where(large, np.logaddexp(power * losses, rest), logs)
        per_node = logsumexp(logs + log_weights, axis=1)
        return float(logsumexp(per_node, b=self.pair.node_weights))


class StepDivergence:
    """Renyi divergences of one step under one analysis, for any order above 1."""

    def __init__(self, event: CoupledStep, analysis: str) -> None:
        self._pair = dominating_pair(event, analysis, LOG_TAIL, node_spacing=1.0)
        self._grids: dict[tuple[float, float], _Grid] = {}

    def _minkowski(self, order: float, high: float) -> float:
        """log of an upper bound on what the removal integral holds above x/s = high, far tail included.

        Minkowski's inequality in L^order of Q restricted to x/s > high: the norm of sum_c p_c r_c is at most
        the sum of p_c times the norm of r_c, r_c the density ratio of N(v_c, s^2) to Q.
        """
        pair = self._pair
        shifts = np.concatenate([pair.shifts, pair.tail_shifts])
        tail = np.broadcast_to(
            pair.tail_log_weights, (len(pair.node_weights), len(pair.tail_log_weights))
        )
        logs = np.concatenate([pair.log_weights, tail], axis=1)
        norms = (order - 1) * shifts**2 / (2 * pair.sigma**2)
        norms = norms + log_ndtr(order * shifts / pair.sigma - high) / order
        per_node = order * logsumexp(logs + norms, axis=1)
        return float(logsumexp(per_node, b=pair.node_weights))

    def _highest(self, order: float) -> float:
        """The smallest multiple of 8 above which the removal integral is negligible."""
        top = order * float(self._pair.shifts[-1]) / self._pair.sigma + REACH
        high = 16.0
        while high < top and self._minkowski(order, high) > LOG_CUT:
            high += 8.0
        return high

    def log_moment(self, order: float) -> float:
        """log of the larger direction's E, an upper bound."""
        return max(self._removal(order), self._insertion(order))

    def _removal(self, order: float) -> float:
        bound = self._minkowski(order, -np.inf)
        high = self._highest(order)
        spacing = self._spacing(high)
        if spacing is None:
            return bound
        log_excess = self._integrate(order, high, spacing)
        log_excess = float(np.logaddexp(log_excess, self._minkowski(order, high)))
        if len(self._pair.tail_shifts):
            log_excess = float(np.logaddexp(log_excess, self._tail(order, log_excess)))
        return min(bound, float(np.logaddexp(0.0, log_excess)))

    def _tail(self, order: float, log_excess: float) -> float:
        """log of a bound on E[(a + b)^order - a^order], b the far tail of i and E[a^order] - 1 given.

        With norms A and B in L^order it is at most (A + B)^order - A^order <= order B (A + B)^(order - 1).
        """
        pair = self._pair
        norms = pair.tail_log_weights + (order - 1) * pair.tail_shifts**2 / (2 * pair.sigma**2)
        log_b = float(logsumexp(norms))
        log_a = float(np.logaddexp(0.0, log_excess)) / order
        return math.log(order) + log_b + (order - 1) * float(np.logaddexp(log_a, log_b))

    def _insertion(self, order: float) -> float:
        spacing = self._spacing(16.0)
        cut = self._insertion_below(order, -REACH - 2.0)
        if spacing is None:
            return self._insertion_below(order, np.inf)
        log_excess = self._integrate(1.0 - order, 16.0, spacing)
        # Above the grid phi(u) <= exp((1 - order) u) + (order - 1) exp(u), the first falling in x.
        rest = math.log(order) + self._minkowski(1.0, 16.0)
        edge = (1.0 - order) * loss_at(self._pair, np.array([16.0]))[:, 0] + log_ndtr(-16.0)
        rest = np.logaddexp(rest, logsumexp(edge, b=self._pair.node_weights))
        return float(logsumexp([0.0, log_excess, cut, rest]))

    def _insertion_below(self, order: float, high: float) -> float:
        """log of an upper bound on what the insertion integral holds below x/s = high.

        The mixture is at least any one of its components, so its power 1 - order is at most that of the component
        that gives the smallest bound.
        """
        pair = self._pair
        each = (1 - order) * pair.log_weights
        each = each + order * (order - 1) * pair.shifts**2 / (2 * pair.sigma**2)
        each = each + log_ndtr(high + (order - 1) * pair.shifts / pair.sigma)
        return float(logsumexp(each.min(axis=1), b=pair.node_weights))

    def _spacing(self, high: float) -> float | None:
        """A first spacing in units of s, or None where the grid would be too large."""
        gap = float(np.diff(self._pair.shifts).max(initial=1.0))
        spacing = min(0.25, 0.3 * self._pair.sigma / gap)
        points = (high + REACH + 2.0) / spacing * len(self._pair.node_weights)
        return spacing if points * len(self._pair.shifts) <= 40 * MAX_POINTS * 16 else None

    def _grid(self, high: float, spacing: float) -> _Grid:
        return self._grids.setdefault((high, spacing), _Grid(self._pair, high, spacing))

    def _integrate(self, power: float, high: float, spacing: float) -> float:
        """log of the quadrature, its own error estimate added."""
        value = self._grid(high, spacing).log_mean(power)
        for _ in range(4):
            finer = self._grid(high, spacing / 2).log_mean(power)
            difference = abs(math.expm1(min(value - finer, 50.0)))
            value, spacing = finer, spacing / 2
            if difference < AGREED:
                break
        return value + math.log1p(difference)


def renyi_epsilon(event: CoupledStep, analysis: str, orders: Sequence[float]) -> Array:
    """Per-step Renyi epsilon of one analysis at the given orders, all above 1."""
    if event.noise_multiplier == 0:
        return np.full(len(orders), np.inf)
    step = StepDivergence(event, analysis)
    return np.array([step.log_moment(order) / (order - 1) for order in orders])


@dataclass(frozen=True, kw_only=True)
class RenyiAccountant:
    """Prices compositions by Renyi divergences; the order is searched, not taken from a list.

    Attributes:
        analysis: ``"best"``, ``"anchored"`` or ``"replacement"``.
    """

    analysis: str = "best"
    name: str = "rdp"

    def epsilon(self, composition: Composition, delta: float) -> Price:
        """The smaller epsilon of the analyses asked for, as a `Price`."""
        check_delta(delta)
        prices = [
            Price(self._one(composition, delta, analysis), delta, self.name, analysis)
            for analysis in composition.analyses(self.analysis)
        ]
        return min(prices, key=lambda price: price.epsilon)

    def _one(self, composition: Composition, delta: float, analysis: str) -> float:
        running = composition.running
        if not running:
            return 0.0
        if any(event.noise_multiplier == 0 for event, _ in running):
            return math.inf
        steps = [(StepDivergence(event, analysis), count) for event, count in running]
        cache: dict[float, float] = {}

        def total(order: float) -> float:
            if order not in cache:
                moments = sum(count * step.log_moment(order) for step, count in steps)
                cache[order] = moments / (order - 1)
            return cache[order]

        def price(target: float) -> float:
            return max(0.0, _search(lambda order: to_epsilon(order, total(order), target)))

        return epsilon_with_overflow(composition, delta, price)


def _search(epsilon: Callable[[float], float]) -> float:
    """The smallest epsilon over all orders above 1, by a coarse grid and golden section around its best."""
    grid = np.linspace(math.log(1e-4), math.log(1e4), 28)
    values = []
    for g in grid:
        values.append(epsilon(1 + math.exp(g)))
        # Past a clear minimum the divergence only grows.
        if (
            len(values) > 6
            and values[-1] > 4 * min(values) + 1
            and values[-2] > 2 * min(values) + 1
        ):
            break
    best = int(np.argmin(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = epsilon(1 + math.exp(left)), epsilon(1 + math.exp(right))
    for _ in range(12):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = epsilon(1 + math.exp(left))
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = epsilon(1 + math.exp(right))
    return min(*values, at_left, at_right)
