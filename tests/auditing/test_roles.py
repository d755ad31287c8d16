import numpy as np
import pytest

from reldp.auditing.roles import crowded_pair, matched_pair, vectors
from reldp.errors import PlanError
from reldp.plan import PrivacyPlan


def plan_of(**changes):
    settings = {
        "num_entities": 60, "num_relations": 20, "max_degree": 3, "num_negatives": 2,
        "sample_rate": 0.1, "num_steps": 1, "noise_multiplier": 1.0, "delta": 0.01,
    }  # fmt: skip
    return PrivacyPlan(**{**settings, **changes})


@pytest.mark.parametrize(
    "changes",
    [{}, {"negatives": "unprotected", "pool_size": 30}, {"negatives": "public", "pool_size": 9}],
    ids=["entities", "unprotected", "public"],
)
def test_the_graphs_have_the_plans_sizes_and_differ_in_one_entity(changes):
    plan = plan_of(**changes)
    pair = crowded_pair(plan).pair
    assert pair.with_entity.num_entities == plan.num_entities
    assert pair.without_entity.num_entities == plan.num_entities - 1
    assert pair.without_entity.num_relations == plan.num_relations
    assert pair.with_entity.num_relations == plan.num_relations + plan.max_degree
    assert pair.with_entity.protected[pair.entity]
    if plan.negatives == "unprotected":
        assert np.count_nonzero(~pair.with_entity.protected) == plan.pool_size


def test_for_a_relation_the_graphs_differ_in_it_alone():
    pair = crowded_pair(plan_of(unit="relation")).pair
    assert pair.entity is None
    assert pair.with_entity.num_entities == pair.without_entity.num_entities == 60
    assert np.array_equal(pair.with_entity.relations[:-1], pair.without_entity.relations)


def test_a_matched_graph_shares_no_endpoint():
    roles = matched_pair(num_entities=30, num_relations=8, max_degree=2)
    relations = roles.pair.without_entity.relations
    assert len(np.unique(relations)) == relations.size
    assert sorted(set(roles.dimensions.tolist())) == list(range(1, 9))


def test_a_graph_that_cannot_be_built_is_refused():
    with pytest.raises(PlanError, match="`num_relations` must fit between 5 entities, got 20"):
        crowded_pair(plan_of(num_entities=6))
    with pytest.raises(PlanError, match="two of 7 entities free"):
        crowded_pair(plan_of(num_entities=7, unit="relation", num_relations=15))


def test_only_the_entity_differs_between_the_two_tables():
    roles = crowded_pair(plan_of())
    larger = vectors(roles, "opposing elsewhere", present=True, clip_norm=1.0)
    smaller = vectors(roles, "opposing elsewhere", present=False, clip_norm=1.0)
    for one, other in zip(larger, smaller, strict=True):
        assert np.array_equal(one[:-1], other)
        assert one[-1].any()
