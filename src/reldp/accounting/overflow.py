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
from dataclasses import replace

import numpy as np

from reldp.accounting.binomial import log_upper_tail
from reldp.accounting.events import Composition, CoupledStep
from reldp.accounting.price import Price
from reldp.errors import PlanError

__all__ = ["log_overflow", "price_with_overflow"]

TOLERATED = 0.05  # largest share of delta that undrawable batches may take
LEAST = 1e-9  # share of delta that is set aside for them in any case


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


def price_with_overflow(
    composition: Composition, delta: float, price: Callable[[float], Price]
) -> Price:
    """The price at delta when undrawable batches take their part of delta first.

    Args:
        composition: The steps.
        delta: The whole delta.
        price: Price of the steps themselves at a given delta; its epsilon falls as delta grows.
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
    share = LEAST
    for _ in range(16):
        found = replace(price(delta * (1 - share)), delta=delta)
        needed = _share(log_probability, found.epsilon, delta)
        if needed <= share:
            return found
        if needed > TOLERATED:
            break
        share = min(2 * needed, TOLERATED)
    return replace(found, epsilon=math.inf)


def _share(log_probability: float, epsilon: float, delta: float) -> float:
    """The share (1 + e^epsilon) p / delta of delta that undrawable batches need."""
    log_share = log_probability + float(np.logaddexp(0.0, epsilon)) - math.log(delta)
    return math.exp(min(log_share, 700.0))
