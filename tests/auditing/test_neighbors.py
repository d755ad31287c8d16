import numpy as np
import pytest

from reldp.auditing.neighbors import pair_from_relations, worst_pair
from reldp.errors import GraphError, PlanError
from reldp.plan import PrivacyPlan


def plan(**changes):
    settings = {
        "num_entities": 12, "num_relations": 30, "max_degree": 3, "num_negatives": 2,
        "sample_rate": 0.1, "num_steps": 1, "noise_multiplier": 1.0, "delta": 0.01,
    }  # fmt: skip
    return PrivacyPlan(**{**settings, **changes})


def test_the_graphs_differ_in_the_entity_and_its_relations_alone():
    pair = worst_pair(plan())
    more, less = pair.with_entity, pair.without_entity
    assert (more.num_entities, less.num_entities) == (12, 11)
    assert (more.num_relations, less.num_relations) == (33, 30)
    touching = (more.relations == pair.entity).any(axis=1)
    assert touching.sum() == 3
    np.testing.assert_array_equal(more.relations[~touching], less.relations)
    assert more.protected[pair.entity]


@pytest.mark.parametrize("size", [11, 12])
def test_a_full_graph_has_no_relation_twice(size):
    pair = worst_pair(plan(num_entities=size + 1, num_relations=size * (size - 1) // 2,
                           num_negatives=0))  # fmt: skip
    endpoints = np.sort(pair.without_entity.relations, axis=1)
    assert len(np.unique(endpoints, axis=0)) == size * (size - 1) // 2


def test_pools_have_the_size_that_the_plan_claims():
    pair = worst_pair(plan(negatives="unprotected", pool_size=9))
    for graph in (pair.with_entity, pair.without_entity):
        assert np.count_nonzero(~graph.protected) == 9


def test_relation_neighbors_differ_in_the_last_relation():
    pair = worst_pair(plan(unit="relation"))
    assert pair.with_entity.num_entities == pair.without_entity.num_entities == 12
    assert pair.with_entity.num_relations == 31
    assert pair.entity is None
    assert pair.relation == 30


def test_sizes_that_form_no_graph_are_refused():
    with pytest.raises(PlanError, match="`num_relations` must fit between 11 entities"):
        worst_pair(plan(num_relations=56, num_negatives=0))
    with pytest.raises(PlanError, match="`pool_size` must leave out"):
        worst_pair(plan(negatives="unprotected", pool_size=12))


def test_a_degree_above_the_bound_is_refused_by_the_graph_itself():
    with pytest.raises(GraphError, match="max_degree"):
        pair_from_relations([(0, 1)], entity_relations=[0, 1, 2], num_entities=5, max_degree=2)


def test_owner_neighbors_differ_in_an_owner_with_all_its_entities():
    pair = worst_pair(plan(unit="owner"))
    more, less = pair.with_entity, pair.without_entity
    assert (more.num_units, less.num_units) == (12, 11)
    assert (more.num_entities, less.num_entities) == (14, 11)
    assert (more.num_relations, less.num_relations) == (33, 30)
    touching = pair.holds(more.relations).any(axis=1)
    assert touching.sum() == 3
    assert len(np.unique(more.relations[touching].max(axis=1))) == 3  # each entity has one of them
    np.testing.assert_array_equal(more.relations[~touching], less.relations)
    assert more.protected_units[more.owners[pair.entity]]
    assert more.graph.owner_degrees.max() >= 3 == more.graph.owner_degrees[-1]
