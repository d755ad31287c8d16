"""Batches that cannot be drawn, and what they add to delta.

A batch of l positives needs k*l distinct negatives; if the pool is smaller the step runs on an empty batch. The
analyses of theory.md 3 hold for batches of at most L = floor((n-1)/k) positives, which both neighbors can draw, and
Theorem B (2.4) covers every graph with at least n entities and at most m relations if the rest is charged: with
p = P[Bin(m+K, gamma) > L], T (1 + e^epsilon) p is added to delta. Where the pool holds no protected entity it is the
same for both neighbors, and L = floor(n/k).

The accountant keeps the anchored component of l = L that belongs to batches of L + 1. That is more mass on the side of
the larger graph by at most (1 + k/n) P[Bin(m, gamma) = L + 1] per step, so the e^epsilon part is charged times
1 + k/n (and times (1 + p k/n)^T, by which the total mass may exceed 1).

Plans for which the charge is not negligible at any epsilon are refused. Where only e^epsilon makes it large, epsilon is
infinite, unless the wide charge of Corollary B is asked for: T P[Bin(m+K, gamma) > L - K - 1], without e^epsilon. It is
for many runs together, whose epsilon may be large; single runs do not use it, so that their numbers stay as they are.

>>> from reldp.accounting.events import CoupledStep
>>> step = CoupledStep(num_relations=1000, pool_size=500, max_degree=5, num_negatives=4, sample_rate=0.01,
...                    noise_multiplier=1.0)
>>> log_overflow(step) < -100
True
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from reldp.accounting.binomial import log_upper_tail
from reldp.accounting.cost import PrivacyCost, check_request
from reldp.accounting.events import Composition, CoupledStep
from reldp.errors import PlanError

__all__ = [
    "composed_cost",
    "cost_with_overflow",
    "log_overflow",
    "log_wide_overflow",
    "overflow_charge",
]

TOLERATED = 0.05  # largest share of delta that undrawable batches may take
LEAST = 1e-9  # share of delta that is set aside for them in any case


def log_overflow(event: CoupledStep) -> float:
    """Log of an upper bound on the probability that one step's batch cannot be drawn."""
    k = event.slots_per_positive
    if k == 0:
        return -math.inf
    smaller = event.pool_size - 1 if event.pool_shrinks else event.pool_size
    return log_upper_tail(event.num_relations + event.max_degree, event.sample_rate, smaller // k)


def log_wide_overflow(event: CoupledStep) -> float:
    """Log of an upper bound on the probability that one step's batch is among the K + 1 largest, or cannot be drawn."""
    k = event.slots_per_positive
    if k == 0:
        return -math.inf
    smaller = event.pool_size - 1 if event.pool_shrinks else event.pool_size
    limit = smaller // k - event.max_degree - 1
    if limit < 0:
        return 0.0
    return log_upper_tail(event.num_relations + event.max_degree, event.sample_rate, limit)


def cost_with_overflow(
    composition: Composition,
    delta: float,
    cost: Callable[[float], PrivacyCost],
    *,
    wide_charge: bool = False,
) -> PrivacyCost:
    """Return the privacy cost at delta when undrawable batches take their part of delta first.

    Args:
        composition: The steps.
        delta: The whole delta.
        cost: Privacy cost of the steps themselves at a given delta; its epsilon falls as delta grows.
        wide_charge: Whether to use Corollary B where Theorem B gives an infinite epsilon.
    """
    log_probability = _log_probability(composition, log_overflow)
    if log_probability == -math.inf:
        return cost(delta)
    if log_probability + math.log(2.0) > math.log(TOLERATED * delta):
        raise PlanError(
            "`num_negatives` times the batch size must stay well below the pool of negatives: "
            "batches that cannot be drawn would take too large a part of `delta`. "
            "Use fewer negatives, a smaller batch or a larger pool."
        )
    log_factor = _log_factor(composition)
    share = LEAST
    for _ in range(16):
        best = replace(cost(delta * (1 - share)), delta=delta)
        needed = _share(log_probability, log_factor + best.epsilon, delta)
        if needed <= share:
            return best
        if needed > TOLERATED:
            break
        share = min(2 * needed, TOLERATED)
    if wide_charge and not any(event.claimed_constant for event, _ in composition.running):
        share = _share(_log_probability(composition, log_wide_overflow), -math.inf, delta)
        if share <= TOLERATED:
            return replace(cost(delta * (1 - max(share, LEAST))), delta=delta)
    return replace(best, epsilon=math.inf)


def overflow_charge(composition: Composition, epsilon: float) -> float:
    """Return what undrawable batches add to delta at an epsilon, by Theorem B; at most 1."""
    log_probability = _log_probability(composition, log_overflow)
    if log_probability == -math.inf:
        return 0.0
    return min(_share(log_probability, _log_factor(composition) + epsilon, 1.0), 1.0)


def composed_cost(
    composition: Composition,
    delta: float,
    accountant: str,
    analysis: str,
    cost: Callable[[tuple[str, ...], float], PrivacyCost],
    *,
    wide_charge: bool = False,
) -> PrivacyCost:
    """Return the smallest privacy cost at delta of the analyses asked for; every accountant does it like this.

    Args:
        composition: The steps.
        delta: The whole delta.
        accountant: Name of the accountant.
        analysis: ``"best"``, ``"anchored"`` or ``"replacement"``.
        cost: Smallest privacy cost of noisy steps by some analyses, at a given delta.
        wide_charge: As in `cost_with_overflow`.
    """
    check_request(composition, delta)
    analyses = composition.analyses(analysis)
    if not composition.running:
        return PrivacyCost(0.0, delta, accountant, analyses[0])
    if any(event.noise_multiplier == 0 for event, _ in composition.running):
        return PrivacyCost(math.inf, delta, accountant, analyses[0])
    return cost_with_overflow(
        composition, delta, lambda target: cost(analyses, target), wide_charge=wide_charge
    )


def _log_probability(
    composition: Composition, log_of_step: Callable[[CoupledStep], float]
) -> float:
    """Log of an upper bound on the probability of an event in any step, from bounds for single steps."""
    logs = [math.log(count) + log_of_step(event) for event, count in composition.running]
    return max(logs, default=-math.inf) + math.log(max(len(logs), 1))


def _log_factor(composition: Composition) -> float:
    """Log of how much the anchored component that the accountant keeps at l = L raises the e^epsilon part.

    The excess masses of all steps multiply, whatever their events.
    """
    largest, total = 0.0, 0.0
    for event, count in composition.running:
        ratio = event.num_negatives / event.pool_size
        largest = max(largest, math.log1p(ratio))
        total += count * math.exp(log_overflow(event)) * ratio
    return largest + total


def _share(log_probability: float, exponent: float, delta: float) -> float:
    """Return the share (1 + e^exponent) p / delta of delta that undrawable batches need."""
    log_share = log_probability + float(np.logaddexp(0.0, exponent)) - math.log(delta)
    return math.exp(min(log_share, 700.0))
