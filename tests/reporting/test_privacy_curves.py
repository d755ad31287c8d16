"""The numbers of a report are those of the accountant, and every one of them is an upper bound."""

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from reldp.accounting.tradeoff import QUESTIONS, trade_off
from reldp.plan import PrivacyPlan
from reldp.reporting.privacy_curves import (
    GROUPS,
    RATES,
    degrees_to_show,
    privacy_curves,
)
from tests.reporting.example import PLAN, sized_plan


def curves_of(plan):
    cost = plan.privacy_cost("pld")
    return privacy_curves(plan, plan.num_steps, cost.epsilon, cost.analysis)


@pytest.fixture(scope="module", params=["public", "private"])
def curves(request):
    return curves_of(sized_plan(request.param))


def test_epsilons_are_those_of_the_accountant(curves):
    plan = curves.plan
    assert [d for d, _ in curves.by_degree] == [1, 2, 3, 4, 5]
    for degree, epsilon in curves.by_degree:
        assert epsilon == replace(plan, max_degree=degree).epsilon("pld")
    for delta, epsilon in curves.by_delta:
        assert epsilon == replace(plan, delta=delta).epsilon("pld")
    for steps, epsilon in curves.by_steps:
        assert epsilon == plan.epsilon("pld", steps)
    assert curves.by_steps[-1] == (plan.num_steps, curves.epsilon)
    assert (plan.delta, curves.epsilon) in curves.by_delta
    assert len(curves.by_delta) >= 4


def test_they_move_in_the_right_direction(curves):
    for points, sign in ((curves.by_degree, 1), (curves.by_steps, 1), (curves.by_delta, 1)):
        epsilons = np.array([epsilon for _, epsilon in points])
        assert (sign * np.diff(epsilons) > 0).all()


def test_no_attack_is_worth_more_than_epsilon_and_delta_allow(curves):
    """The curve is below what the certificate alone implies, and far below at small rates."""
    epsilon, delta = curves.epsilon, curves.plan.delta
    for rate, power in curves.curve:
        assert power <= math.exp(epsilon) * rate + delta + 1e-12
        assert rate <= power <= 1
    for rate in RATES:
        assert curves.worst(rate) == max(curves.power(rate, question) for question in QUESTIONS)
    assert 0.5 < curves.best_guess < 1


def test_the_release_of_private_sizes_is_part_of_every_number():
    public, private = curves_of(sized_plan("public")), curves_of(sized_plan("private"))
    assert private.epsilon >= public.epsilon + 0.04
    for (_, small), (_, large) in zip(public.by_degree, private.by_degree, strict=True):
        assert large >= small + 0.04
    assert all(private.worst(rate) > public.worst(rate) for rate in RATES)
    alone = trade_off(private.plan.event * 100, private.analysis)
    assert private.worst(0.01) > max(alone.power([0.01], q)[0] for q in QUESTIONS)


def with_more_relations(plan, count):
    more = plan.num_relations + count
    rate = plan.sample_rate
    return replace(plan, num_relations=more, sample_rate=rate, expected_batch_size=None)


def test_a_group_that_is_not_in_the_graph_may_make_batches_too_large():
    """Public sizes. Such a batch is a public entry of the ledger, which nearly all graphs with the group have."""
    plan = PrivacyPlan(
        num_entities=20_000,
        num_relations=8_000,
        max_degree=100,
        num_negatives=5,
        sample_rate=0.45,
        num_steps=1,
        noise_multiplier=300.0,
        delta=5e-6,
    )
    without = binom.sf(20_000 // 5, 8_000, 0.45)
    together = binom.sf(20_010 // 5, 8_000 + 10 * 100, 0.45)
    group = curves_of(plan).groups[-1]
    assert together <= math.exp(group.epsilon) * without + group.delta
    assert together <= group.power


@pytest.mark.parametrize("negatives", ["unprotected", "public"])
def test_pools_that_groups_leave_as_they_are_have_more_relations_too(negatives):
    plan = replace(PLAN, negatives=negatives, pool_size=320, num_negatives=4)
    curves = curves_of(plan)
    epsilon = with_more_relations(plan, 9 * plan.max_degree).epsilon("pld")
    assert [group.epsilon for group in curves.groups] == [size * epsilon for size in GROUPS]
    assert epsilon > curves.epsilon


def test_groups_have_generic_bounds_that_cover_smaller_pools(curves):
    plan = curves.plan
    for group in curves.groups:
        if plan.sizes == "public":
            fewer = plan.num_entities - max(GROUPS) + 1
            with_fewer = replace(plan, num_entities=fewer, pool_size=fewer)
            epsilon = with_more_relations(with_fewer, 9 * plan.max_degree).epsilon("pld")
            assert epsilon > with_fewer.epsilon("pld") > curves.epsilon
        else:
            epsilon = curves.epsilon
        assert group.epsilon == group.size * epsilon
        exact = plan.delta * sum(math.exp(i * epsilon) for i in range(group.size))
        assert group.delta == pytest.approx(min(exact, 1))
        assert group.power > curves.worst(0.01)
    powers = [group.power for group in curves.groups]
    assert powers == sorted(powers)


def test_groups_leave_fewer_relations_to_draw():
    """Public sizes, negatives that are other relations: each entity of a group takes one out of the pool."""
    plan = PrivacyPlan(
        num_entities=5_000,
        num_relations=2_000,
        pool_size=2_000,
        max_degree=1,
        negatives="relations",
        num_negatives=3,
        sample_rate=0.005,
        num_steps=20,
        noise_multiplier=1.5,
        delta=1e-5,
    )
    curves = curves_of(plan)
    epsilon = with_more_relations(replace(plan, pool_size=1_991), 9).epsilon("pld")
    assert epsilon > curves.epsilon
    assert [group.epsilon for group in curves.groups] == [size * epsilon for size in GROUPS]


def test_where_nothing_is_proven_there_is_nothing_to_draw():
    assert privacy_curves(replace(PLAN, clipping="frequency"), 100, 4.0, "claimed") is None
    assert privacy_curves(replace(PLAN, noise_multiplier=0.0), 100, math.inf, "none") is None
    assert privacy_curves(PLAN, 100, math.inf, "anchored") is None
    assert privacy_curves(PLAN, 0, 0.0, "anchored") is None


def test_relations_as_units_have_no_degrees():
    assert curves_of(replace(PLAN, unit="relation")).by_degree == []


def test_a_small_pool_has_no_bound_for_groups():
    plan = PrivacyPlan(
        num_entities=46,
        num_relations=140,
        max_degree=2,
        num_negatives=2,
        expected_batch_size=5.0,
        num_steps=4,
        noise_multiplier=1.5,
        delta=1e-3,
    )
    curves = curves_of(plan)
    # Nor an epsilon at much smaller deltas, which undrawable batches use up.
    assert [delta for delta, _ in curves.by_delta] == [1e-2, 1e-3, 1e-4]
    groups = curves.groups
    assert all(math.isinf(group.epsilon) and group.power == 1 for group in groups)


@pytest.mark.parametrize("largest", [1, 2, 5, 6, 7, 40, 10**6])
def test_a_few_degrees_are_shown_from_one_to_the_largest(largest):
    shown = degrees_to_show(largest)
    assert shown[0] == 1
    assert shown[-1] == largest
    assert list(shown) == sorted(set(shown))
    assert len(shown) <= 6


def test_curves_are_computed_once_and_without_torch():
    assert curves_of(PLAN) is curves_of(PLAN)
    code = (
        "import sys; from tests.reporting.test_privacy_curves import *; import reldp.reporting.report; "
        "curves_of(PLAN).power(0.01, 'presence'); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
