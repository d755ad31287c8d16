"""The numbers behind the pictures of a report: what a run's plan and counted steps mean for attackers and entities.

Everything here is a function of the plan and of the number of steps, hence public. Each number is an upper bound:
epsilons come from the accountant of the certificate, and bounds on attacks from its privacy-loss distributions
(theory.md 3.6). Nothing here needs torch. The curves take a second or two and are computed once per process.

Where the sizes are private, the noise was chosen for one epsilon and one delta. Only that pair is guaranteed without
conditions; all other points hold given the released bounds (theory.md 2.4).

Public inside the package: `PrivacyCurves`, `privacy_curves`, `degrees_to_show`.

>>> degrees_to_show(5), degrees_to_show(100)
((1, 2, 3, 4, 5), (1, 3, 10, 32, 100))
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from reldp._progress import tick
from reldp.accounting.tradeoff import QUESTIONS, TradeOff, group_delta, trade_off
from reldp.errors import PlanError
from reldp.runs.privacy_cost import privacy_cost

if TYPE_CHECKING:
    from reldp.plan import PrivacyPlan

__all__ = ["GROUPS", "RATES", "Group", "PrivacyCurves", "degrees_to_show", "privacy_curves"]

RATES = (0.001, 0.01, 0.1)
"""False-positive rates at which attacks are read."""
GROUPS = (2, 5, 10)
"""Sizes of groups of entities."""
GROUP_RATE = 0.01
_LOWEST_RATE = 1e-4
_CURVE_POINTS = 121
_DECADES = (3, 1, -1, -2)  # powers of ten around the plan's delta
_SHARES = (0.1, 0.25, 0.5)
_MAX_DEGREES = 5

_Value = TypeVar("_Value")


@dataclass(frozen=True, kw_only=True)
class Group:
    """What a group of entities gets: epsilon and delta, and the best attack at 1 % false positives."""

    size: int
    epsilon: float
    delta: float
    power: float


@dataclass(frozen=True)
class PrivacyCurves:
    """Upper bounds that follow from a plan and a number of steps.

    Attributes:
        plan: The plan; its status is ``"proven"`` and its epsilon finite.
        num_steps: Number of steps that count.
        epsilon: Epsilon of these steps at the plan's delta.
        analysis: The analysis that gave it.
    """

    plan: "PrivacyPlan"
    num_steps: int
    epsilon: float
    analysis: str

    @cached_property
    def attacks(self) -> TradeOff:
        """The bounds on attacks, with the release of private sizes included."""
        return self._trade_off(self.plan)

    def power(self, rate: float, question: str) -> float:
        """Return the largest true-positive rate of an attack with a false-positive rate."""
        return float(self.attacks.power([rate], question)[0])

    def worst(self, rate: float) -> float:
        """Return the larger of both questions' true-positive rates."""
        return max(self.power(rate, question) for question in QUESTIONS)

    @cached_property
    def curve(self) -> list[tuple[float, float]]:
        """False-positive rates from 0.01 % to 100 %, and the larger of both true-positive rates."""
        rates = np.geomspace(_LOWEST_RATE, 1.0, _CURVE_POINTS)
        both = [self.attacks.power(rates, question) for question in QUESTIONS]
        return list(zip(rates.tolist(), np.max(both, axis=0).tolist(), strict=True))

    @property
    def best_guess(self) -> float:
        """Largest probability of a right guess about one entity, where one half would be right without the model."""
        return 0.5 + self.attacks.advantage() / 2

    @cached_property
    def by_degree(self) -> list[tuple[int, float]]:
        """Epsilon of an entity by its number of relations (theory.md 3.6); empty where relations are protected."""
        if self.plan.unit == "relation":
            return []
        rest = degrees_to_show(self.plan.max_degree)[:-1]
        points = [
            (d, self._epsilon(replace(self.plan, max_degree=d)))
            for d in _each("computing epsilon by relations", rest)
        ]
        return [*points, (self.plan.max_degree, self.epsilon)]

    @cached_property
    def by_delta(self) -> list[tuple[float, float]]:
        """Epsilon by delta, the plan's own among them; from the largest delta to the smallest."""
        nearest = math.floor(math.log10(self.plan.delta) + 1e-9)
        powers = [float(f"1e{nearest + decade}") for decade in _DECADES]
        deltas = [d for d in powers if 2 * self.plan.sizes_delta < d <= 0.1]
        points = [(d, self._epsilon_at(d)) for d in _each("computing epsilon by delta", deltas)]
        finite = [(d, epsilon) for d, epsilon in points if math.isfinite(epsilon)]
        return sorted([*finite, (self.plan.delta, self.epsilon)], reverse=True)

    @cached_property
    def by_steps(self) -> list[tuple[int, float]]:
        """Epsilon after some of the steps, the last of them among them."""
        counts = {max(1, round(share * self.num_steps)) for share in _SHARES} - {self.num_steps}
        points = [
            (n, self._epsilon(self.plan, n))
            for n in _each("computing epsilon by steps", sorted(counts))
        ]
        return [*points, (self.num_steps, self.epsilon)]

    @cached_property
    def groups(self) -> list[Group]:
        """What groups of entities get by the generic bounds (theory.md 3.6)."""
        epsilon, attacks = self._group_bounds()
        return [
            Group(
                size=size,
                epsilon=size * epsilon,
                delta=group_delta(epsilon, self.plan.delta, size),
                power=1.0
                if attacks is None
                else max(float(attacks.group_power([GROUP_RATE], q, size)[0]) for q in QUESTIONS),
            )
            for size in GROUPS
        ]

    def _group_bounds(self) -> tuple[float, TradeOff | None]:
        """Return epsilon and bounds on attacks for all graphs on the way from one with a group to one without.

        With public sizes the plan's graph may be the one with the group or the one without. So the last graph may have
        fewer entities than the plan says, and the first one more relations; the bounds cover both (Theorem B). With
        declared sizes the guarantee is about graphs within the declared bounds: if the first and the
        last graph are, so are all others, since each has fewer entities and relations than the one before. With private
        sizes release and training together are private for every pair of neighbors on the way, whatever their sizes.
        """
        if self.plan.sizes != "public":
            return self.epsilon, self.attacks
        num_further = max(GROUPS) - 1
        lost = num_further if self.plan.event.pool_shrinks else 0
        is_relations = self.plan.negatives == "relations"
        try:
            plan = replace(
                self.plan,
                num_entities=self.plan.num_entities - (0 if is_relations else lost),
                pool_size=self.plan.pool_size - lost,
                num_relations=self.plan.num_relations + num_further * self.plan.event.max_degree,
                sample_rate=self.plan.sample_rate,
                expected_batch_size=None,  # type: ignore[arg-type] # follows from the rate
            )
            return self._epsilon(plan), self._trade_off(plan)
        except PlanError:  # too few entities, or too many relations, for batches of this size
            return math.inf, None

    def _trade_off(self, plan: "PrivacyPlan") -> TradeOff:
        attacks = trade_off(plan.event * self.num_steps, self.analysis)
        return attacks.shifted(plan.sizes_epsilon, plan.sizes_delta)

    def _epsilon_at(self, delta: float) -> float:
        """Return epsilon at another delta; infinite where batches that cannot be drawn need more than that delta."""
        try:
            return self._epsilon(replace(self.plan, delta=delta))
        except PlanError:
            return math.inf

    def _epsilon(self, plan: "PrivacyPlan", num_steps: int | None = None) -> float:
        """Return epsilon by the analysis of the certificate: one of them is enough for an upper bound."""
        steps = self.num_steps if num_steps is None else num_steps
        return privacy_cost(replace(plan, analysis=self.analysis), "pld", steps).epsilon


def _each(phase: str, values: Sequence[_Value]) -> Iterator[_Value]:
    """Yield the values, and report how far they are: each may take seconds."""
    for number, value in enumerate(values):
        tick(phase, number, len(values))
        yield value
    tick(phase, len(values), len(values))


@lru_cache(maxsize=64)
def privacy_curves(
    plan: "PrivacyPlan", num_steps: int, epsilon: float, analysis: str
) -> PrivacyCurves | None:
    """Return the curves of a run, each computed when it is asked for.

    Args:
        plan: The plan of the run.
        num_steps: Number of steps that count.
        epsilon: Epsilon of the certificate, by privacy-loss distributions.
        analysis: The analysis of the certificate.

    Returns:
        None where there is nothing to draw: no noise, no steps, an infinite epsilon, or a rule without a proof.
    """
    if plan.status != "proven" or not math.isfinite(epsilon) or num_steps == 0:
        return None
    return PrivacyCurves(plan, num_steps, epsilon, analysis)


def degrees_to_show(max_degree: int) -> tuple[int, ...]:
    """Return a few numbers of relations from 1 to the largest, evenly spaced or by equal factors."""
    if max_degree <= _MAX_DEGREES:
        return tuple(range(1, max_degree + 1))
    exponents = np.linspace(0.0, math.log(max_degree), _MAX_DEGREES)
    return tuple(dict.fromkeys(round(math.exp(x)) for x in exponents))
