"""The privacy-loss-distribution accountant (theory.md 3.4), the default.

For every analysis asked for and both directions: dominating pair, pessimistic discretization, composition by FFT,
epsilon at delta. Each result is an upper bound by itself, so the least of them is one. The interval follows the size of
one step's losses and is halved until epsilon settles; since the discretization error is of second order in the
interval, what remains is below 0.2 % in ordinary cases and on the safe side. Work that cannot change the answer is
left out: the direction already known to be smaller, and an analysis already known to be much worse. Work is bounded for
every plan: a search ends where its next level would take too much, and the bounds that it has stand.

>>> from reldp.accounting.events import CoupledStep
>>> step = CoupledStep(num_relations=10_000, pool_size=5_000, max_degree=5, num_negatives=4, sample_rate=0.005,
...                    noise_multiplier=1.0)
>>> cost = PLDAccountant().epsilon(step * 100, delta=1e-5)
>>> cost.analysis, round(cost.epsilon, 1)
('anchored', 5.1)
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from reldp.accounting.composition import ComposedLoss
from reldp.accounting.cost import PrivacyCost
from reldp.accounting.discretization import LossDistribution, discretize, loss_range
from reldp.accounting.dominating import DominatingPair, dominating_pair
from reldp.accounting.events import Composition
from reldp.accounting.overflow import composed_cost

__all__ = ["EpsilonSearch", "PLDAccountant", "loss_positions"]

MAX_BINS = 2**22
MAX_WORK = 2**24  # bins that the transforms of a search may have together, beyond its first level
MAX_LEVELS = 16
KNEE, WIDTH, CROWD = 100.0, 2.0, 120.0
LEAST_GROWTH = 5e-4
SETTLED = 2e-3  # relative change at which halving the interval stops
HOPELESS = 2.0  # an analysis this many times worse than another is not refined
VOID = 1e5  # an epsilon above this protects nobody and is not refined
SMALL = 1e-3  # epsilon to begin with where the first estimate is none
MANY = 8  # more different events than this are computed with fewer nodes, by one analysis: faster, errors upwards
NODE_SPACING, MANY_NODE_SPACING = 0.125, 0.5
RARE = 1e-5  # share of delta per composition that may be treated as infinite loss


def loss_positions(
    lowest: float, highest: float, interval: float, growth: float, widest: float
) -> npt.NDArray[np.int64]:
    """Multiples of the interval from lowest to highest: dense near 0, sparser further out.

    Spacing grows by `growth` relative to the loss up to `widest`, and beyond losses so large that one of them decides,
    again by `growth`; but it stays below WIDTH `growth` times the deviation sqrt(2 loss) of one component's losses,
    unless that takes more than CROWD / `growth` positions. Without growth the spacing is one interval throughout.

    >>> loss_positions(-2.0, 40.0, 1.0, 0.2, 3.0).tolist()[-5:]
    [29, 32, 35, 38, 41]
    """
    top, bottom = math.ceil(highest / interval) + 1, math.floor(lowest / interval) - 1
    if growth == 0:
        return np.arange(bottom, top + 1, dtype=np.int64)
    farthest = math.sqrt(2 * max(abs(lowest), abs(highest)))
    nearest = 0.0 if lowest <= 0 <= highest else math.sqrt(2 * min(abs(lowest), abs(highest)))
    width = max(WIDTH, (farthest - nearest) / CROWD)
    ladder = [0]
    limit, knee = widest / interval, KNEE * widest / interval
    while ladder[-1] < max(top, -bottom):
        here = ladder[-1]
        component = width * math.sqrt(2 * here / interval)
        step = growth * min(here, limit / growth + max(here - knee, 0.0), component)
        ladder.append(here + max(1, math.floor(step)))
    right = np.array(ladder, dtype=np.int64)
    both = np.concatenate([-right[:0:-1], right])
    inside = (both >= bottom) & (both <= top)
    return np.unique(np.concatenate([both[inside], [bottom, top]]))


class EpsilonSearch:
    """Upper bounds on epsilon at delta under one analysis, at finer and finer intervals."""

    def __init__(self, pairs: list[tuple[DominatingPair, int]], delta: float) -> None:
        self._pairs = pairs
        self._delta = delta
        steps = sum(count for _, count in pairs)
        self._ranges = [loss_range(pair, RARE * delta / steps) for pair, _ in pairs]
        self._choose_interval()
        self._bounds = [math.inf, math.inf]  # removal, insertion
        self._levels = 0
        self._finest = False  # whether memory allows no smaller interval
        self._work = 0  # bins of all transforms so far
        self.settled = False
        self.composed: tuple[ComposedLoss, ...] = ()  # of the last interval: removal, insertion

    def _choose_interval(self) -> None:
        """Return a first interval: rounding all losses to its multiples should raise epsilon by about 0.5 %.

        Rounding a loss to multiples of h adds up to min(|loss| h, h^2 / 4) to its variance, and at tilt theta half of
        theta times that, over all steps, to epsilon. Epsilon, theta and losses are estimated on a coarse ladder.
        """
        span = max(max(abs(lowest), abs(highest)) for lowest, highest in self._ranges)
        both = self._discretized(span * 1e-9, 0.25, math.inf)
        log_delta = math.log(self._delta)
        guesses = [ComposedLoss(parts, self._delta).chernoff(log_delta, 1) for parts in both]
        (guess, tilt), larger = max(
            zip(guesses, both, strict=True), key=lambda candidate: candidate[0]
        )

        def raised(interval: float) -> float:
            added = sum(
                count * float(np.minimum(np.abs(p.losses) * interval, interval**2 / 4) @ p.masses)
                for p, count in larger
            )
            return 0.5 * tilt * added

        # A delta near 1 may have no positive epsilon, and losses may be beyond the range of a double.
        guess = guess if 0 < guess < math.inf else VOID if guess > 0 else SMALL
        self.guess = guess  # a rough epsilon, to compare analyses
        self._interval = guess / 50
        while raised(self._interval) > 5e-3 * guess:
            self._interval /= 1.25
        self._growth, self._widest = 0.06, 1.0 / tilt

    @property
    def epsilon(self) -> float:
        """The larger of both directions' least bounds so far."""
        return max(self._bounds)

    def refine(self) -> None:
        """One more level; says whether epsilon has settled."""
        before, spent = self.epsilon, self._work
        self.evaluate(self._interval, self._growth, self._widest)
        self._levels += 1
        next_work = 2 * (self._work - spent)  # half the interval, twice the bins
        change = before - self.epsilon
        self.settled = (
            change <= SETTLED * self.epsilon
            or VOID < self.epsilon < math.inf
            or self._finest
            or self._levels == MAX_LEVELS
            or self._work + next_work > MAX_WORK
        )
        self._widest = min(self._widest, self.epsilon / (2 * math.log(1 / self._delta)))
        self._interval, self._growth, self._widest = (
            self._interval / 2,
            max(self._growth / 2, LEAST_GROWTH),
            self._widest / 2,
        )

    def evaluate(self, interval: float, growth: float, widest: float) -> None:
        """Lowers the bounds to those of one interval, the larger bound first and the other where it matters."""
        while True:
            both = self._discretized(interval, growth, widest)
            composed = [ComposedLoss(parts, self._delta) for parts in both]
            if not all(direction.is_bounded for direction in composed):
                self._finest = True  # no smaller interval helps: epsilon stays infinite
                return
            bins = max(direction.num_bins for direction in composed)
            if bins <= MAX_BINS:
                break
            self._finest = True  # a coarser grid only raises epsilon
            interval *= math.ceil(bins / MAX_BINS)
        self.composed = tuple(composed)
        first = int(np.argmax(self._bounds))
        self._bounds[first] = min(self._bounds[first], composed[first].epsilon())
        if self._bounds[1 - first] > self._bounds[first]:
            self._bounds[1 - first] = min(self._bounds[1 - first], composed[1 - first].epsilon())
        self._work += sum(direction.transformed for direction in composed)

    def _discretized(
        self, interval: float, growth: float, widest: float
    ) -> tuple[list[tuple[LossDistribution, int]], list[tuple[LossDistribution, int]]]:
        """Loss distributions of all parts for removal and for insertion."""
        removal, insertion = [], []
        for (pair, count), (lowest, highest) in zip(self._pairs, self._ranges, strict=True):
            positions = loss_positions(lowest, highest, interval, growth, widest)
            with_against_without, without_against_with = discretize(pair, positions, interval)
            removal.append((with_against_without, count))
            insertion.append((without_against_with, count))
        return removal, insertion


@dataclass(frozen=True, kw_only=True)
class PLDAccountant:
    """Accountant that uses privacy-loss distributions.

    Attributes:
        analysis: ``"best"``, ``"anchored"`` or ``"replacement"``.
        interval: A fixed discretization interval with equally spaced losses, instead of the adaptive one.
        wide_charge: Whether batches that cannot be drawn are charged by Corollary B (theory.md 2.4) where Theorem B
            gives an infinite epsilon; for many runs together.
    """

    analysis: str = "best"
    interval: float | None = None
    wide_charge: bool = False
    name: str = "pld"

    def epsilon(self, composition: Composition, delta: float) -> PrivacyCost:
        """Return the smaller epsilon of the analyses asked for, as a `PrivacyCost`."""
        cost = partial(self._cost, composition)
        return composed_cost(
            composition, delta, self.name, self.analysis, cost, wide_charge=self.wide_charge
        )

    def _cost(
        self, composition: Composition, analyses: tuple[str, ...], delta: float
    ) -> PrivacyCost:
        """Return the smallest privacy cost of noisy steps at delta."""
        if not any(event.num_negatives for event, _ in composition.running):
            analyses = analyses[:1]  # without negatives that matter all analyses have one pair
        log_tail = math.log(delta) - math.log(composition.num_steps) - 25.0
        is_many = len(composition.running) > MANY
        spacing = MANY_NODE_SPACING if is_many else NODE_SPACING
        searches = {}
        for analysis in analyses:
            pairs = [
                (dominating_pair(event, analysis, log_tail, spacing), count)
                for event, count in composition.running
            ]
            searches[analysis] = EpsilonSearch(pairs, delta)
        if is_many:
            best = min(searches, key=lambda name: searches[name].guess)
            searches = {best: searches[best]}
        if self.interval is not None:
            for search in searches.values():
                search.evaluate(self.interval, 0.0, self.interval)
        else:
            _refine_all(list(searches.values()))
        best = min(searches, key=lambda name: searches[name].epsilon)
        return PrivacyCost(searches[best].epsilon, delta, self.name, best)


def _refine_all(searches: list[EpsilonSearch]) -> None:
    """Refines every search until it settles or another one is clearly better."""
    for search in searches:
        search.refine()
    while True:
        least = min(search.epsilon for search in searches)
        open_ones = [s for s in searches if not s.settled and s.epsilon <= HOPELESS * least]
        if not open_ones:
            return
        for search in open_ones:
            search.refine()
