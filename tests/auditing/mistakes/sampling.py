"""Mistakes in how batches are drawn, and in the graph that they are drawn from."""

import numpy as np

from reldp.auditing.designs import OPPOSING_ELSEWHERE
from reldp.auditing.mechanism import real_parts
from reldp.auditing.neighbors import worst_pair
from reldp.noise.streams import Streams
from reldp.sampling import TupleBatch
from reldp.sampling.distinct import distinct
from tests.auditing.mistakes.case import Case, pair_of, plan_of, replaced


def with_replacement(plan, graph, key, parts):
    """Negatives drawn independently: one entity can be in many tuples."""
    streams = Streams(key)

    def sample(step):
        right = parts.sample(step)
        stream = streams.stream("mistake/negatives", 0, step)
        places = stream.integers(graph.num_entities, right.negatives.size)
        return TupleBatch(
            positives=right.positives,
            negatives=places.reshape(right.negatives.shape),
            endpoints=right.endpoints,
            relation_ids=right.relation_ids,
        )

    return sample


def fixed_size(plan, graph, key, parts):
    """Batches of exactly b relations, as a shuffling data loader makes them."""
    streams = Streams(key)
    size = round(plan.expected_batch_size)

    def sample(step):
        stream = streams.stream("mistake/shuffle", 0, step)
        ids = distinct(stream, graph.num_relations, size)
        places = distinct(stream, graph.num_entities, size * plan.num_negatives)
        shape = (size, plan.num_negatives)
        return TupleBatch(
            positives=graph.relations[ids],
            negatives=places.reshape(shape),
            endpoints=np.zeros(shape, np.int8),
            relation_ids=ids,
        )

    return sample


def capped_all_but_the_last(max_degree):
    """A loop that ends one entity early: the last keeps all its five relations.

    Our own CappedGraph refuses such relations; only a wrong bound lets them through.
    """
    return pair_of(plan_of(max_degree=max_degree), [(5, 6), (7, 8)], range(5))


REPLACEMENT = plan_of(num_entities=35, num_relations=16, max_degree=1, noise_multiplier=2.0)
FIXED = plan_of(num_relations=4, max_degree=1, sample_rate=0.5)
UNCAPPED = plan_of(num_relations=2, max_degree=2, noise_multiplier=2.0)

CASES = [
    Case(
        letter="d",
        title="negatives with replacement",
        plan=REPLACEMENT,
        pair=worst_pair(REPLACEMENT),
        wrong=replaced(sample=with_replacement),
        design=OPPOSING_ELSEWHERE,
        trials=4000,
    ),
    Case(
        letter="i",
        title="shuffled batches of fixed size, accounted as Poisson",
        plan=FIXED,
        pair=worst_pair(FIXED),
        wrong=replaced(sample=fixed_size),
        design=OPPOSING_ELSEWHERE,
    ),
    Case(
        letter="l",
        title="degree cap that misses the last entity",
        plan=UNCAPPED,
        pair=capped_all_but_the_last(5),
        wrong=real_parts,
        right_pair=worst_pair(UNCAPPED),
        trials=500,
    ),
]
