"""Plans whose sizes are bounds: private, declared or public."""

import math
from dataclasses import replace

import numpy as np
import pytest

from reldp.errors import PlanError, UnreachableTarget
from reldp.graph import EntityGraph
from reldp.graph.sizes import has_release
from reldp.plan import PrivacyPlan
from tests.test_plan import make

PRIVATE = {"sizes": "private", "sizes_epsilon": 0.04, "sizes_delta": 2e-7}


def test_private_sizes_add_their_cost_to_that_of_the_steps():
    plan, steps = make(**PRIVATE), make(delta=1e-5 - 2e-7)
    assert plan.privacy_cost().epsilon == steps.price().epsilon + 0.04
    assert plan.privacy_cost().delta == 1e-5
    assert plan.epsilon("rdp") == steps.epsilon("rdp") + 0.04
    assert plan.epsilon(num_steps=0) == 0.04
    assert replace(plan, noise_multiplier=0.0).epsilon() == math.inf


def test_a_private_plan_is_calibrated_and_extended_with_its_sizes_included():
    plan = make(**PRIVATE).calibrate(2.0)
    assert 1.99 < plan.epsilon() <= 2.0
    assert plan.noise_multiplier > make().calibrate(2.0).noise_multiplier
    longer = make(**PRIVATE).extend(3.0)
    assert longer.epsilon() <= 3.0 < longer.epsilon(num_steps=longer.num_steps + 1)
    assert longer.num_steps < make().extend(3.0).num_steps
    for search in (make(**PRIVATE).extend, make(**PRIVATE).calibrate):
        with pytest.raises(
            UnreachableTarget, match=r"must be above 0\.04, which the private sizes cost"
        ):
            search(0.04)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"sizes": "exact"}, "sizes"),
        ({"sizes_epsilon": 0.1}, "sizes_epsilon"),
        ({"sizes_delta": 1e-9}, "sizes_delta"),
        ({"sizes": "declared", "sizes_epsilon": 0.1}, "sizes_epsilon"),
        ({**PRIVATE, "sizes_epsilon": 0.0}, "sizes_epsilon"),
        ({**PRIVATE, "sizes_epsilon": math.inf}, "sizes_epsilon"),
        ({**PRIVATE, "sizes_delta": 0.0}, "sizes_delta"),
        ({**PRIVATE, "sizes_delta": 1e-5}, "sizes_delta"),
    ],
)
def test_costs_of_sizes_are_stated_where_there_are_some(changes, name):
    with pytest.raises(PlanError, match=f"`{name}` must be"):
        make(**changes)


@pytest.fixture(scope="module")
def large():
    size = 20_000
    graph = EntityGraph.from_lists(
        list(range(size)),
        [(i, (i + step) % size) for i in range(size) for step in (1, 2)],
        features=np.zeros((size, 1), dtype=np.float32),
        protected=[i >= 5_000 for i in range(size)],
    )
    return graph.promise_degrees(4)


LARGE = {"num_negatives": 4, "expected_batch_size": 32, "num_steps": 200}


def test_a_plan_for_a_graph_has_private_sizes_unless_told_otherwise(large):
    """False alarm: the bounds fail with probability below 1e-7."""
    plan = PrivacyPlan.for_graph(large, target_epsilon=4.0, **LARGE)
    assert plan.sizes == "private"
    assert plan.num_entities < 20_000
    assert plan.num_relations > 40_000
    assert plan.pool_size == plan.num_entities
    assert plan.sample_rate == 32 / plan.num_relations
    assert plan.delta == 0.1 / plan.num_entities
    assert plan.sizes_epsilon > 0
    assert 3.9 < plan.epsilon() <= 4.0
    again = PrivacyPlan.for_graph(large, target_epsilon=4.0, **LARGE)
    assert again == plan


def test_a_delta_that_is_given_is_kept_and_pays_for_failing_bounds_only(large):
    plan = PrivacyPlan.for_graph(large, delta=1e-6, **LARGE)
    default = PrivacyPlan.for_graph(large, **LARGE)
    assert plan.delta == 1e-6
    assert plan.sizes_delta < default.sizes_delta
    with pytest.raises(PlanError, match="`sizes_delta` must be above 0 and below delta"):
        PrivacyPlan.for_graph(large, delta=1e-15, **LARGE)


def test_a_plan_for_a_graph_takes_declared_sizes(large):
    bounds = {"min_entities": 10_000, "max_relations": 100_000}
    plan = PrivacyPlan.for_graph(large, sizes="declared", **bounds, **LARGE)
    assert (plan.num_entities, plan.num_relations) == (10_000, 100_000)
    assert (plan.sizes, plan.sizes_epsilon, plan.delta) == ("declared", 0.0, 1e-5)
    unprotected = {"negatives": "unprotected", "pool_size": 4_000}
    plan = PrivacyPlan.for_graph(large, sizes="declared", **bounds, **LARGE, **unprotected)
    assert plan.pool_size == 4_000
    with pytest.raises(PlanError, match="`max_relations` must be at least"):
        PrivacyPlan.for_graph(
            large, sizes="declared", min_entities=10, max_relations=39_999, **LARGE
        )


def test_pools_of_a_graph_with_private_sizes(large):
    plan = PrivacyPlan.for_graph(large, negatives="unprotected", **LARGE)
    assert 0 < plan.pool_size < 5_000 <= plan.num_entities
    plan = PrivacyPlan.for_graph(large, negatives="public", pool_size=777, **LARGE)
    assert plan.pool_size == 777


def test_a_plan_with_private_sizes_round_trips():
    assert PrivacyPlan.from_json(make(**PRIVATE).to_json()) == make(**PRIVATE)
    assert make(**PRIVATE).hash != make().hash


@pytest.mark.parametrize(
    "wrong",
    [
        {"noise_multiplier": -1.0},
        {"num_steps": 10**30},
        {"num_negatives": -1},
        {"expected_batch_size": 1e30},
        {"sample_rate": 0.1},
        {"clipping": "nothing"},
        {"analysis": "nothing"},
        {"negatives": "public"},
        {"clip_norm": 0.0},
    ],
)
def test_a_setting_that_no_sizes_admit_is_refused_before_sizes_are_released(
    large, wrong, tmp_path, monkeypatch
):
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path))
    with pytest.raises(
        PlanError, match=next(iter(wrong)) if "negatives" not in wrong else "pool_size"
    ):
        PrivacyPlan.for_graph(large, **(LARGE | wrong))
    assert not has_release(large)


def test_unprotected_negatives_need_the_column_before_sizes_are_released(tmp_path, monkeypatch):
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path))
    bare = EntityGraph.from_lists(["a", "b"], [("a", "b")], text=["x", "y"]).cap_degrees(1, seed=0)
    with pytest.raises(PlanError, match="without a column `protected`, all entities of the graph"):
        PrivacyPlan.for_graph(bare, target_epsilon=4.0, negatives="unprotected", num_steps=9)
    assert not has_release(bare)


def test_settings_of_a_rule_are_admitted_before_sizes_are_released(large, tmp_path, monkeypatch):
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path))
    pool = {"negatives": "public", "pool_size": 100_000}  # enough for this graph, not for any
    plan = PrivacyPlan.for_graph(large, sample_rate=0.5, num_negatives=4, num_steps=9, **pool)
    assert plan.sample_rate == 0.5
    assert has_release(large)
