import math
from dataclasses import replace

import pytest
from scipy.stats import binom

from reldp.accounting.cost import PrivacyCost
from reldp.accounting.overflow import (
    _log_factor,
    cost_with_overflow,
    log_overflow,
    log_wide_overflow,
    overflow_charge,
)
from reldp.errors import PlanError
from tests.accounting.conformance import small_step


def priced(epsilon_at):
    calls = []

    def cost(delta):
        calls.append(delta)
        return PrivacyCost(epsilon_at(delta), delta, "pld", "anchored")

    return cost, calls


@pytest.mark.parametrize("pool", [90, 91, 92, 120])
def test_the_bound_is_above_the_larger_graphs_batches_in_the_smaller_ones_pool(pool):
    step = small_step(pool_size=pool)
    bound = math.exp(log_overflow(step))
    proven = binom.sf((pool - 1) // 3, 2003, 0.01)
    assert proven <= bound <= 20 * proven + 1e-300  # Chernoff's inequality is that loose


def test_where_k_divides_n_the_smaller_pool_counts():
    """0.3.0 charged P[Bin(m + K) > n/k] and P[Bin(m) > (n - 1)/k], which is less than what is proven."""
    step = small_step(pool_size=150)
    old = max(binom.sf(50, 2003, 0.01), binom.sf(49, 2000, 0.01))
    assert binom.sf(49, 2003, 0.01) > old * 1.02
    assert log_overflow(step) == log_overflow(replace(step, pool_size=148))
    assert log_overflow(step) > log_overflow(replace(step, pool_size=151))


def test_a_pool_that_does_not_shrink_is_the_same_for_both():
    step = small_step(pool_size=90, num_negatives=0, drawn_negatives=3, pool_shrinks=False)
    assert math.exp(log_overflow(step)) >= binom.sf(30, 2003, 0.01)
    # 90 / 3 positives can be drawn, 89 / 3 cannot: only a shrinking pool counts the 30th.
    shrinking = replace(step, pool_shrinks=True, max_degree=1)
    assert log_overflow(shrinking) > log_overflow(replace(step, max_degree=1))


def test_without_negatives_every_batch_can_be_drawn():
    assert log_overflow(small_step(num_negatives=0)) == -math.inf
    cost, calls = priced(lambda delta: 1.0)
    found = cost_with_overflow(small_step(num_negatives=0) * 5, 1e-5, cost)
    assert (found.epsilon, calls) == (1.0, [1e-5])


def test_a_share_of_delta_is_always_set_aside():
    cost, calls = priced(lambda delta: 1.0)
    found = cost_with_overflow(small_step() * 5, 1e-5, cost)
    assert found == PrivacyCost(1.0, 1e-5, "pld", "anchored")
    assert calls == [1e-5 * (1 - 1e-9)]


def test_the_share_covers_both_neighbors_at_the_epsilon_returned():
    step, steps, delta = small_step(pool_size=190), 10, 1e-4
    cost, calls = priced(lambda d: math.log(1 / d))
    found = cost_with_overflow(step * steps, delta, cost)
    needed = steps * (1 + math.exp(found.epsilon)) * math.exp(log_overflow(step))
    assert 1e-9 * delta < needed <= delta - calls[-1]
    assert found.epsilon == math.log(1 / calls[-1])


@pytest.mark.parametrize(("excess", "num_calls"), [(0.4, 2), (0.9, 2), (1.1, 1)])
def test_the_component_kept_at_the_largest_batch_is_charged(excess, num_calls):
    """theory.md 2.4: the e^epsilon part counts times c = (1 + k/n) (1 + p k/n)^T, here a little more than 1.02."""
    step, steps, delta = small_step(pool_size=150), 10, 0.5
    chance = math.exp(log_overflow(step))
    kept = (1 + 3 / 150) * (1 + chance * 3 / 150) ** steps
    # The share that is always set aside would do for e^epsilon times kept^excess.
    epsilon = math.log(1e-3 * delta / (steps * chance) - 1) - excess * math.log(kept)
    cost, calls = priced(lambda d: epsilon)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reldp.accounting.overflow.LEAST", 1e-3)
        cost_with_overflow(step * steps, delta, cost)
    assert len(calls) == num_calls


def test_a_share_that_only_a_large_epsilon_makes_large_is_an_infinite_price():
    cost, _ = priced(lambda delta: 2000.0)
    assert cost_with_overflow(small_step() * 5, 1e-5, cost).epsilon == math.inf


@pytest.mark.parametrize("claimed", [False, True])
def test_the_wide_charge_has_no_factor_of_epsilon_and_is_for_proven_steps(claimed):
    step = small_step(claimed_constant=claimed)
    cost, calls = priced(lambda delta: 2000.0)
    found = cost_with_overflow(step * 5, 1e-5, cost, wide_charge=True)
    if claimed:
        assert found.epsilon == math.inf
        return
    assert (found.epsilon, found.delta) == (2000.0, 1e-5)
    assert 1e-5 - calls[-1] >= 5 * math.exp(log_wide_overflow(step))


def test_the_wide_charge_counts_batches_that_are_nearly_too_large():
    step = small_step(pool_size=150)  # at most 49 positives, 3 relations per entity
    assert math.exp(log_wide_overflow(step)) >= binom.sf(45, 2003, 0.01)
    assert log_wide_overflow(small_step(pool_size=10, sample_rate=1e-4)) == 0.0  # every batch
    assert log_wide_overflow(small_step(num_negatives=0)) == -math.inf
    cost, _ = priced(lambda delta: 50.0)
    delta = 100 * math.exp(log_overflow(step)) * 2 / 0.04  # enough for Theorem B at epsilon 0 only
    assert cost_with_overflow(step * 100, delta, cost, wide_charge=True).epsilon == math.inf


def test_a_finite_epsilon_does_not_change_with_the_wide_charge():
    step = small_step(pool_size=190)
    results = []
    for wide in (False, True):
        cost, calls = priced(lambda d: math.log(1 / d))
        results.append((cost_with_overflow(step * 10, 1e-4, cost, wide_charge=wide), calls))
    assert results[0] == results[1]


def test_plans_that_overflow_often_are_refused_before_they_are_priced():
    cost, calls = priced(lambda delta: 1.0)
    with pytest.raises(
        PlanError, match="`num_negatives` times the batch size must stay well below"
    ):
        cost_with_overflow(small_step(pool_size=90) * 5, 1e-5, cost)
    assert calls == []


def test_parts_are_summed():
    step = small_step(pool_size=150)
    cost, calls = priced(lambda delta: 0.0)
    cost_with_overflow(step * 100 + replace(step, noise_multiplier=2.0) * 100, 0.5, cost)
    needed = 200 * 2 * math.exp(log_overflow(step))
    assert 0.5 - calls[-1] >= needed


def test_excess_masses_of_different_steps_multiply():
    """The largest of the factors is not a bound on their product."""
    one = small_step(pool_size=120)
    other = replace(one, noise_multiplier=2.0)
    excess = 1000 * math.exp(log_overflow(one)) * 3 / 120
    assert excess > 1e-9
    together = _log_factor(one * 1000 + other * 1000)
    assert together == pytest.approx(math.log1p(3 / 120) + 2 * excess, rel=1e-12)
    assert together > _log_factor(one * 1000)


def test_the_charge_at_an_epsilon_is_that_of_theorem_b():
    composition = small_step(pool_size=120) * 7
    log_p, factor = log_overflow(composition.parts[0][0]), _log_factor(composition)
    expected = 7 * math.exp(log_p) * (1 + math.exp(factor + 0.5))
    assert overflow_charge(composition, 0.5) == pytest.approx(expected)
    assert overflow_charge(composition, 0.5) > 7 * (1 + math.exp(0.5)) * binom.sf(39, 2003, 0.01)
    assert overflow_charge(composition, 1e4) == 1
