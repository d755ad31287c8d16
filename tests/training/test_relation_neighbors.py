"""An owner whose entities have one relation together leaves: how far the real step's sum moves (theory.md 2.6).

Negatives are other relations. With all other draws the same, the sum moves by at most i + j clip norms: i is 1 if the
owner's relation is sampled, and j is 1 if it is drawn for another tuple. Other tuples do not move at all. The control
has an owner with two relations, which no plan admits: both are drawn, for two tuples, and the sum moves further.
"""

import numpy as np
import pytest
import torch

from reldp.encoders import FeatureEncoder
from reldp.errors import PlanError
from reldp.graph import EntityGraph
from reldp.noise import Streams
from reldp.sampling.sampler import TupleSampler
from tests.training.small import make_step, small_plan
from tests.training.test_owner_neighbors import movement

torch.set_num_threads(1)

PAIRS = 24  # relations, each of two entities; the last entities have one owner, "u"


def matching(*, relations_of_u, seed=3):
    """Pairs of entities; u owns one entity of each of its relations, and two entities without one."""
    rng = np.random.default_rng(seed)
    count = 2 * PAIRS + 2
    features = rng.normal(size=(count, 6))
    owner = [None] * count
    for place in [*range(2 * PAIRS - 2 * relations_of_u, 2 * PAIRS, 2), count - 2, count - 1]:
        owner[place], features[place] = "u", 3.0
    pairs = [(2 * i, 2 * i + 1) for i in range(PAIRS)]
    graph = EntityGraph.from_lists(
        list(range(count)), pairs, features=features.astype(np.float32), owner=owner
    )
    return graph.promise_degrees(relations_of_u)


def opened(capped, settings):
    plan = small_plan(
        capped, negatives="relations", num_negatives=2, expected_batch_size=4.0, noise_multiplier=4.0,
        clip_norm=1e-3, delta=0.1,
    )  # fmt: skip
    step = make_step(FeatureEncoder(6, dim=4, seed=3), capped, plan, **settings)
    step.open(Streams(bytes(32)))
    return plan, step


def movements(plan, step, capped, sampler):
    """The `movement` of every batch that is not empty."""
    batches = (sampler.sample(number) for number in range(80))
    return [movement(plan, step, capped, batch) for batch in batches if batch.num_tuples]


@pytest.mark.parametrize("settings", [{}, {"loss": "hinge"}])
def test_one_owner_moves_the_sum_by_its_relation_and_one_draw(settings):
    capped = matching(relations_of_u=1)
    plan, step = opened(capped, settings)
    assert (plan.unit, plan.pool_size) == ("owner", PAIRS)
    seen = set()
    for i, j, moved, others_stay in movements(
        plan, step, capped, plan.sampler(capped, Streams(bytes(32)))
    ):
        assert max(i, j) <= 1
        assert moved <= i + j
        assert others_stay
        seen.add((int(i), int(j)))
    step.close()
    assert seen == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_an_owner_with_two_relations_moves_it_further_and_is_refused():
    capped = matching(relations_of_u=2)
    with pytest.raises(
        PlanError, match="`max_degree` must be 1 when negatives are other relations"
    ):
        opened(capped, {})
    plan, step = opened(matching(relations_of_u=1), {})  # the same entities and relations
    sampler = TupleSampler(
        capped,
        sample_rate=plan.sample_rate,
        num_negatives=2,
        streams=Streams(bytes(32)),
        negatives="relations",
    )
    moves = movements(plan, step, capped, sampler)
    step.close()
    assert max(j for _, j, _, _ in moves) == 2
    assert max(moved - min(i, 1) - 1 for i, _, moved, _ in moves) > 0.3
