"""The auditor's encoder: gradients by plain autograd are what the roles promise, and what the engine sums."""

import numpy as np
import pytest

from reldp.auditing.probe import NUM_WEIGHTS, ProbeEncoder, probe_table, unit_gradients
from reldp.auditing.roles import crowded_pair, matched_pair, vectors
from reldp.clipping import get_rule
from reldp.noise.streams import Streams
from reldp.plan import PrivacyPlan
from reldp.sampling import TupleSampler

DIRECTION = np.ones(NUM_WEIGHTS) / NUM_WEIGHTS**0.5
PLAN = PrivacyPlan(
    num_entities=60, num_relations=20, max_degree=3, num_negatives=2, sample_rate=0.5,
    num_steps=1, noise_multiplier=1.0, delta=0.01, clip_norm=0.1,
)  # fmt: skip


def gradients_along(roles, design, present, clipping="tuple"):
    """Gradients along the direction, in clip norms, and the units they belong to, of many steps."""
    graph = roles.pair.with_entity if present else roles.pair.without_entity
    table = probe_table(*vectors(roles, design, present=present, clip_norm=0.1))
    sampler = TupleSampler(graph, sample_rate=0.5, num_negatives=2, streams=Streams(bytes(32)))
    actual, entities, relations = [], [], []
    for step in range(12):
        batch = sampler.sample(step)
        units = get_rule(clipping).units(
            batch.positives,
            batch.negatives,
            clip_norm=0.1,
            endpoints=batch.endpoints,
            mask=batch.mask,
        )
        raw = unit_gradients(table, units.entities, units.endpoints, units.mask)
        assert np.allclose(raw, (raw @ DIRECTION)[:, None] * DIRECTION)  # nothing across it
        keep = ~units.mask.all(axis=1)
        actual.append((raw @ DIRECTION)[keep] / 0.1)
        entities.append(units.entities[keep])
        relations.append(batch.relation_ids[units.tuple_index][keep])
    return np.concatenate(actual), np.concatenate(entities), np.concatenate(relations)


@pytest.mark.parametrize("clipping", ["tuple", "pair"])
@pytest.mark.parametrize(
    "roles",
    [crowded_pair(PLAN), matched_pair(num_entities=60, num_relations=8, max_degree=1)],
    ids=["crowded", "matched"],
)
def test_tuples_with_the_entity_push_one_way_and_all_others_the_other(roles, clipping):
    along, entities, _ = gradients_along(roles, "opposing elsewhere", True, clipping)
    touching = (entities == roles.pair.entity).any(axis=1)
    assert touching.any()
    assert (~touching).any()
    assert (along[touching] > 1000).mean() > 0.95  # but for partners as all negatives
    assert (along[touching] >= 0).all()
    assert (along[~touching] <= 0).all()
    assert (along[~touching] < -10).mean() > 0.7  # a crowd's negatives may be hubs


@pytest.mark.parametrize("present", [True, False])
def test_still_gradients_of_others_are_exactly_zero(present):
    roles = crowded_pair(PLAN)
    along, entities, _ = gradients_along(roles, "zero elsewhere", present)
    touching = (entities == PLAN.num_entities - 1).any(axis=1)
    assert not along[~touching].any()
    assert touching.any() == present


@pytest.mark.parametrize("design", ["zero elsewhere", "opposing elsewhere"])
def test_for_a_relation_only_its_own_tuple_pushes(design):
    plan = PrivacyPlan(**{**PLAN.to_dict(), "unit": "relation"})
    roles = crowded_pair(plan)
    along, _, relations = gradients_along(roles, design, True)
    of_relation = relations == roles.pair.relation
    assert of_relation.any()
    assert (along[of_relation] > 1000).all()
    assert (along[~of_relation] <= 0).all()


def test_the_encoder_is_an_encoder_with_one_trainable_layer():
    encoder = ProbeEncoder(3)
    assert [p.numel() for p in encoder.trainable().values()] == [NUM_WEIGHTS]
    assert encoder.describe()["in_dim"] == 2 * 3 + 2
