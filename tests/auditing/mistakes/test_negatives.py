"""Negatives that avoid the endpoints of the batch exceed epsilon: shown by exact enumeration on the audit's own case.

The graph: all 45 relations among ten entities, a partner, and the entity with one relation; one negative per tuple.
With the gradients of ``zero elsewhere``, a step releases the number of tuples that hold the entity plus noise, so its
law follows from the batch size and the number of distinct endpoints in the batch alone.
"""

from math import comb

import numpy as np
from scipy.stats import binom, norm

from reldp.auditing.cases import step_cases
from tests.auditing.mistakes.step import SMALL

HUBS, RELATIONS = 10, 45
(CASE,) = [case for case in step_cases(SMALL) if case.name == "negatives"]
(DELTA,) = CASE.deltas
GRID = np.linspace(-3, 6, 4001)


def distinct_endpoints(size):
    """P[v distinct endpoints] of so many different relations among ten entities, by inclusion and exclusion."""
    total = comb(RELATIONS, size)
    actual = {}
    for v in range(HUBS + 1):
        exactly = sum((-1) ** j * comb(v, j) * comb(comb(v - j, 2), size) for j in range(v + 1))
        actual[v] = comb(HUBS, v) * exactly / total
    assert abs(sum(actual.values()) - 1) < 1e-9
    return actual


def chance_of_entity(size, own, avoiding):
    """P[the entity is the negative of one of the others' tuples]."""
    n = CASE.plan.num_entities
    if not avoiding:
        return size / n
    if own:  # the entity is an endpoint
        return 0.0
    return sum(p * min(1.0, size / max(n - v, 1)) for v, p in distinct_endpoints(size).items())


def density(avoiding):
    """Density of what a step releases on the graph with the entity."""
    rate, sigma = CASE.plan.sample_rate, CASE.plan.noise_multiplier
    actual = np.zeros_like(GRID)
    for size in range(CASE.plan.num_entities):  # larger batches cannot be drawn; P < 1e-3
        for own in (0, 1):
            weight = binom.pmf(size, RELATIONS, rate) * (rate if own else 1 - rate)
            negative = chance_of_entity(size, own, avoiding)
            for j, share in ((0, 1 - negative), (1, negative)):
                actual += weight * share * norm.pdf(GRID, own + j, sigma)
    return actual


def delta_at(epsilon, avoiding):
    """The larger of both directions' deltas."""
    p, q = density(avoiding), norm.pdf(GRID, 0, CASE.plan.noise_multiplier)
    step = GRID[1] - GRID[0]
    gaps = (p - np.exp(epsilon) * q, q - np.exp(epsilon) * p)
    return max(float(np.maximum(gap, 0).sum() * step) for gap in gaps)


def test_the_right_sampler_keeps_the_claim_and_nearly_reaches_it():
    claimed = CASE.plan.__class__(**{**CASE.plan.to_dict(), "delta": DELTA}).epsilon()
    assert 0.97 * DELTA < delta_at(claimed, avoiding=False) <= DELTA


def test_avoiding_endpoints_breaks_it():
    claimed = CASE.plan.__class__(**{**CASE.plan.to_dict(), "delta": DELTA}).epsilon()
    assert delta_at(claimed, avoiding=True) > 1.6 * DELTA
