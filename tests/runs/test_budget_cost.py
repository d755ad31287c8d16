"""Runs of different plans compose to more than each and less than their sum; a direct convolution agrees."""

import math
from collections import Counter
from dataclasses import replace

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import pld_privacy_accountant
from scipy.stats import norm

from reldp.accounting.rdp import _least, _total
from reldp.accounting.search import SearchSize
from reldp.plan import PrivacyPlan
from reldp.runs import budget_cost
from reldp.runs.budget_cost import Charge, composed_epsilon

PLAN = PrivacyPlan(
    num_entities=5000, num_relations=8000, max_degree=5, num_negatives=4, expected_batch_size=32.0,
    num_steps=60, noise_multiplier=1.0, delta=1e-6,
)  # fmt: skip
OTHER = replace(PLAN, num_steps=30, noise_multiplier=0.8)


def test_no_run_and_one_run_are_what_they_were():
    assert composed_epsilon([], 1e-6) == 0
    assert composed_epsilon([Charge(plan=PLAN)], 1e-6) == PLAN.epsilon()
    assert composed_epsilon([Charge(plan=PLAN)], 1e-6, adaptive=True) == PLAN.epsilon()


def test_equal_plans_are_one_plan_of_more_steps():
    both = composed_epsilon([Charge(plan=PLAN)] * 2, 1e-6)
    assert both == replace(PLAN, num_steps=120).epsilon()


def test_different_plans_cost_more_than_either_and_less_than_the_sum():
    charges = [Charge(plan=PLAN), Charge(plan=OTHER)]
    both = composed_epsilon(charges, 1e-6)
    assert max(PLAN.epsilon(), OTHER.epsilon()) < both < PLAN.epsilon() + OTHER.epsilon()
    added = composed_epsilon(charges, 2e-6, adaptive=True)
    assert added == pytest.approx(PLAN.epsilon() + OTHER.epsilon(), rel=1e-9)
    assert both < added
    assert composed_epsilon(charges, 1e-6, adaptive=True) == math.inf  # deltas are added too


def test_what_a_run_costs_adaptively_does_not_depend_on_later_runs():
    """The delta of a run is fixed when the run is chosen: a filter needs that (theory.md 3.5)."""
    alone, runs = (
        composed_epsilon([Charge(plan=PLAN)], 1e-3, adaptive=True),
        [Charge(plan=PLAN)] * 7,
    )
    assert composed_epsilon(runs, 1e-3, adaptive=True) == pytest.approx(7 * alone, rel=1e-12)


def _hockey_stick_of_two_subsampled_gaussians(epsilon, plans):
    """By a grid of losses and numpy's convolution: no code of reldp. Relation-level, so K = 1 and k = 0."""
    step, reach = 1e-3, 25_000
    total = np.array([1.0])
    for plan in plans:
        rate, sigma = plan.sample_rate, plan.noise_multiplier
        x = np.linspace(-12 * sigma, 12 * sigma + 1, 200_001)
        loss = np.log1p(rate * np.expm1((2 * x - 1) / (2 * sigma**2)))
        density = (1 - rate) * norm.pdf(x, 0, sigma) + rate * norm.pdf(x, 1, sigma)
        masses = np.bincount(
            np.clip(np.rint(loss / step).astype(int) + reach, 0, 2 * reach),
            weights=density * (x[1] - x[0]),
            minlength=2 * reach + 1,
        )
        for _ in range(plan.num_steps):
            total = np.convolve(total, masses[reach - 3000 : reach + 3001])
    losses = (np.arange(len(total)) - len(total) // 2) * step
    above = losses > epsilon
    return float((total[above] * -np.expm1(epsilon - losses[above])).sum())


def test_a_direct_convolution_has_the_same_delta():
    plans = [
        PrivacyPlan(
            num_entities=5000, num_relations=8000, max_degree=1, num_negatives=1, unit="relation",
            negatives="public", pool_size=10**6, delta=1e-3, sample_rate=0.05, num_steps=steps,
            noise_multiplier=noise,
        )
        for steps, noise in ((4, 1.0), (3, 1.5))
    ]  # fmt: skip
    epsilon = composed_epsilon([Charge(plan=plan) for plan in plans], 1e-3)
    found = _hockey_stick_of_two_subsampled_gaussians(epsilon, plans)
    assert found <= 1e-3 * 1.02
    assert found > 0.9e-3  # and not by a wide margin


def _relation_plan(**changes):
    return PrivacyPlan(
        **{
            "num_entities": 5000, "num_relations": 8000, "max_degree": 1, "num_negatives": 1, "unit": "relation",
            "negatives": "public", "pool_size": 10**6, "delta": 1e-6, "sample_rate": 0.05, "num_steps": 40,
            "noise_multiplier": 1.0,
        }
        | changes
    )  # fmt: skip


def _dp_accounting(plans):
    """Epsilon at 1e-6 by Google's accountant, an upper bound too, to within its interval."""
    accountant = pld_privacy_accountant.PLDAccountant(value_discretization_interval=1e-3)
    for plan, count in Counter(plans).items():
        gaussian = dp_accounting.GaussianDpEvent(plan.noise_multiplier)
        step = dp_accounting.PoissonSampledDpEvent(plan.sample_rate, gaussian)
        accountant.compose(step, plan.num_steps * count)
    return accountant.get_epsilon(1e-6)


@pytest.mark.parametrize(
    "plans",
    [
        [_relation_plan()] * 200,
        [
            _relation_plan(noise_multiplier=1.0 + 0.1 * i, sample_rate=0.02 + 0.005 * (i % 4))
            for i in range(12)
        ]
        * 20,
    ],
    ids=["200 equal runs", "240 runs of 12 plans"],
)
def test_hundreds_of_runs_cost_what_dp_accounting_says(plans):
    epsilon = composed_epsilon([Charge(plan=plan) for plan in plans], 1e-6)
    expected = _dp_accounting(plans)
    assert expected * 0.99 <= epsilon <= expected * 1.005
    # The control: a tenth of the runs left out is seen.
    assert (
        composed_epsilon([Charge(plan=p) for p in plans[len(plans) // 10 :]], 1e-6)
        < expected * 0.99
    )


def test_many_runs_on_a_small_graph_have_a_finite_epsilon():
    """Where e^epsilon times the chance of a batch that cannot be drawn is above delta (Corollary B)."""
    small = PrivacyPlan(
        num_entities=300, num_relations=600, max_degree=5, num_negatives=4, expected_batch_size=16.0,
        num_steps=40, noise_multiplier=2.0, delta=1e-4,
    )  # fmt: skip
    runs = {r: composed_epsilon([Charge(plan=small)] * r, 1e-4) for r in (1, 20, 50, 200)}
    assert replace(small, num_steps=8000).epsilon() == math.inf  # by Theorem B alone
    assert runs[1] == small.epsilon()
    assert runs[20] == replace(small, num_steps=800).epsilon()
    assert runs[20] < runs[50] < runs[200] < 200 * runs[1]
    # Renyi divergences do without the accountant's grid, and are larger.
    renyi = _least(_total(small.event * 8000, "anchored"), 1e-4)
    assert 0.7 * renyi < runs[200] < renyi
    assert composed_epsilon([Charge(plan=small)] * 9, 1e-22) == math.inf  # no error


def test_many_different_plans_are_computed_by_one_analysis_and_cost_hardly_more(monkeypatch):
    plans = [replace(OTHER, noise_multiplier=1.0 + 0.1 * i) for i in range(10)]
    charges = [Charge(plan=plan) for plan in plans]
    coarse = composed_epsilon(charges, 1.1e-6)
    monkeypatch.setattr("reldp.accounting.pld.MANY", 100)
    fine = composed_epsilon(charges, 1.1e-6 * (1 + 1e-12))
    assert fine <= coarse <= 1.005 * fine


def test_a_release_of_sizes_counts_once_however_many_runs_use_it():
    sized = replace(PLAN, sizes="private", sizes_epsilon=0.25, sizes_delta=1e-8)
    drawn = Charge(epsilon=0.25, delta=1e-8, release="a" * 32)
    runs = [Charge(plan=sized, release="a" * 32)] * 2
    inner = replace(PLAN, num_steps=120, delta=1e-6 - 1e-8).epsilon()
    for charges in (runs, [drawn, *runs]):
        assert composed_epsilon(charges, 1e-6) == pytest.approx(0.25 + inner, rel=1e-12)
    assert composed_epsilon([drawn], 1e-6) == 0.25
    assert composed_epsilon([drawn, drawn], 1e-6) == 0.5  # drawn again
    assert composed_epsilon([drawn, replace_release(drawn)], 1e-6) == 0.5
    less = Charge(epsilon=0.1, delta=1e-9, release="a" * 32)
    assert composed_epsilon([less, *runs], 1e-6) == pytest.approx(0.25 + inner, rel=1e-12)


def replace_release(charge):
    return replace(charge, release="b" * 32)


def test_private_sizes_without_a_name_are_added_for_every_run():
    sized = replace(PLAN, sizes="private", sizes_epsilon=0.25, sizes_delta=1e-8)
    both = composed_epsilon([Charge(plan=sized)] * 2, 1e-6)
    inner = replace(PLAN, num_steps=120, delta=1e-6 - 2e-8).epsilon()
    assert both == pytest.approx(0.5 + inner, rel=1e-12)
    assert composed_epsilon([Charge(plan=sized)] * 2, 1e-8) == math.inf


def test_a_search_is_added_with_its_part_of_delta():
    size = SearchSize(mean=5.0)
    alone = composed_epsilon([Charge(plan=PLAN, search=size)], 5e-7)
    run = replace(PLAN, delta=5e-7).epsilon()
    both = composed_epsilon([Charge(plan=PLAN), Charge(plan=PLAN, search=size)], 1e-6)
    assert both == pytest.approx(alone + run, rel=1e-12)
    assert alone > run


def test_a_search_of_a_fixed_number_is_that_many_runs():
    fixed = Charge(plan=PLAN, search=SearchSize(runs=3))
    assert composed_epsilon([fixed], 1e-6) == replace(PLAN, num_steps=180).epsilon()
    assert (
        composed_epsilon([fixed, Charge(plan=PLAN)], 1e-6) == replace(PLAN, num_steps=240).epsilon()
    )


def test_a_run_without_noise_has_no_finite_epsilon():
    assert composed_epsilon([Charge(plan=replace(PLAN, noise_multiplier=0.0))], 1e-6) == math.inf


RELATIONS = {"max_degree": 1, "num_negatives": 7, "negatives": "relations", "pool_size": 4_000}
SIZES = {"num_entities": 8_000, "num_relations": 5_000, "expected_batch_size": 8, "delta": 6e-6}


def unlike_plans():
    """Plans of epsilon 2 each, whose better analyses differ."""
    plans = [
        PrivacyPlan(**RELATIONS, **SIZES, num_steps=steps, noise_multiplier=noise)
        for steps, noise in ((50_000, 14.4), (4, 0.7))
    ]
    assert {plan.privacy_cost().analysis for plan in plans} == {"replacement", "anchored"}
    return plans


def test_runs_of_unlike_plans_cost_at_most_the_sum_and_at_least_the_largest():
    long, short = unlike_plans()
    for count in (1, 3):
        charges = [Charge(plan=long)] * count + [Charge(plan=short)]
        total = composed_epsilon(charges, (count + 1) * 6e-6)
        apart = count * long.epsilon() + short.epsilon()
        assert long.epsilon() < total <= apart * (1 + 1e-9)
    assert total < 0.7 * apart  # three long runs are composed, and the short one is added
    together = budget_cost._steps_epsilon((long, long, long, short), 4 * 6e-6)
    assert together > apart, "control: one analysis for all steps is worse than the sum"


def test_one_kind_of_plan_is_composed_and_no_bound_is_below_a_longer_run():
    long, _ = unlike_plans()
    twice = composed_epsilon([Charge(plan=long)] * 2, 1.2e-5)
    assert twice == pytest.approx(replace(long, num_steps=100_000, delta=1.2e-5).epsilon())
    # Deltas that are used up leave no room for the sum, and the composition holds.
    assert composed_epsilon([Charge(plan=long)] * 2, 6e-6) > twice
