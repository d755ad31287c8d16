"""Renyi divergences of one step by quadrature, nothing canceling and every cut added.

E_l E_Q[M_l/Q] = 1, so E_l E_Q[(M_l/Q)^beta] - 1 is the mean of the non-negative

    phi(u) = exp(beta u) - 1 - beta (exp(u) - 1),   u = log(M_l/Q),   beta = alpha (removal) or 1 - alpha (insertion),

and steps that cost 1e-18 are as exact as steps that cost 1. The integral over the output x is a trapezoidal sum, which
converges geometrically for analytic integrands; it is halved until two sums agree. Added, never dropped: the difference
of the two sums, both ends of the grid, the tails of i (by Minkowski's inequality) and of l.

>>> from reldp.accounting.events import CoupledStep
>>> step = CoupledStep(num_relations=100, pool_size=100, max_degree=1, num_negatives=0, sample_rate=1e-9,
...                    noise_multiplier=1.0)
>>> round(StepDivergence(step, "anchored").log_moment(2.0) / 1e-18, 6)  # rate^2 (e - 1)
1.718282
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from reldp.accounting.binomial import log_upper_tail
from reldp.accounting.discretization import excess_at, loss_at
from reldp.accounting.dominating import DominatingPair, dominating_pair
from reldp.accounting.events import CoupledStep
from reldp.accounting.log_sum import log_sum_exp

__all__ = ["StepDivergence", "log_phi"]

Array = npt.NDArray[np.floating[Any]]

LOWEST = -14.0  # the grid's lower end in standard deviations of the noise
REACH = 12.0  # standard deviations of noise kept above the farthest peak
MAX_CELLS = 5e6  # points of the first grid times nodes times components
MAX_REFINED = 4 * MAX_CELLS  # the same of the finest grid
MAX_WORK = 8e7  # cells of all grids, and PER_POINT for each point that is looked at, of up to MANY_ORDERS orders
PER_POINT, MANY_ORDERS = 4, 60
AGREED = 1e-7  # relative difference of two sums at which halving stops
ROUNDING = 1e-11  # relative, of one sum in double precision
LOG_TAIL = -600.0  # cut so far out that high orders do not see it; the smallest double is exp(-744)
LOG_CUT = -90.0


def _series(excess: Array, power: float) -> Array:
    """phi = (1 + w)^power - 1 - power w by its power series, for small w and power times w."""
    total = np.ones_like(excess)
    for j in range(7, 1, -1):
        total = 1.0 + (power - j) / (j + 1) * excess * total
    return 0.5 * power * (power - 1.0) * excess**2 * total


def log_phi(losses: Array, excess: Array, power: float) -> Array:
    """log of phi(loss); excess is exp(loss) - 1, precise where it is small."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        small = (np.abs(excess) < 1e-2) & (np.abs(power * excess) < 1e-2)
        plain = np.expm1(power * losses) - power * np.expm1(losses)
        phi = np.where(small, _series(excess, power), np.maximum(plain, 0.0))
        logs = np.log(phi)
        far = np.maximum(power * losses, losses) > 500.0
        if power > 1:  # far above, where the power leads
            rest = (power - 1) * np.exp(-power * losses) - power * np.exp((1 - power) * losses)
            leading = power * losses + np.log1p(rest)
            return np.where(far, leading, logs)
        # Where both parts are positive and huge, -1 + power is left out, which errs upwards.
        leading = np.logaddexp(power * losses, math.log(-power) + losses)
        return np.where(far, leading, logs)


def _log_surplus(event: CoupledStep) -> float:
    """log of a bound on the mass by which keeping A^(+1) at the largest batch exceeds 1 (theory.md 2.4, w)."""
    if not event.num_negatives or event.claimed_constant:
        return -math.inf
    largest = (event.pool_size - 1) // event.num_negatives
    if largest >= event.num_relations:
        return -math.inf
    ratio = (largest + 1) * event.num_negatives / event.pool_size
    return math.log(ratio) + log_upper_tail(event.num_relations, event.sample_rate, largest)


@dataclass(frozen=True)
class _Grid:
    """Outputs x/s from LOWEST to high at a spacing, for one dominating pair."""

    pair: DominatingPair
    high: float
    spacing: float

    @cached_property
    def tables(self) -> tuple[Array, Array, Array]:
        """Losses and excesses (R, E), and log quadrature weights (E,)."""
        x = LOWEST + self.spacing * np.arange(math.ceil((self.high - LOWEST) / self.spacing) + 1)
        width = max(1, 4_000_000 // max(1, self.pair.log_weights.size))
        chunks = [x[i : i + width] for i in range(0, len(x), width)]
        losses = np.concatenate([loss_at(self.pair, chunk) for chunk in chunks], axis=1)
        excess = np.concatenate([excess_at(self.pair, chunk) for chunk in chunks], axis=1)
        log_weights = -0.5 * x**2 - 0.5 * math.log(2 * math.pi) + math.log(self.spacing)
        return losses, excess, log_weights

    def log_mean(self, power: float) -> float:
        """log of the node average of the quadrature of phi(loss)."""
        losses, excess, log_weights = self.tables
        per_node = log_sum_exp(log_phi(losses, excess, power) + log_weights, axis=1)
        return float(log_sum_exp(per_node, weights=self.pair.node_weights))


class StepDivergence:
    """Renyi divergences of one step under one analysis, for any order above 1.

    Quadrature stops after the work that `num_orders` orders may take; closed bounds, which are looser, are left.
    """

    def __init__(
        self,
        event: CoupledStep,
        analysis: str,
        node_spacing: float = 0.5,
        num_orders: int = MANY_ORDERS,
    ) -> None:
        self._pair = dominating_pair(event, analysis, LOG_TAIL, node_spacing)
        self._log_surplus = _log_surplus(event) if analysis == "anchored" else -math.inf
        self._grids: dict[tuple[float, float], _Grid] = {}
        self._work_left = MAX_WORK * max(1.0, num_orders / MANY_ORDERS)

    def log_moment(self, order: float) -> float:
        """log of an upper bound on the larger direction's E."""
        removal = self.removal(order)
        if self._insertion_below(order, np.inf) <= removal:
            return removal
        return max(removal, self.insertion(order))

    def removal(self, order: float) -> float:
        """log of an upper bound on E_l E_Q[(M_l/Q)^order]."""
        bound = self._minkowski(order, -np.inf)
        if bound - self._largest_component(order) <= AGREED * bound:
            return bound
        high = self._highest(order)
        spacing = self._spacing(high)
        if spacing is None:
            return bound
        integral = self._integrate(order, high, spacing)
        if math.isinf(integral):
            return bound
        # Below the grid phi is at most its value at the edge, or order - 1.
        edge = order * loss_at(self._pair, np.array([LOWEST]))[:, 0]
        below = log_sum_exp(np.maximum(edge, math.log(order)), weights=self._pair.node_weights)
        parts = [
            integral,
            self._minkowski(order, high),
            float(below) + float(log_ndtr(LOWEST)),
            self._unbalanced(order),
        ]
        log_excess = float(log_sum_exp(parts))
        if len(self._pair.tail_sensitivities):
            log_excess = float(np.logaddexp(log_excess, self._tail(order, log_excess)))
        return min(bound, float(np.logaddexp(0.0, log_excess)))

    def insertion(self, order: float) -> float:
        """log of an upper bound on E_l E_Q[(M_l/Q)^(1 - order)]."""
        high = -LOWEST
        bound = self._insertion_below(order, np.inf)
        spacing = self._spacing(high)
        if spacing is None:
            return bound
        # Above the grid phi(u) <= exp((1 - order) u) + (order - 1) exp(u), the first falling in x.
        edge = (1.0 - order) * loss_at(self._pair, np.array([high]))[:, 0] + log_ndtr(-high)
        parts = [
            0.0,
            self._integrate(1.0 - order, high, spacing),
            self._insertion_below(order, LOWEST),
            float(log_sum_exp(edge, weights=self._pair.node_weights)),
            math.log(order) + self._minkowski(1.0, high),
            self._unbalanced(order),
        ]
        return min(bound, float(log_sum_exp(parts)))

    def _unbalanced(self, order: float) -> float:
        """log of a bound on order times how far the mean of M_l/Q is from 1 because tails were cut."""
        nodes = LOG_TAIL + math.log(8.0 * (1.0 + float(np.abs(self._pair.excess).max())))
        parts = [nodes, self._log_surplus, *self._pair.tail_log_weights]
        return math.log(order) + float(log_sum_exp(parts))

    def _minkowski(self, order: float, high: float) -> float:
        """log of an upper bound on what the removal integral holds above x/s = high, tails of i included.

        Minkowski's inequality in L^order of Q restricted to x/s > high: the norm of sum_c p_c r_c is at most
        the sum of p_c times the norm of r_c, r_c the density ratio of N(v_c, s^2) to Q.
        """
        pair = self._pair
        sensitivities = np.concatenate([pair.sensitivities, pair.tail_sensitivities])
        tail = np.broadcast_to(
            pair.tail_log_weights, (len(pair.node_weights), len(pair.tail_log_weights))
        )
        logs = np.concatenate([pair.log_weights, tail], axis=1)
        norms = (order - 1) * sensitivities**2 / (2 * pair.sigma**2)
        norms = norms + log_ndtr(order * sensitivities / pair.sigma - high) / order
        per_node = order * log_sum_exp(logs + norms, axis=1)
        return float(log_sum_exp(per_node, weights=pair.node_weights))

    def _largest_component(self, order: float) -> float:
        """log of the removal integral of the largest component alone, a lower bound."""
        pair = self._pair
        each = order * pair.log_weights + order * (order - 1) * pair.sensitivities**2 / (
            2 * pair.sigma**2
        )
        return float(log_sum_exp(each, weights=pair.node_weights[:, None], axis=0).max())

    def _highest(self, order: float) -> float:
        """Return a multiple of 8 above which the removal integral is negligible, or that no grid reaches."""
        top = order * float(self._pair.sensitivities[-1]) / self._pair.sigma + REACH
        ladder = [16.0]
        while ladder[-1] < top and self._spacing(ladder[-1]) is not None:
            ladder.append(ladder[-1] + 8.0 * (1.0 + ladder[-1] // 128.0))
        # The integral above a rung falls with the rung: longer and longer steps up, then halves.
        below, rung, stride = -1, 0, 1
        while rung < len(ladder) - 1 and self._minkowski(order, ladder[rung]) > LOG_CUT:
            below, rung, stride = rung, min(rung + stride, len(ladder) - 1), 2 * stride
        while rung - below > 1:
            middle = (below + rung) // 2
            if self._minkowski(order, ladder[middle]) > LOG_CUT:
                below = middle
            else:
                rung = middle
        return ladder[rung]

    def _tail(self, order: float, log_excess: float) -> float:
        """log of a bound on E[(a + b)^order - a^order], b the tails of i and E[a^order] - 1 given.

        With norms A and B in L^order it is at most (A + B)^order - A^order <= order B (A + B)^(order - 1).
        """
        pair = self._pair
        norms = pair.tail_log_weights + (order - 1) * pair.tail_sensitivities**2 / (
            2 * pair.sigma**2
        )
        log_b = float(log_sum_exp(norms))
        log_a = float(np.logaddexp(0.0, log_excess)) / order
        return math.log(order) + log_b + (order - 1) * float(np.logaddexp(log_a, log_b))

    def _insertion_below(self, order: float, high: float) -> float:
        """log of an upper bound on what the insertion integral holds below x/s = high.

        The mixture is at least any one of its components, so its power 1 - order is at most that of the component
        that gives the smallest bound.
        """
        pair = self._pair
        each = (1 - order) * pair.log_weights
        each = each + order * (order - 1) * pair.sensitivities**2 / (2 * pair.sigma**2)
        each = each + log_ndtr(high + (order - 1) * pair.sensitivities / pair.sigma)
        return float(log_sum_exp(each.min(axis=1), weights=pair.node_weights))

    @cached_property
    def _largest_gap(self) -> float:
        """Largest distance of neighboring components, at least 1."""
        present = self._pair.sensitivities[np.isfinite(self._pair.log_weights).any(axis=0)]
        return float(np.diff(present).max(initial=1.0))

    def _spacing(self, high: float) -> float | None:
        """Return a first spacing in units of s, or None where the grid would be too large."""
        spacing = min(0.25, 0.3 * self._pair.sigma / self._largest_gap)
        return spacing if self._cells(high, spacing) <= MAX_CELLS else None

    def _cells(self, high: float, spacing: float) -> float:
        return (high - LOWEST) / spacing * self._pair.log_weights.size

    def _integrate(self, power: float, high: float, spacing: float) -> float:
        """log of the quadrature, its own error estimate added; infinite where agreement would take too large a grid."""
        value, difference = self._log_mean(power, high, spacing), 0.0
        for _ in range(4):
            spacing = spacing / 2
            finer = self._log_mean(power, high, spacing)
            if finer == math.inf:
                return math.inf  # the bounds by Minkowski's inequality and by one component stand
            difference = abs(math.expm1(min(value - finer, 50.0)))
            value = finer
            if difference < AGREED:
                break
        return value + math.log1p(difference + ROUNDING)

    def _log_mean(self, power: float, high: float, spacing: float) -> float:
        """log of the quadrature on one grid; infinite where the grid, or the work of all grids, would be too large."""
        cells = self._cells(high, spacing)
        if cells > MAX_REFINED:
            return math.inf
        work = PER_POINT * cells / len(self._pair.sensitivities)
        if (high, spacing) not in self._grids:
            work += work + cells
        if work > self._work_left:
            return math.inf
        self._work_left -= work
        grid = self._grids.setdefault((high, spacing), _Grid(self._pair, high, spacing))
        return grid.log_mean(power)
