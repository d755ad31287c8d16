"""Batches that cannot be drawn, and what they add to delta.

A batch of l positives needs k*l distinct negatives; if the pool is smaller the step runs on an empty batch. Let p be
the larger of P[Bin(m+K, gamma) > n/k] and P[Bin(m, gamma) > (n-1)/k]: theory.md section 1 adds T (1 + e^epsilon) p to
delta. Plans for which that is not negligible at any epsilon are refused; where only e^epsilon makes it large the
price is infinite.

>>> from reldp.accounting.events import CoupledStep
>>> step = CoupledStep(num_relations=1000, pool_size=500, max_degree=5, num_negatives=4, sample_rate=0.01,
...                    noise_multiplier=1.0)
>>> log_overflow(step) < -100
True
"""

import math
from collections.abc import Callable

from reldp.accounting.binomial import log_upper_tail
from reldp.accounting.events import Composition, CoupledStep
from reldp.errors import PlanError

__all__ = ["epsilon_with_overflow", "log_overflow"]

TOLERATED = 0.05  # largest share of delta that undrawable batches may take


def log_overflow(event: CoupledStep) -> float:
    """Log of an upper bound on the probability that one step's batch cannot be drawn."""
    k = event.slots_per_positive
    if k == 0:
        return -math.inf
    smaller = event.pool_size - 1 if event.pool_shrinks else event.pool_size
    larger = log_upper_tail(
        event.num_relations + event.max_degree, event.sample_rate, event.pool_size / k
    )
    return max(larger, log_upper_tail(event.num_relations, event.sample_rate, smaller / k))


def epsilon_with_overflow(
    composition: Composition, delta: float, price: Callable[[float], float]
) -> float:
    """Epsilon at delta when undrawable batches take their part of delta first.

    Args:
        composition: The steps.
        delta: The whole delta.
        price: Epsilon of the steps themselves at a given delta, decreasing in it.
    """
    logs = [math.log(count) + log_overflow(event) for event, count in composition.running]
    log_probability = max(logs, default=-math.inf) + math.log(max(len(logs), 1))
    if log_probability == -math.inf:
        return price(delta)
    if log_probability + math.log(2.0) > math.log(TOLERATED * delta):
        raise PlanError(
            "`num_negatives` times the batch size must stay well below the pool of negatives: "
            "batches that cannot be drawn would take too large a part of `delta`. "
            "Use fewer negatives, a smaller batch or a larger pool."
        )
    epsilon = price(delta)
    for _ in range(8):
        log_share = log_probability + epsilon + math.log1p(math.exp(-epsilon)) - math.log(delta)
        if log_share > math.log(TOLERATED):
            return math.inf
        if log_share < math.log(1e-12):
            return epsilon
        raised = price(delta * -math.expm1(log_share))
        if raised <= epsilon * (1 + 1e-9):
            return raised
        epsilon = raised
    return math.inf
