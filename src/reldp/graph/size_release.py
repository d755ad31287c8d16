"""One private release of a graph's sizes: two stages, exact noise, and what they cost (theory.md 2.4).

Stage 1, coarse, costs e_c = `COARSE` of the target epsilon for each of n and m. It decides e_n, e_m and d0, so that
none of them depends on anything that was not paid for. Stage 2 releases the noisy sizes:

    n_low  = n + dLap(1 / e_n) - ceil(ln(1 / d0) / e_n)       m_high = m + dLap(K / e_m) + ceil(K ln(1 / d0) / e_m)

An entity changes n by 1 and m by at most K, so both stages together cost epsilon 2 e_c + e_n + e_m. A relation changes
m by 1 and n not at all: (e_c + e_m) / K. Each bound fails with probability below d0 / 2, and n_low plus twice its
margin plus 1 falls short of the larger neighbor's n with probability below d0 / 2; delta 2 d0 covers all three.

The number of unprotected entities is the same for neighbors and costs nothing. It gets noise all the same, so that no
exact size is published, and is cut off at the exact number, so that its bound never fails.

Public inside the package: `Release`, `draw_release`, `expected_epsilon`, `largest_cost`, `release_target`,
`num_unprotected`.

>>> release = Release(entities=50_000, relations=90_000, unprotected=0, coarse_rate=10**6,
...                   entity_rate=2 * 10**7, relation_rate=2 * 10**7, failure=1e-9, max_degree=5)
>>> release.bounds(0)
(48963, 95181, 0)
>>> release.epsilon("entity"), release.delta
(0.042, 2e-09)
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from reldp._validate import check_number
from reldp.errors import GraphError, PlanError
from reldp.graph.discrete_laplace import discrete_laplace, tail_margin
from reldp.graph.size_store import FILE_NAME

if TYPE_CHECKING:
    from reldp.graph.capped import CappedGraph

__all__ = [
    "Release",
    "draw_release",
    "expected_epsilon",
    "largest_cost",
    "num_unprotected",
    "release_target",
]

USUAL_TARGET = 1.0  # where no target epsilon is given
LARGEST_TARGET = 16.0  # a larger target does not make the release more expensive
COARSE = Fraction(1, 1000)  # share of the target that each of the two coarse numbers costs
LARGEST_SHARE = 0.125  # of the target that each of the two fine numbers may cost
BALANCE = 0.8  # e over sqrt(target * e * relative margin), measured; the cost is flat around it
DELTA_SHARE = 0.005  # of the default delta that each of the two bounds may fail with
_POSITIVE = ("coarse_rate", "entity_rate", "relation_rate", "max_degree")
BILLION = 10**9  # rates are whole billionths, so that the noise is exact


@dataclass(frozen=True, kw_only=True)
class Release:
    """One release as it is stored. Rates are in billionths; entities and relations are noisy, without margins."""

    entities: int
    relations: int
    unprotected: int
    coarse_rate: int
    entity_rate: int
    relation_rate: int
    failure: float
    max_degree: int

    def values(self) -> dict[str, Any]:
        """Return the release as plain values."""
        return dict(vars(self))

    @classmethod
    def parsed(cls, values: dict[str, Any]) -> "Release":
        """Return the release of stored values, checked."""
        names = set(cls.__dataclass_fields__)
        whole = names - {"failure"}
        if (
            set(values) != names
            or any(type(values[name]) is not int for name in whole)
            or type(values["failure"]) is not float
            or not 0 < values["failure"] < 0.1
            or min(values[name] for name in _POSITIVE) < 1
        ):
            raise GraphError(f"{FILE_NAME} must hold complete releases. Restore it from a backup.")
        return cls(**values)

    def epsilon(self, unit: str) -> float:
        """Return the privacy cost of both stages for a unit of privacy."""
        relations = Fraction(self.coarse_rate + self.relation_rate, BILLION)
        if unit == "relation":
            return _rounded_up(relations / self.max_degree)
        return _rounded_up(relations + Fraction(self.coarse_rate + self.entity_rate, BILLION))

    @property
    def delta(self) -> float:
        """Return a bound on the probability that a bound fails."""
        return 2 * self.failure

    def bounds(self, exact_unprotected: int) -> tuple[int, int, int]:
        """Return n_low, m_high and a lower bound on the unprotected entities.

        Raises:
            PlanError: The noise is as large as the sizes. Noisy numbers decide, so the refusal is private too.
        """
        margin = tail_margin(Fraction(self.entity_rate, BILLION), self.failure)
        per_relation = Fraction(self.relation_rate, BILLION * self.max_degree)
        wide = tail_margin(per_relation, self.failure)
        if 2 * margin > self.entities or 2 * wide > self.relations:
            raise PlanError(
                "`sizes` must not be private for this graph: the noise that hides its sizes is as large as "
                "they are, because the graph is small or because the stored release was made for a small "
                "target epsilon. Declare bounds that are known without the data (sizes declared, with "
                "min_entities and max_relations), assume that the sizes are public knowledge (sizes public), "
                "or use a larger graph."
            )
        least = self.entities - margin
        unprotected = min(least, exact_unprotected, self.unprotected - margin)
        return least, self.relations + wide, max(0, unprotected)


def num_unprotected(capped: "CappedGraph") -> int:
    """Return how many units are unprotected; removing a protected one does not change it."""
    return int((~capped.protected_units).sum())


def release_target(target: float | None) -> Fraction:
    """Return the target epsilon that a release is made for, as a fraction."""
    if target is None:
        return Fraction(USUAL_TARGET)
    number = check_number("target_epsilon", target, above=0, error=PlanError)
    return Fraction(min(number, LARGEST_TARGET))


def draw_release(capped: "CappedGraph", target: Fraction, delta: float | None) -> Release:
    """Draw both stages of a release."""
    n, m, degree = capped.num_units, capped.num_relations, capped.max_degree
    coarse = max(1, math.floor(target * COARSE * BILLION))
    rate = Fraction(coarse, BILLION)
    about_n = n + discrete_laplace(rate)
    about_m = m + discrete_laplace(rate / degree)
    rate_n, rate_m, failure = _fine_stage(about_n, about_m, degree, rate, target, delta)
    per_entity, per_relation = Fraction(rate_n, BILLION), Fraction(rate_m, BILLION * degree)
    return Release(
        entities=n + discrete_laplace(per_entity),
        relations=m + discrete_laplace(per_relation),
        unprotected=num_unprotected(capped) + discrete_laplace(per_entity),
        coarse_rate=coarse,
        entity_rate=rate_n,
        relation_rate=rate_m,
        failure=failure,
        max_degree=degree,
    )


def largest_cost(target: Fraction, delta: float | None) -> tuple[float, float]:
    """Return bounds on epsilon and delta of a release, whatever the sizes and the noise."""
    coarse = Fraction(max(1, math.floor(target * COARSE * BILLION)), BILLION)
    fine = max(Fraction(1, BILLION), Fraction(LARGEST_SHARE) * target)
    usual = float(coarse) / 100  # 0.1 / (10 * scale), where the coarse numbers are 0 or less
    failure = DELTA_SHARE * min(usual, usual if delta is None else delta)
    return _rounded_up(2 * coarse + 2 * fine), 2 * failure * (1 + 1e-9)  # for rounding


def expected_epsilon(capped: "CappedGraph", target_epsilon: float | None) -> float:
    """Return about what a release of a graph would cost; sensitive, it follows from the exact sizes."""
    target = release_target(target_epsilon)
    coarse = max(1, math.floor(target * COARSE * BILLION))
    sizes = capped.num_units, capped.num_relations
    rate = Fraction(coarse, BILLION)
    rate_n, rate_m, _ = _fine_stage(*sizes, capped.max_degree, rate, target, None)
    return _rounded_up(Fraction(2 * coarse + rate_n + rate_m, BILLION))


def _fine_stage(
    about_n: int, about_m: int, degree: int, rate: Fraction, target: Fraction, delta: float | None
) -> tuple[int, int, float]:
    """Return e_n and e_m in billionths, and d0, from the coarse release alone.

    Noise rises about in proportion to e / target and to the relative margin K ln(1/d0) / (e m) (1 instead of K and n
    instead of m for entities). The sum is least where both are about equal: e^2 = target K ln(1/d0) / m.
    """
    scale = 1 / float(rate)
    usual = 0.1 / (max(about_n, 0) + 10 * scale)
    failure = DELTA_SHARE * min(usual, usual if delta is None else delta)

    def best(relative: float) -> int:
        wanted = BALANCE * math.sqrt(float(target) * math.log(1 / failure) * relative)
        return max(1, math.floor(min(wanted, LARGEST_SHARE * float(target)) * BILLION))

    # A number below the scale of its own noise says nothing.
    return best(1 / max(about_n, scale)), best(degree / max(about_m, degree * scale)), failure


def _rounded_up(value: Fraction) -> float:
    number = float(value)
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)
