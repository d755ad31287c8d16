"""The audit of the mechanism with owners: ours is not refuted, negatives by entity are."""

import dataclasses

import pytest

from reldp.auditing.audit import audit_mechanism
from reldp.auditing.designs import ZERO_ELSEWHERE
from reldp.auditing.mechanism import real_parts
from reldp.auditing.neighbors import worst_pair
from reldp.graph import EntityGraph
from reldp.noise.streams import Streams
from reldp.plan import PrivacyPlan

PLAN = PrivacyPlan(
    num_entities=12, num_relations=45, max_degree=1, num_negatives=1, sample_rate=1 / 15,
    num_steps=1, noise_multiplier=0.35, delta=0.22, unit="owner",
)  # fmt: skip


def by_entity(plan, graph, key):
    """Our parts with negatives that are drawn among entities: three of fourteen are the owner's."""
    parts = real_parts(plan, graph, key)
    plain = EntityGraph(
        entities=graph.graph.entities.drop_columns("owner"), relations=graph.relations
    )
    sampler = plan.sampler(plain.promise_degrees(plan.num_relations), Streams(key))
    return dataclasses.replace(parts, sample=sampler.sample)


def audited(parts, seed):
    return audit_mechanism(
        PLAN,
        trials=4000,
        num_steps=1,
        deltas=[PLAN.delta],
        confidence=0.99,
        key=bytes([seed]) * 32,
        designs=[ZERO_ELSEWHERE],
        pair=worst_pair(PLAN),
        parts=parts,
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_negatives_that_are_drawn_by_owner_are_not_refuted(seed):
    assert not audited(real_parts, seed).refuted


def test_negatives_that_are_drawn_by_entity_are_refuted():
    assert audited(by_entity, 3).refuted
