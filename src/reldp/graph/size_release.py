"""One private release of a graph's sizes: two stages, exact noise, and what they cost (theory.md 2.4).

Stage 1, coarse, costs `COARSE` of the target epsilon for each of n and m. It decides e0 and d0, so that neither
depends on anything that was not paid for. Stage 2 releases the noisy sizes at e0 each:

    n_low  = n + dLap(1 / e0) - ceil(ln(1 / d0) / e0)         m_high = m + dLap(K / e0) + ceil(K ln(1 / d0) / e0)

An entity changes n by 1 and m by at most K, so both stages together cost epsilon 2 (e_coarse + e0). A relation changes
m by 1 and n not at all: (e_coarse + e0) / K. Each bound fails with probability below d0 / 2, and n_low plus twice its
margin plus 1 falls short of the larger neighbor's n with probability below d0 / 2; delta 2 d0 covers all three.

The number of unprotected entities is the same for neighbors and costs nothing. It gets noise all the same, so that no
exact size is published, and is cut off at the exact number, so that its bound never fails.

Public inside the package: `Release`, `draw_release`, `expected_epsilon`, `release_target`, `num_unprotected`.

>>> release = Release(entities=50_000, relations=90_000, unprotected=0, coarse_rate=10**6, fine_rate=2 * 10**7,
...                   failure=1e-9, max_degree=5)
>>> release.bounds(0)
(48963, 95181, 0)
>>> release.epsilon("entity"), release.delta
(0.042, 2e-09)
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from reldp.errors import GraphError, PlanError
from reldp.graph.discrete_laplace import discrete_laplace, tail_margin
from reldp.graph.size_store import FILE_NAME

if TYPE_CHECKING:
    from reldp.graph.capped import CappedGraph

__all__ = ["Release", "draw_release", "expected_epsilon", "num_unprotected", "release_target"]

USUAL_TARGET = 1.0  # where no target epsilon is given
LARGEST_TARGET = 16.0  # a larger target does not make the release more expensive
COARSE = Fraction(1, 1000)  # share of the target that each of the two coarse numbers costs
LARGEST_SHARE = 0.125  # of the target that each of the two fine numbers may cost
BALANCE = 0.7  # e0 over sqrt(target * margins); the cost is flat around it
DELTA_SHARE = 0.005  # of the default delta that each of the two bounds may fail with
BILLION = 10**9  # rates are whole billionths, so that the noise is exact


@dataclass(frozen=True, kw_only=True)
class Release:
    """One release as it is stored. Rates are in billionths; entities and relations are noisy, without margins."""

    entities: int
    relations: int
    unprotected: int
    coarse_rate: int
    fine_rate: int
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
            or min(values[name] for name in ("coarse_rate", "fine_rate", "max_degree")) < 1
        ):
            raise GraphError(f"{FILE_NAME} must hold complete releases. Restore it from a backup.")
        return cls(**values)

    def epsilon(self, unit: str) -> float:
        """Return the privacy cost of both stages for a unit of privacy."""
        one = Fraction(self.coarse_rate + self.fine_rate, BILLION)
        return _rounded_up(one / self.max_degree if unit == "relation" else 2 * one)

    @property
    def delta(self) -> float:
        """Return a bound on the probability that a bound fails."""
        return 2 * self.failure

    def bounds(self, exact_unprotected: int) -> tuple[int, int, int]:
        """Return n_low, m_high and a lower bound on the unprotected entities.

        Raises:
            PlanError: The noise is as large as the sizes. Noisy numbers decide, so the refusal is private too.
        """
        rate = Fraction(self.fine_rate, BILLION)
        margin = tail_margin(rate, self.failure)
        wide = tail_margin(rate / self.max_degree, self.failure)
        if 2 * margin > self.entities or 2 * wide > self.relations:
            raise PlanError(
                "`sizes` must not be private for a graph this small: the noise that hides its sizes is as "
                "large as they are. Declare bounds that are known without the data (sizes declared, with "
                "min_entities and max_relations), assume that the sizes are public knowledge (sizes public), "
                "or use a larger graph."
            )
        least = self.entities - margin
        unprotected = min(least, exact_unprotected, self.unprotected - margin)
        return least, self.relations + wide, max(0, unprotected)


def num_unprotected(capped: "CappedGraph") -> int:
    """Return how many entities are unprotected; removing a protected entity does not change it."""
    return int((~capped.protected).sum())


def release_target(target: float | None) -> Fraction:
    """Return the target epsilon that a release is made for, as a fraction."""
    if target is None:
        return Fraction(USUAL_TARGET)
    number = isinstance(target, int | float) and not isinstance(target, bool)
    if not number or not math.isfinite(target) or target <= 0:
        raise PlanError(f"`target_epsilon` must be a finite number above 0, got {target!r}.")
    return Fraction(min(float(target), LARGEST_TARGET))


def draw_release(capped: "CappedGraph", target: Fraction, delta: float | None) -> Release:
    """Draw both stages of a release."""
    n, m, degree = capped.num_entities, capped.num_relations, capped.max_degree
    coarse = max(1, math.floor(target * COARSE * BILLION))
    rate = Fraction(coarse, BILLION)
    about_n = n + discrete_laplace(rate)
    about_m = m + discrete_laplace(rate / degree)
    fine, failure = _fine_stage(about_n, about_m, degree, rate, target, delta)
    rate = Fraction(fine, BILLION)
    return Release(
        entities=n + discrete_laplace(rate),
        relations=m + discrete_laplace(rate / degree),
        unprotected=num_unprotected(capped) + discrete_laplace(rate),
        coarse_rate=coarse,
        fine_rate=fine,
        failure=failure,
        max_degree=degree,
    )


def expected_epsilon(capped: "CappedGraph", target_epsilon: float | None) -> float:
    """Return about what a release of a graph would cost; sensitive, it follows from the exact sizes."""
    target = release_target(target_epsilon)
    coarse = max(1, math.floor(target * COARSE * BILLION))
    sizes = capped.num_entities, capped.num_relations
    fine, _ = _fine_stage(*sizes, capped.max_degree, Fraction(coarse, BILLION), target, None)
    return _rounded_up(2 * Fraction(coarse + fine, BILLION))


def _fine_stage(
    about_n: int, about_m: int, degree: int, rate: Fraction, target: Fraction, delta: float | None
) -> tuple[int, float]:
    """Return e0 in billionths and d0, from the coarse release alone.

    Noise rises about in proportion to 2 e0 / target and to the relative margins ln(1/d0) / e0 (1/n + K/m); their sum is
    least where they are about equal.
    """
    scale = 1 / float(rate)
    usual = 0.1 / (max(about_n, 0) + 10 * scale)
    failure = DELTA_SHARE * min(usual, usual if delta is None else delta)
    sizes = 1 / max(about_n, scale) + degree / max(about_m, degree * scale)
    best = BALANCE * math.sqrt(float(target) * math.log(1 / failure) * sizes)
    share = min(best, LARGEST_SHARE * float(target))
    return max(1, math.floor(share * BILLION)), failure


def _rounded_up(value: Fraction) -> float:
    number = float(value)
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)
