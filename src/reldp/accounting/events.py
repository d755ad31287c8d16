"""Events say what one step does; accountants say what it costs.

A `CoupledStep` is one training step of theory.md 1: Poisson positives, negatives without
replacement whose number follows the positives, clipped sum, Gaussian noise. Every field is a public
constant. An accountant computes the epsilon of a `Composition`: events and how often each of them ran.

>>> step = CoupledStep(num_relations=1000, pool_size=500, max_degree=5, num_negatives=4, sample_rate=0.01,
...                    noise_multiplier=1.0, negative_replacement=2.0, negative_removal=1.0)
>>> (step * 3 + step * 4).num_steps
7
"""

import math
from dataclasses import dataclass, field
from functools import partial
from numbers import Real

from reldp._validate import (
    ANALYSES,
    PROOFS,
    as_integer,
    check,
    check_choice,
    check_integer,
    is_integer,
    refuse,
)
from reldp.errors import PlanError, UnsupportedEvent

__all__ = ["Composition", "CoupledStep"]

MIN_RATE = 1e-15
MIN_NOISE, MAX_NOISE = 1e-12, 1e9


_check = partial(check, error=PlanError)


@dataclass(frozen=True, kw_only=True)
class CoupledStep:
    """One step, as far as its privacy cost depends on it. Sensitivities are in units of the clip norm (theory.md 3).

    Attributes:
        num_relations: m; the number of positives without the entity in question is Bin(m, sample_rate).
        pool_size: n, the size of the pool that negatives are drawn from, the entity included.
        max_degree: K, the largest number of relations one unit of privacy has.
        num_negatives: k when a protected entity can be a negative, else 0 (theory.md 2.3).
        sample_rate: gamma, the probability that one relation enters the batch.
        noise_multiplier: sigma, the noise's standard deviation divided by the clip norm.
        negative_replacement: How far replacing the entity as a negative moves the sum (3.1).
        negative_removal: How far removing the tuple it is a negative of moves the sum (3.2), or None
            for a rule that is not local.
        claimed_constant: The frequency rule's claim: the sum moves by 1, whatever (i, j) != (0, 0).
        drawn_negatives: Negatives drawn per positive even where none is protected: decides which
            batches cannot be drawn. Defaults to num_negatives.
        pool_shrinks: Whether the pool is one smaller without the unit (it is an entity of the pool).
    """

    num_relations: int
    pool_size: int
    max_degree: int
    num_negatives: int
    sample_rate: float
    noise_multiplier: float
    negative_replacement: float = 2.0
    negative_removal: float | None = 1.0
    claimed_constant: bool = False
    drawn_negatives: int | None = field(default=None)
    pool_shrinks: bool = True

    def __post_init__(self) -> None:
        self._take_python_numbers()
        _check(self.num_relations >= 1, "num_relations", "at least 1", self.num_relations)
        _check(self.pool_size >= 1, "pool_size", "at least 1", self.pool_size)
        _check(self.max_degree >= 1, "max_degree", "at least 1", self.max_degree)
        _check(self.num_negatives >= 0, "num_negatives", "0 or more", self.num_negatives)
        # Beyond these ranges squares and quotients leave the range of a double.
        rate_ok = MIN_RATE <= self.sample_rate <= 1
        _check(rate_ok, "sample_rate", f"from {MIN_RATE:g} to 1", self.sample_rate)
        noise_ok = self.noise_multiplier == 0 or MIN_NOISE <= self.noise_multiplier <= MAX_NOISE
        rule = f"0, or from {MIN_NOISE:g} to {MAX_NOISE:g}"
        _check(noise_ok, "noise_multiplier", rule, self.noise_multiplier)
        for name in ("negative_replacement", "negative_removal"):
            sensitivity = getattr(self, name)
            known = name == "negative_removal" and sensitivity is None
            _check(
                known or 0 <= sensitivity < math.inf,
                name,
                "a finite number, 0 or more",
                sensitivity,
            )
        _check(
            self.slots_per_positive >= self.num_negatives,
            "drawn_negatives",
            f"at least num_negatives, {self.num_negatives}",
            self.drawn_negatives,
        )
        expected = self.sample_rate * self.num_relations * self.slots_per_positive
        if expected > self.pool_size:
            raise PlanError(
                f"`num_negatives` times the expected batch size must not exceed the pool of negatives, "
                f"got {expected:.6g} > {self.pool_size}. Such batches cannot be drawn without replacement: "
                f"use fewer negatives or a smaller batch."
            )

    def _take_python_numbers(self) -> None:
        """Hold numbers of NumPy as Python's: with few bits, what is computed from them would have few."""
        for name in ("num_relations", "pool_size", "max_degree", "num_negatives"):
            object.__setattr__(self, name, _integer(name, getattr(self, name)))
        if self.drawn_negatives is not None:
            value = _integer("drawn_negatives", self.drawn_negatives)
            object.__setattr__(self, "drawn_negatives", value)
        for name in ("sample_rate", "noise_multiplier", "negative_replacement", "negative_removal"):
            number = getattr(self, name)
            if number is not None or name != "negative_removal":
                object.__setattr__(self, name, _float(name, number))

    @property
    def slots_per_positive(self) -> int:
        """How many distinct negatives one positive takes out of the pool."""
        return self.num_negatives if self.drawn_negatives is None else self.drawn_negatives

    @property
    def available_analyses(self) -> tuple[str, ...]:
        """The analyses whose conditions this step meets."""
        if self.claimed_constant:
            return ("replacement",)
        if self.negative_removal is None or (self.sample_rate == 1 and self.num_negatives > 0):
            return ("replacement",)
        return PROOFS

    def __mul__(self, count: int) -> "Composition":
        """Return this step, taken count times."""
        return Composition(((self, count),))


@dataclass(frozen=True)
class Composition:
    """Steps that ran one after the other: pairs of an event and its count."""

    parts: tuple[tuple[CoupledStep, int], ...]

    def __post_init__(self) -> None:
        for event, count in self.parts:
            if not isinstance(event, CoupledStep):
                raise UnsupportedEvent(
                    f"accountants take CoupledStep events, got {type(event).__name__}. "
                    "An event without a proof has no epsilon."
                )
            check_integer("num_steps", count, error=PlanError)

    def __add__(self, other: "Composition") -> "Composition":
        """Return the steps of both, equal events merged."""
        merged: dict[CoupledStep, int] = {}
        for event, count in (*self.parts, *other.parts):
            merged[event] = merged.get(event, 0) + count
        return Composition(tuple(merged.items()))

    @property
    def num_steps(self) -> int:
        """All steps together."""
        return sum(count for _, count in self.parts)

    @property
    def running(self) -> tuple[tuple[CoupledStep, int], ...]:
        """The parts that ran at least once."""
        return tuple((event, count) for event, count in self.parts if count > 0)

    def analyses(self, analysis: str) -> tuple[str, ...]:
        """Return the analyses to compute for the word of a plan; ``"best"`` is all that every part allows."""
        allowed = [a for a in PROOFS if all(a in e.available_analyses for e, _ in self.parts)]
        if analysis == "best":
            return tuple(allowed)
        check_choice("analysis", analysis, ANALYSES, error=PlanError)
        if analysis not in allowed:
            raise PlanError(
                f"`analysis` {analysis} needs a local clipping rule and a sample rate below 1, "
                "which this plan does not have. Use best or replacement."
            )
        return (analysis,)


def _integer(name: str, value: object) -> int:
    """Return a whole number of any type as Python's."""
    number = as_integer(value)
    if not is_integer(number):
        refuse(name, "a whole number", value, error=PlanError)
    return number


def _float(name: str, value: object) -> float:
    """Return a number of any type as Python's, exactly."""
    if isinstance(value, bool) or not isinstance(value, Real):
        refuse(name, "a number", value, error=PlanError)
    try:
        return float(value)
    except OverflowError:
        refuse(name, "a number that a float can hold", value, error=PlanError)
