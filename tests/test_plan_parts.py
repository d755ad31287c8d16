"""The parts that a plan builds: sampler, clipping rule and noise belong to its numbers."""

from dataclasses import replace

import numpy as np
import pytest

from reldp.clipping import FrequencyClipping, PairClipping, TupleClipping, get_rule
from reldp.errors import PlanError
from reldp.graph import EntityGraph
from reldp.noise import GRID, GaussianNoise, Streams
from reldp.plan import PrivacyPlan
from reldp.reporting.rule_comparison import compare_rules
from reldp.sampling import TupleSampler

KEY = bytes(range(32))


def plan_of(**changes):
    settings = {
        "num_entities": 60, "num_relations": 60, "max_degree": 2, "num_negatives": 2,
        "sample_rate": 0.1, "num_steps": 3, "noise_multiplier": 1.5, "clip_norm": 0.5, "delta": 1e-3,
    }  # fmt: skip
    return PrivacyPlan(**{**settings, **changes})


def ring():
    relations = [(i, (i + 1) % 60) for i in range(60)]
    return EntityGraph.from_lists(range(60), relations, text=["x"] * 60).promise_degrees(2)


def test_the_rule_is_given_by_name_or_as_a_rule_and_read_as_a_rule():
    assert plan_of().clipping == TupleClipping() != PairClipping()
    assert plan_of(clipping=PairClipping()) == plan_of(clipping="pair")
    assert replace(plan_of(), clipping="frequency").clipping == FrequencyClipping()
    assert str(plan_of(clipping="pair").clipping) == "pair"
    assert get_rule(PairClipping()) is not get_rule("tuple")
    with pytest.raises(PlanError, match="`clipping` must be one of"):
        plan_of(clipping="pairs")


def test_json_and_hash_have_the_name_of_the_rule():
    plan = plan_of(clipping=PairClipping())
    assert plan.to_dict()["clipping"] == "pair"
    assert PrivacyPlan.from_json(plan.to_json()) == plan
    assert plan.hash == "744dd383ae74923b7a725c216d7cb8a8556e6013b73e993f3cad97aebb364ddf"


@pytest.mark.parametrize(
    ("changes", "settings"),
    [
        ({}, {}),
        ({"negatives": "public", "pool_size": 25}, {"negatives": "public", "public_pool_size": 25}),
    ],
)
def test_the_sampler_has_the_rate_negatives_and_pool_of_the_plan(changes, settings):
    built = plan_of(**changes).sampler(ring(), Streams(KEY))
    by_hand = TupleSampler(
        ring(), sample_rate=0.1, num_negatives=2, streams=Streams(KEY), **settings
    )
    assert built.pool_size == by_hand.pool_size
    for step in range(5):
        one, other = built.sample(step, 1), by_hand.sample(step, 1)
        assert np.array_equal(one.entities, other.entities)
        assert np.array_equal(one.endpoints, other.endpoints)


def test_a_sampler_needs_a_capped_graph():
    with pytest.raises(PlanError, match="`capped` must be a CappedGraph"):
        plan_of().sampler(ring().graph, Streams(KEY))


@pytest.mark.parametrize("noise_generator", ["secure", "fast"])
def test_the_noise_is_that_of_the_streams_from_the_generator_asked_for(noise_generator):
    with (
        plan_of().noise(Streams(KEY), noise_generator, prefetch=0) as built,
        GaussianNoise(Streams(KEY), noise_generator, prefetch=0) as by_hand,
    ):
        assert np.array_equal(built.draw(3, 0, 7), by_hand.draw(3, 0, 7))


def test_deviation_and_grid_are_in_units_of_the_clip_norm():
    assert plan_of().noise_std == 0.75
    assert plan_of().grid == 0.75 * GRID


def test_a_plan_without_noise_has_neither_noise_nor_grid():
    plan = plan_of(noise_multiplier=0.0)
    assert (plan.noise(Streams(KEY)), plan.grid, plan.noise_std) == (None, None, 0.0)


def test_the_claim_of_the_frequency_rule_is_not_made_for_owners():
    settings = {
        "num_entities": 10_000, "num_relations": 20_000, "max_degree": 5, "num_negatives": 4,
        "expected_batch_size": 32, "num_steps": 5, "delta": 1e-5, "unit": "owner",
    }  # fmt: skip
    with pytest.raises(
        PlanError, match="`clipping` must be tuple or pair where the unit is an owner"
    ):
        PrivacyPlan(**settings, clipping="frequency")
    assert {row.clipping for row in compare_rules(PrivacyPlan(**settings))} == {"tuple", "pair"}
