import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest

from reldp.accounting import renyi
from reldp.accounting.events import CoupledStep
from reldp.accounting.renyi import StepDivergence, log_phi
from tests.accounting.conformance import simple_step, small_step, tiny_step
from tests.accounting.oracles import components, renyi_moments

SMALL = {"num_relations": 2, "pool_size": 7, "max_degree": 1, "num_negatives": 2}


@pytest.mark.parametrize(
    ("step", "analysis", "order"),
    [
        (tiny_step(**SMALL, sample_rate=0.2), "anchored", 1.3),
        (tiny_step(**SMALL, sample_rate=0.2), "replacement", 2.6),
        (tiny_step(**SMALL, sample_rate=0.5, noise_multiplier=3.0), "anchored", 9.5),
        (tiny_step(**SMALL, sample_rate=1e-5, noise_multiplier=1.0), "anchored", 1.05),
        (simple_step(sample_rate=1e-9), "anchored", 1.5),
        (simple_step(sample_rate=1e-9, noise_multiplier=10.0), "replacement", 2.5),
        (simple_step(sample_rate=0.5, noise_multiplier=5.0), "anchored", 1.1),
        (replace(simple_step(sample_rate=0.3), max_degree=4), "replacement", 3.3),
        (simple_step(sample_rate=0.9999, noise_multiplier=0.7), "anchored", 1.01),
        (tiny_step(**{**SMALL, "pool_size": 50}, sample_rate=1.0), "replacement", 1.001),
    ],
)
def test_single_orders_equal_mpmath_and_never_less(step, analysis, order):
    with mp.workdps(30):
        exact = [float(mp.log(moment)) for moment in renyi_moments(step, analysis, order)]
    divergence = StepDivergence(step, analysis)
    found = [divergence.removal(order), divergence.insertion(order)]
    np.testing.assert_allclose(found, exact, rtol=1e-7)
    assert (np.array(found) >= np.array(exact) * (1 - 1e-12)).all()
    assert divergence.log_moment(order) == max(found)


def test_dropping_the_tail_of_l_is_caught_by_the_oracle():
    step, order = tiny_step(**SMALL, sample_rate=0.5), 3.0
    exact = float(mp.log(renyi_moments(step, "replacement", order)[0]))
    wrong = StepDivergence(step, "replacement")
    pair = wrong._pair
    wrong._pair = replace(
        pair,
        node_weights=pair.node_weights[:2],
        log_weights=pair.log_weights[:2],
        excess=pair.excess[:2],
    )
    assert wrong.removal(order) < exact * (1 - 1e-3)


@pytest.mark.parametrize("order", [1.5, 2.0, 4.0])
def test_a_cut_at_the_largest_batch_adds_its_surplus(order):
    """Batches of more than (41 - 1) / 5 = 8 positives cannot be drawn (theory.md 2.4)."""
    step = tiny_step(
        num_relations=20,
        pool_size=41,
        max_degree=1,
        num_negatives=5,
        sample_rate=0.1,
        noise_multiplier=5.0,
    )
    sigma, rate = step.noise_multiplier, mp.mpf(step.sample_rate)
    exact = mp.mpf(0)
    for size in range(9):
        parts = components(step, "anchored", size)
        chance = mp.binomial(20, size) * rate**size * (1 - rate) ** (20 - size)

        def moment(x, parts=parts):
            ratio = mp.fsum(w * mp.exp(s * x / sigma - (s / sigma) ** 2 / 2) for w, s in parts)
            return mp.npdf(x) * ratio**order

        reach = int(order * 2 / sigma) + 12
        exact += chance * mp.quad(moment, list(range(-reach, reach + 1, 2)), maxdegree=5)
    divergence = StepDivergence(step, "anchored")
    assert divergence.removal(order) >= float(mp.log(exact)) * (1 - 1e-12)
    # The control: without it the moment is too small.
    divergence._log_surplus = -math.inf
    assert divergence.removal(order) < float(mp.log(exact))


def phi_of(loss, power):
    return mp.expm1(power * mp.mpf(loss)) - power * mp.expm1(mp.mpf(loss))


@pytest.mark.parametrize("power", [1.0001, 1.5, 40.0, 9000.0, -0.0001, -0.5, -39.0, -8999.0])
def test_phi_is_right_however_large_or_small_the_loss(power):
    losses = np.array([-60.0, -3.0, -0.3, -1e-3, -1e-9, 1e-14, 1e-6, 0.02, 0.7, 5.0, 90.0, 3000.0])
    found = log_phi(losses, np.expm1(np.minimum(losses, math.log(2))), power)
    with mp.workdps(60):
        exact = np.array([float(mp.log(phi_of(loss, mp.mpf(power)))) for loss in losses])
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-7)


def test_phi_of_no_loss_is_nothing():
    assert log_phi(np.zeros(1), np.zeros(1), 2.0)[0] == -np.inf


def test_far_components_cost_no_grid_and_stay_upper_bounds():
    step = small_step(noise_multiplier=0.05, max_degree=1000, sample_rate=1.0, pool_size=10**7)
    divergence = StepDivergence(step, "replacement")
    exact_at_least = 2.0 * 1.0 * 1000**2 / (2 * 0.05**2)  # the smallest shift, order 2
    assert divergence.log_moment(2.0) >= exact_at_least
    assert divergence.log_moment(2.0) <= 2.0 * 1.0 * 1002**2 / (2 * 0.05**2)
    assert not divergence._grids


def test_tails_of_many_relations_are_added():
    # i reaches 10,000 with probabilities far below the window: the bound must hold the largest term of the tail.
    step = replace(simple_step(sample_rate=1e-6, noise_multiplier=2.0), max_degree=10_000)
    order = 4.0
    i = 9000
    log_term = order * float(
        mp.log(mp.binomial(10_000, i)) + i * mp.log(1e-6) + (10_000 - i) * mp.log1p(-1e-6)
    ) + order * (order - 1) * i**2 / (2 * 2.0**2)
    assert StepDivergence(step, "anchored").removal(order) >= log_term > 1e6


WIDE = {"num_relations": 20_000, "pool_size": 10_000, "num_negatives": 4}


@pytest.mark.parametrize(
    ("degree", "rate", "noise"), [(5, 1e-3, 1.0), (300, 1e-2, 0.5), (4000, 0.1, 0.01)]
)
def test_the_end_of_the_grid_is_that_of_a_plain_search(degree, rate, noise):
    step = StepDivergence(
        CoupledStep(**WIDE, max_degree=degree, sample_rate=rate, noise_multiplier=noise), "anchored"
    )
    for order in (1.01, 2.0, 30.0, 1e4):
        top = order * float(step._pair.sensitivities[-1]) / step._pair.sigma + renyi.REACH
        high = 16.0
        while (
            high < top
            and step._spacing(high) is not None
            and step._minkowski(order, high) > renyi.LOG_CUT
        ):
            high += 8.0 * (1.0 + high // 128.0)
        assert step._highest(order) == high


def test_a_grid_that_may_not_be_refined_gives_a_larger_bound(monkeypatch):
    step = CoupledStep(**WIDE, max_degree=5, sample_rate=1e-3, noise_multiplier=1.0)
    refined = [StepDivergence(step, "anchored").log_moment(order) for order in (1.5, 4.0)]
    monkeypatch.setattr(renyi, "MAX_REFINED", 1.0)
    bounds = [StepDivergence(step, "anchored").log_moment(order) for order in (1.5, 4.0)]
    assert all(math.isfinite(bound) for bound in bounds)
    assert all(bound >= value for bound, value in zip(bounds, refined, strict=True))
    assert bounds != refined


def test_quadrature_ends_where_its_work_does_and_bounds_are_left(monkeypatch):
    step = CoupledStep(**WIDE, max_degree=5, sample_rate=1e-3, noise_multiplier=1.0)
    orders, points = (1.5, 4.0, 9.0), []
    refined = [StepDivergence(step, "anchored").log_moment(order) for order in orders]
    log_mean = renyi._Grid.log_mean

    def watched(self, power):
        points.append(self.tables[0].size)
        return log_mean(self, power)

    monkeypatch.setattr(renyi._Grid, "log_mean", watched)
    for limit in (0.0, 3e5):
        monkeypatch.setattr(renyi, "MAX_WORK", limit)
        points.clear()
        divergence = StepDivergence(step, "anchored")
        bounds = [divergence.log_moment(order) for order in orders]
        assert renyi.PER_POINT * sum(points) <= 1.1 * limit
        assert all(value <= bound < math.inf for bound, value in zip(bounds, refined, strict=True))
        assert bounds != refined
