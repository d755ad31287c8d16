"""The cost of private sizes is computed from the release, and is what calibrating anew says."""

import inspect
from dataclasses import replace

import pytest

from reldp.graph.sizes import SizeBounds
from reldp.plan import PrivacyPlan
from reldp.training.size_cost import noise_increase, size_cost

# About the release of theory.md 2.4: the nouns of WordNet at epsilon 1.
BOUNDS = SizeBounds(
    min_entities=81_000,
    max_relations=63_500,
    source="private",
    epsilon=0.042,
    delta=2e-9,
    expected_entities=82_115,
    expected_relations=58_131,
)
PLAN = PrivacyPlan(
    num_entities=81_000,
    num_relations=63_500,
    max_degree=5,
    num_negatives=4,
    expected_batch_size=64.0,
    num_steps=200,
    delta=1e-6,
    sizes="private",
    sizes_epsilon=0.042,
    sizes_delta=2e-9,
)


def test_the_increase_is_that_of_noise_over_signal():
    plan = PLAN.calibrate(1.0)
    exact = {"num_entities": 82_115, "num_relations": 58_131, "pool_size": 82_115}
    public = PrivacyPlan(
        **exact,
        max_degree=5,
        num_negatives=4,
        expected_batch_size=64.0,
        num_steps=200,
        delta=1e-6,
    ).calibrate(1.0)
    signal = plan.sample_rate * 58_131
    ratio = (plan.noise_multiplier / signal) / (public.noise_multiplier / 64.0)
    found = noise_increase(plan, BOUNDS, 1.0)
    assert found == pytest.approx(ratio - 1, rel=1e-6)
    assert 0.03 < found < 0.15


def test_sizes_that_are_not_private_cost_nothing_to_say():
    for source in ("declared", "public"):
        plan = replace(PLAN, sizes=source, sizes_epsilon=0.0, sizes_delta=0.0)
        bounds = SizeBounds(min_entities=81_000, max_relations=63_500, source=source)
        assert noise_increase(plan, bounds, 1.0) is None
        assert size_cost(plan, bounds, 1.0) == ""


def test_the_sentence_names_bounds_and_cost():
    said = size_cost(PLAN.calibrate(1.0), BOUNDS, 1.0)
    assert "at least 81,000 entities and at most 63,500 relations" in said
    assert "epsilon 0.042, which is included" in said
    assert "higher than with public sizes." in said
    given = size_cost(replace(PLAN, noise_multiplier=1.5), BOUNDS, None)
    assert "with public sizes epsilon would be about" in given


def test_no_graph_is_looked_at():
    """Exact sizes cannot enter: the functions see the plan, the release and the target only."""
    for function in (noise_increase, size_cost):
        assert list(inspect.signature(function).parameters) == ["plan", "bounds", "target_epsilon"]


def test_negatives_of_another_pool_are_compared_too():
    plan = replace(PLAN, negatives="unprotected", pool_size=5000).calibrate(1.0)
    assert noise_increase(plan, BOUNDS, 1.0) > 0
