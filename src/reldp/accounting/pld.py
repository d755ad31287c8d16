"""The privacy-loss-distribution accountant (theory.md 3.4), the default.

For both analyses and both directions: dominating pair, pessimistic discretisation, composition by FFT, epsilon at
delta. The interval follows the size of one step's losses and is halved until epsilon settles; since the
discretisation error is of second order in the interval, what remains is below 0.2 % and on the safe side.

>>> from reldp.accounting.events import CoupledStep
>>> step = CoupledStep(num_relations=10_000, pool_size=5_000, max_degree=5, num_negatives=4, sample_rate=0.005,
...                    noise_multiplier=1.0)
>>> price = PLDAccountant().epsilon(step * 100, delta=1e-5)
>>> price.analysis, round(price.epsilon, 1)
('anchored', 5.1)
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reldp.accounting.composition import epsilon_of, window_size
from reldp.accounting.discretisation import LossDistribution, discretise, loss_scale
from reldp.accounting.dominating import DominatingPair, dominating_pair
from reldp.accounting.events import Composition
from reldp.accounting.overflow import epsilon_with_overflow
from reldp.accounting.price import Price, check_delta

__all__ = ["PLDAccountant", "loss_positions"]

MAX_BINS = 2**23
KNEE = 100.0
SETTLED = 7e-3  # relative change at which halving the interval stops
RARE = 1e-5  # share of delta per composition that may be treated as infinite loss


def loss_positions(
    lowest: float, highest: float, interval: float, growth: float, widest: float
) -> npt.NDArray[np.int64]:
    """Multiples of the interval from lowest to highest: dense near 0, sparser further out.

    Spacing grows by `growth` relative to the loss up to `widest`, and beyond losses so large that one of them decides,
    again by `growth`.

    >>> loss_positions(-2.0, 40.0, 1.0, 0.1, 2.0).tolist()[-3:]
    [38, 40, 41]
    """
    top, bottom = math.ceil(highest / interval) + 1, math.floor(lowest / interval) - 1
    ladder = [0]
    limit, knee = widest / interval, KNEE * widest / interval
    while ladder[-1] < max(top, -bottom):
        here = ladder[-1]
        step = min(here * growth, limit + max(here - knee, 0.0) * growth)
        ladder.append(here + max(1, math.floor(step)))
    right = np.array(ladder, dtype=np.int64)
    both = np.concatenate([-right[:0:-1], right])
    inside = (both >= bottom) & (both <= top)
    return np.unique(np.concatenate([both[inside], [bottom, top]]))


@dataclass(frozen=True)
class _Scale:
    """What the interval is chosen from."""

    lowest: float
    highest: float
    spread: float


@dataclass(frozen=True, kw_only=True)
class PLDAccountant:
    """Prices compositions by privacy-loss distributions.

    Attributes:
        analysis: ``"best"``, ``"anchored"`` or ``"replacement"``.
        interval: A fixed discretisation interval with equally spaced losses, instead of the adaptive one.
    """

    analysis: str = "best"
    interval: float | None = None
    name: str = "pld"

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
        log_tail = math.log(delta) - math.log(composition.num_steps) - 25.0
        pairs = [(dominating_pair(event, analysis, log_tail), count) for event, count in running]
        return epsilon_with_overflow(composition, delta, lambda d: self._price(pairs, d))

    def _price(self, pairs: list[tuple[DominatingPair, int]], delta: float) -> float:
        steps = sum(count for _, count in pairs)
        rare = RARE * delta / steps
        scales = [_Scale(*loss_scale(pair, rare)) for pair, _ in pairs]
        if self.interval is not None:
            return self._at(pairs, scales, delta, self.interval, 0.0, self.interval)
        square = sum(
            count * scale.spread**2 for scale, (_, count) in zip(scales, pairs, strict=True)
        )
        interval = 0.25 * math.sqrt(square / steps)
        guess = math.sqrt(square * 2 * math.log(1 / delta)) + square / 2
        growth, widest = 0.06, guess / (2 * math.log(1 / delta))
        interval = min(interval, guess / 50)
        before = math.inf
        for _ in range(16):
            epsilon = self._at(pairs, scales, delta, interval, growth, widest)
            if before - epsilon <= SETTLED * epsilon or epsilon == 0.0:
                return min(epsilon, before)
            before = epsilon
            widest = min(widest, epsilon / (2 * math.log(1 / delta)))
            interval, growth, widest = interval / 2, growth / 1.5, widest / 2
        return before

    def _at(
        self,
        pairs: list[tuple[DominatingPair, int]],
        scales: list[_Scale],
        delta: float,
        interval: float,
        growth: float,
        widest: float,
    ) -> float:
        """The larger epsilon of both directions at one interval."""
        removal: list[tuple[LossDistribution, int]] = []
        insertion: list[tuple[LossDistribution, int]] = []
        for (pair, count), scale in zip(pairs, scales, strict=True):
            positions = loss_positions(scale.lowest, scale.highest, interval, growth, widest)
            with_against_without, without_against_with = discretise(pair, positions, interval)
            removal.append((with_against_without, count))
            insertion.append((without_against_with, count))
        worst = 0.0
        for parts in (removal, insertion):
            bins = window_size(parts, delta)
            if bins > MAX_BINS:  # too fine for memory: a coarser grid only raises epsilon
                factor = math.ceil(bins / MAX_BINS)
                return self._at(pairs, scales, delta, interval * factor, growth, widest)
            worst = max(worst, epsilon_of(parts, delta))
        return worst
