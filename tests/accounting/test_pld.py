import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from reldp.accounting import PLDAccountant, RenyiAccountant, pld
from reldp.accounting.composition import ComposedLoss
from reldp.accounting.discretization import hockey_stick
from reldp.accounting.dominating import dominating_pair
from reldp.accounting.events import CoupledStep
from reldp.accounting.pld import loss_positions
from reldp.plan import PrivacyPlan
from tests.accounting.conformance import (
    FEW,
    AccountantConformance,
    simple_step,
    small_step,
    tiny_step,
)
from tests.accounting.oracles import Simulation


class TestPLDAccountant(AccountantConformance):
    accountant = PLDAccountant
    settles = 3e-3

    def gaussian(self, sigma, num_steps, delta):
        """Balle and Wang: the T-fold Gaussian mechanism is one with sensitivity sqrt(T)."""
        sensitivity = math.sqrt(num_steps) / sigma

        def divergence(epsilon):
            upper = ndtr(sensitivity / 2 - epsilon / sensitivity)
            return upper - math.exp(epsilon + log_ndtr(-sensitivity / 2 - epsilon / sensitivity))

        return brentq(lambda epsilon: divergence(epsilon) - delta, 0.0, 500.0, xtol=1e-13)


# dp-accounting is the judge. Its self-composition drops tails of 1e-15, ours adds 3e-6 of delta, hence 5e-6 at the
# heavy-tailed third row and 1e-6 elsewhere.
@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "interval", "delta", "tolerance"),
    [
        (0.01, 1.0, 1000, 1e-3, 1e-5, 1e-6),
        (0.1, 0.7, 50, 1e-2, 1e-6, 1e-6),
        (0.001, 0.5, 5000, 1e-3, 1e-8, 1e-5),
        (1.0, 2.0, 10, 1e-3, 1e-5, 1e-6),
        (0.5, 5.0, 200, 1e-3, 1e-5, 1e-6),
    ],
)
def test_one_relation_is_dp_accountings_poisson_subsampled_gaussian(
    rate, sigma, steps, interval, delta, tolerance
):
    judge = privacy_loss_distribution.from_gaussian_mechanism(
        sigma, sampling_prob=rate, value_discretization_interval=interval
    )
    event = simple_step(sample_rate=rate, noise_multiplier=sigma)
    found = PLDAccountant(interval=interval).epsilon(event * steps, delta).epsilon
    exact = judge.self_compose(steps).get_epsilon_for_delta(delta)
    assert found == pytest.approx(exact, rel=tolerance)
    assert found >= exact * (1 - 1e-9)


@pytest.mark.parametrize(("degree", "rate", "sigma", "steps"), [(3, 0.05, 1.0, 20), (5, 0.3, 3, 8)])
def test_without_negatives_it_is_dp_accountings_group_mixture(degree, rate, sigma, steps):
    counts = np.arange(degree + 1)
    chances = [math.comb(degree, i) * rate**i * (1 - rate) ** (degree - i) for i in counts]
    judge = privacy_loss_distribution.from_mixture_gaussian_mechanism(
        sigma, counts.astype(float), chances, value_discretization_interval=1e-2
    )
    event = simple_step(sample_rate=rate, noise_multiplier=float(sigma))
    event = replace(event, max_degree=degree)
    found = PLDAccountant(interval=1e-2).epsilon(event * steps, 1e-5).epsilon
    assert found == pytest.approx(judge.self_compose(steps).get_epsilon_for_delta(1e-5), rel=2e-6)


SETTINGS = [
    (small_step(), 300, 1e-5, "anchored"),
    (small_step(), 300, 1e-5, "replacement"),
    (small_step(noise_multiplier=0.3), 40, 1e-6, "anchored"),
    (small_step(noise_multiplier=20.0, num_negatives=6), 5000, 1e-5, "anchored"),
    (small_step(max_degree=60, noise_multiplier=2.0), 50, 1e-9, "replacement"),
    (simple_step(sample_rate=1e-4, noise_multiplier=0.2), 10_000, 1e-5, "anchored"),
]


@pytest.mark.parametrize(("step", "count", "delta", "analysis"), SETTINGS)
def test_a_ten_times_finer_grid_changes_less_than_one_percent(step, count, delta, analysis):
    usual = PLDAccountant(analysis=analysis).epsilon(step * count, delta).epsilon
    log_tail = math.log(delta / count) - 25.0
    pair = dominating_pair(step, analysis, log_tail, node_spacing=0.0125)
    search = pld.EpsilonSearch([(pair, count)], delta)
    search.evaluate(search._interval / 20, search._growth / 20, search._widest / 20)
    assert search.epsilon * (1 - 1e-6) <= usual <= search.epsilon * 1.01


@pytest.mark.parametrize("sigma", [0.05, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("analysis", ["anchored", "replacement"])
def test_one_step_is_the_root_of_the_exact_divergence(sigma, analysis):
    # A large pool: undrawable batches, whose share of delta grows like e^epsilon, stay out of the way.
    step, delta = small_step(noise_multiplier=sigma, pool_size=15_000), 1e-6
    pair = dominating_pair(step, analysis, math.log(delta) - 25.0)

    def divergence(epsilon):
        return max(float(side[0]) for side in hockey_stick(pair, np.array([epsilon])))

    exact = brentq(lambda e: divergence(e) - delta, 0.0, 20_000.0, xtol=1e-12)
    found = PLDAccountant(analysis=analysis).epsilon(step * 1, delta).epsilon
    assert exact * (1 - 1e-9) <= found <= exact * 1.003


@FEW
@given(
    sigma=st.floats(0.3, 10.0),
    degree=st.integers(1, 10),
    negatives=st.integers(0, 4),
    steps=st.integers(1, 400),
    delta=st.floats(1e-10, 1e-3),
)
def test_it_never_costs_more_than_renyi(sigma, degree, negatives, steps, delta):
    step = small_step(noise_multiplier=sigma, max_degree=degree, num_negatives=negatives)
    found = PLDAccountant().epsilon(step * steps, delta).epsilon
    assert found <= RenyiAccountant().epsilon(step * steps, delta).epsilon + 1e-3


# Simulation: 150,000 runs of 8 steps; each interval is wrong with probability at most 4e-7.


@pytest.fixture(scope="module")
def simulation():
    return Simulation(tiny_step(), "replacement", 8, runs=150_000, seed=11)


def test_simulation_brackets_the_price_from_both_sides(simulation):
    found = PLDAccountant(analysis="replacement").epsilon(tiny_step() * 8, 0.05).epsilon
    low, high = simulation.delta(found)
    assert low <= 0.05 <= high
    assert simulation.delta(0.93 * found)[0] > 0.05


def test_simulation_rejects_an_accountant_that_drops_the_tail_of_l(simulation, monkeypatch):
    def truncated(event, analysis, log_tail, spacing):
        pair = dominating_pair(event, analysis, log_tail)
        kept = pair.node_weights[:3] / pair.node_weights[:3].sum()  # l = 0, 1, 2
        return replace(
            pair, node_weights=kept, log_weights=pair.log_weights[:3], excess=pair.excess[:3]
        )

    monkeypatch.setattr(pld, "dominating_pair", truncated)
    wrong = PLDAccountant(analysis="replacement").epsilon(tiny_step() * 8, 0.05).epsilon
    assert simulation.delta(wrong)[0] > 0.05


def test_positions_are_dense_near_zero_and_cover_the_range():
    positions = loss_positions(-3.0, 500.0, 0.01, 0.06, 5.0)
    gaps = np.diff(positions)
    assert positions[0] * 0.01 <= -3.0
    assert positions[-1] * 0.01 >= 500.0
    assert (gaps[(positions[:-1] >= -10) & (positions[:-1] < 10)] == 1).all()
    assert len(positions) < 1000 < 503 / 0.01
    assert (gaps[positions[:-1] > 0] <= 0.06 * positions[:-1][positions[:-1] > 0] + 1).all()


def test_a_fixed_interval_is_equally_spaced():
    assert (np.diff(loss_positions(-1.0, 1.0, 0.01, 0.0, 0.01)) == 1).all()


def test_a_coarser_grid_never_costs_less():
    step = small_step()
    found = [
        PLDAccountant(interval=h, analysis="anchored").epsilon(step * 100, 1e-5).epsilon
        for h in (0.1, 0.05, 0.025, 0.0125)
    ]
    assert found == sorted(found, reverse=True)


def test_an_epsilon_that_protects_nobody_is_not_refined_and_never_smaller(monkeypatch):
    step = CoupledStep(
        num_relations=2000,
        pool_size=1000,
        max_degree=20,
        num_negatives=4,
        sample_rate=0.01,
        noise_multiplier=1.0,
    )
    refined = PLDAccountant().epsilon(step * 100, 1e-6).epsilon
    monkeypatch.setattr(pld, "VOID", refined / 2)
    coarse = PLDAccountant().epsilon(step * 100, 1e-6).epsilon
    assert refined < coarse < 2 * refined


EXTREME = {"num_entities": 10**6, "negatives": "public", "pool_size": 10**6, "max_degree": 1}
FEW = {"num_entities": 29, "num_relations": 2, "max_degree": 2, "sample_rate": 0.01648}


@pytest.mark.parametrize(
    ("settings", "least"),
    [
        ({"num_relations": 2000, "sample_rate": 0.2, "noise_multiplier": 1e-10}, 4.9e19),
        ({"num_relations": 2000, "sample_rate": 0.2, "noise_multiplier": 1e-12}, 4.9e23),
        ({"num_relations": 2, "sample_rate": 1.0, "num_steps": 10**12}, 4.9e11),
        ({"num_relations": 9, "sample_rate": 1.0, "noise_multiplier": 1e-12, "num_steps": 10**12}, 1e30),
        (
            {"num_relations": 9, "sample_rate": 0.2, "noise_multiplier": 1e-12, "num_steps": 10**12, "delta": 0.5},
            1e20,
        ),
    ],
)  # fmt: skip
def test_losses_beyond_doubles_have_a_large_or_infinite_epsilon_and_no_error(settings, least):
    values = {"num_negatives": 1, "noise_multiplier": 1.0, "num_steps": 1, "delta": 1e-18}
    epsilon = PrivacyPlan(**EXTREME | values | settings).epsilon()
    assert epsilon >= least  # (1 / sigma)^2 / 2 per step in which the entity takes part


@pytest.mark.parametrize("delta", [0.99, 0.99999995, 1 - 1e-12])
def test_a_delta_near_one_ends(delta):
    plan = PrivacyPlan(**FEW, num_negatives=7, noise_multiplier=4.5, num_steps=1, delta=delta)
    assert plan.epsilon() == 0.0


def watch_transforms(monkeypatch):
    sizes = []
    tilted_sum = ComposedLoss._tilted_sum

    def watched(self, tilt, size):
        sizes.append(size)
        return tilted_sum(self, tilt, size)

    monkeypatch.setattr(ComposedLoss, "_tilted_sum", watched)
    return sizes


def test_an_extreme_plan_is_little_work(monkeypatch):
    sizes = watch_transforms(monkeypatch)
    values = {"num_relations": 306_353, "max_degree": 42, "sample_rate": 0.015}
    plan = PrivacyPlan(
        **EXTREME | values,
        num_negatives=0,
        num_steps=10**8,
        delta=1 - 1e-12,
        noise_multiplier=487.0,
    )
    assert 24 < plan.epsilon() < 29
    assert sum(sizes) < pld.MAX_WORK


def test_a_search_ends_where_a_finer_level_would_be_too_much_work(monkeypatch):
    sizes, step = watch_transforms(monkeypatch), simple_step(noise_multiplier=3.0) * 10**4
    accountant = PLDAccountant(analysis="replacement")
    free, work = accountant.epsilon(step, 1e-6).epsilon, sum(sizes)
    sizes.clear()
    monkeypatch.setattr(pld, "MAX_WORK", work // 2)
    bound = accountant.epsilon(step, 1e-6).epsilon
    assert sum(sizes) <= work // 2
    assert free < bound < 1.1 * free


def test_without_negatives_one_analysis_stands_for_all(monkeypatch):
    """Their dominating pairs are equal then."""
    step = simple_step()
    assert step.num_negatives == 0
    pairs = [vars(dominating_pair(step, name, -60.0)) for name in ("anchored", "replacement")]
    assert all(np.array_equal(pairs[0][name], pairs[1][name]) for name in pairs[0])
    sizes = watch_transforms(monkeypatch)
    best, work = PLDAccountant().epsilon(step * 100, 1e-6), sum(sizes)
    sizes.clear()
    alone = PLDAccountant(analysis=best.analysis).epsilon(step * 100, 1e-6)
    assert (best, work) == (alone, sum(sizes))
