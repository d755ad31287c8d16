"""How well any attack can tell two neighboring graphs apart: upper bounds on the true-positive rate (theory.md 3.6).

An attack raises an alarm on some set of outputs. Its false-positive rate is the probability of an alarm where there is
nothing to find, its true-positive rate the probability of an alarm where there is. Each pair (epsilon, delta) of a
mechanism bounds the second by the first, in two ways; the least of these bounds over many epsilons is a concave
curve that no attack exceeds. Every delta here is an upper bound, so every finite set of epsilons gives an upper bound.

There are two questions: was the entity in the training graph (``presence``), or was it not (``absence``)? Their curves
differ, because removal and insertion differ (theory.md 1).

>>> from reldp.accounting.events import CoupledStep
>>> step = CoupledStep(num_relations=100, pool_size=100, max_degree=1, num_negatives=0, sample_rate=1.0,
...                    noise_multiplier=2.0)
>>> curve = trade_off(step * 1, "replacement")  # the Gaussian mechanism with mu = 1 / 2
>>> [round(float(rate), 3) for rate in curve.power(np.array([0.01, 0.1]), "presence")]
[0.034, 0.217]
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reldp._validate import check_choice
from reldp.accounting.dominating import dominating_pair
from reldp.accounting.events import Composition
from reldp.accounting.overflow import overflow_charge
from reldp.accounting.pld import EpsilonSearch
from reldp.errors import PlanError

__all__ = ["QUESTIONS", "TradeOff", "group_delta", "trade_off"]

Array = npt.NDArray[np.floating[Any]]

QUESTIONS = ("presence", "absence")
SMALLEST = 1e-6  # the delta that the grid is made for: false-positive rates far above it are read
POINTS = 320  # epsilons


@dataclass(frozen=True)
class TradeOff:
    """Upper bounds on delta at some epsilons, and the bounds on attacks that follow from them.

    Attributes:
        epsilons: 0 or more, increasing.  (E,)
        removal: Deltas of the first inequality of theory.md 1.  (E,)
        insertion: Deltas of the second.  (E,)
    """

    epsilons: Array
    removal: Array
    insertion: Array

    def power(self, rates: npt.ArrayLike, question: str) -> Array:
        """Return upper bounds on the true-positive rate of every attack, by its false-positive rate.

        Args:
            rates: False-positive rates.  (A,)
            question: ``"presence"``: an alarm says that the entity was in the training graph; ``"absence"``: that it
                was not.

        Returns:
            The bounds, at least the rates and at most 1.  (A,)
        """
        check_choice("question", question, QUESTIONS, error=PlanError)
        there, back = self.removal, self.insertion
        if question == "absence":
            there, back = back, there
        false = np.asarray(rates, dtype=np.float64)[:, None]
        with np.errstate(over="ignore"):
            alarm = np.exp(self.epsilons) * false + there  # the inequality for the alarms
        silence = 1 - np.exp(-self.epsilons) * (1 - false - back)  # and for everything else
        least: Array = np.minimum(alarm.min(axis=1), silence.min(axis=1))
        return np.clip(least, false[:, 0], 1.0)

    def group_power(self, rates: npt.ArrayLike, question: str, size: int) -> Array:
        """Return the same for a group of entities: the curve, applied once for each of them."""
        power: Array = np.asarray(rates, dtype=np.float64)
        for _ in range(size):
            power = self.power(power, question)
        return power

    def advantage(self) -> float:
        """Return an upper bound on the difference of true- and false-positive rate of every attack."""
        rise = np.expm1(np.minimum(self.epsilons, 700.0))
        fall = np.exp(-self.epsilons)
        # Where the two bounds of one epsilon meet, their distance from the false-positive rate is largest.
        with np.errstate(divide="ignore", invalid="ignore"):
            meet = (1 - self.removal - fall * (1 - self.insertion)) / (rise + 1 - fall)
            largest = np.where(self.epsilons > 0, rise * meet + self.removal, self.removal)
        return float(np.clip(largest.min(), 0.0, 1.0))

    def shifted(self, epsilon: float, delta: float) -> "TradeOff":
        """Return the trade-off of this and of a release that is (epsilon, delta)-differentially private."""
        deltas = (np.minimum(values + delta, 1.0) for values in (self.removal, self.insertion))
        if epsilon == 0:
            return TradeOff(self.epsilons, *deltas)
        # At epsilon 0 nothing but 1 is known.
        removal, insertion = (np.concatenate([[1.0], values]) for values in deltas)
        return TradeOff(np.concatenate([[0.0], self.epsilons + epsilon]), removal, insertion)


def trade_off(composition: Composition, analysis: str) -> TradeOff:
    """Return upper bounds on the power of all attacks on noisy steps, with undrawable batches charged.

    Args:
        composition: The steps; at least one ran, and all have noise.
        analysis: ``"anchored"`` or ``"replacement"``, which every step must allow.

    Raises:
        PlanError: The steps have no noise, none ran, or the analysis is not for them.
    """
    if not composition.running or any(e.noise_multiplier == 0 for e, _ in composition.running):
        raise PlanError("`composition` must have noisy steps that ran, got none. Check the plan.")
    (name,) = composition.analyses(analysis)
    log_tail = math.log(SMALLEST) - math.log(composition.num_steps) - 25.0
    pairs = [(dominating_pair(event, name, log_tail), n) for event, n in composition.running]
    search = EpsilonSearch(pairs, SMALLEST)
    while not search.settled:
        search.refine()
    epsilons = np.linspace(0.0, max(search.epsilon, 1e-6), POINTS)
    charge = np.array([overflow_charge(composition, epsilon) for epsilon in epsilons])
    removal, insertion = (
        np.minimum(direction.divergences(epsilons) + charge, 1.0) for direction in search.composed
    )
    return TradeOff(epsilons, removal, insertion)


def group_delta(epsilon: float, delta: float, size: int) -> float:
    """Return the delta that goes with size * epsilon for a group of entities (theory.md 6); at most 1.

    >>> group_delta(0.0, 2.0**-20, 5) * 2**20, group_delta(4.0, 1e-6, 10)
    (5.0, 1.0)
    """
    if math.isinf(epsilon):
        return 1.0
    exponents = np.arange(size) * epsilon
    return float(min(np.exp(np.minimum(exponents, 700.0)).sum() * delta, 1.0))
