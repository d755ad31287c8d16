"""Mistakes in the noise."""

import numpy as np

from reldp.auditing.neighbors import worst_pair
from reldp.noise.gaussian import GaussianNoise, add_noise
from reldp.noise.streams import Streams
from tests.auditing.mistakes.case import Case, plan_of, replaced


def none_when_empty(plan, graph, key, parts):
    """An early return on an empty batch: its output is exactly zero."""

    def release(sums, sizes, first):
        return np.where(sizes[:, None] == 0, sums, parts.release(sums, sizes, first))

    return release


def by_realized_size(plan, graph, key, parts):
    """Noise scaled by the batch that was drawn instead of the public expectation."""

    def release(sums, sizes, first):
        noise = parts.release(np.zeros_like(sums), sizes, first)
        return sums + noise * sizes[:, None] / plan.expected_batch_size

    return release


def per_rank(plan, graph, key, parts):
    """Four ranks add noise of a quarter of the deviation each: together half of what is due."""
    ranks = 4
    noise = GaussianNoise(Streams(key), prefetch=0)
    deviation = plan.noise_multiplier * plan.clip_norm / ranks

    def release(sums, sizes, first):
        for rank in range(ranks):
            drawn = noise.draw(first, rank, sums.size).reshape(sums.shape)
            sums = add_noise(sums, drawn, standard_deviation=deviation)
        return sums

    return release


def reused(plan, graph, key, parts):
    """Every second step takes the noise of the step before it."""

    def release(sums, sizes, first):
        noise = parts.release(np.zeros_like(sums), sizes, first)
        return sums + noise[np.arange(len(sums)) // 2 * 2]

    return release


EMPTY = plan_of(num_relations=4, sample_rate=0.2, noise_multiplier=4.0)
SCALED = plan_of(num_relations=1, noise_multiplier=20.0)
RANKS = plan_of(max_degree=1, noise_multiplier=2.0)
TWICE = plan_of(max_degree=1, sample_rate=0.4, num_steps=2)

CASES = [
    Case(
        letter="g",
        title="no noise on an empty batch",
        plan=EMPTY,
        pair=worst_pair(EMPTY),
        wrong=replaced(release=none_when_empty),
    ),
    Case(
        letter="h",
        title="noise scaled by the realized batch size",
        plan=SCALED,
        pair=worst_pair(SCALED),
        wrong=replaced(release=by_realized_size),
        trials=500,
    ),
    Case(
        letter="j",
        title="noise once per rank with the wrong variance",
        plan=RANKS,
        pair=worst_pair(RANKS),
        wrong=replaced(release=per_rank),
        trials=2000,
    ),
    Case(
        letter="n",
        title="the same noise in two steps",
        plan=TWICE,
        pair=worst_pair(TWICE),
        wrong=replaced(release=reused),
        num_steps=2,
        trials=500,
    ),
]
