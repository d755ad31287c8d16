import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from scipy.optimize import minimize_scalar

from reldp.accounting import RenyiAccountant, rdp, renyi, renyi_epsilon
from reldp.accounting.rdp import to_epsilon
from reldp.accounting.renyi import StepDivergence
from tests.accounting.conformance import AccountantConformance, simple_step, small_step


class TestRenyiAccountant(AccountantConformance):
    accountant = RenyiAccountant
    settles = 1e-6

    def gaussian(self, sigma, num_steps, delta):
        """The best order of alpha T / (2 sigma^2)."""

        def epsilon(log_excess):
            order = 1 + math.exp(log_excess)
            return to_epsilon(order, num_steps * order / (2 * sigma**2), delta)

        return minimize_scalar(epsilon, bounds=(-9, 9), method="bounded").fun


# dp-accounting sums its series for whole orders to the end; for fractional ones it stops early, up to 7 % too high, so
# those are judged by mpmath in test_renyi.py.
@pytest.mark.parametrize(
    ("rate", "sigma"), [(0.01, 1.0), (0.1, 0.7), (1e-3, 0.5), (0.5, 5.0), (1e-5, 1.0), (1.0, 3.0)]
)
def test_one_relation_is_dp_accountings_poisson_subsampled_gaussian(rate, sigma):
    orders = [2, 3, 5, 8, 16, 33, 64]
    judge = RdpAccountant(orders)
    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma))
    found = renyi_epsilon(simple_step(sample_rate=rate, noise_multiplier=sigma), "anchored", orders)
    np.testing.assert_allclose(found, judge.compose(event)._rdp, rtol=1e-6)


def test_conversion_is_the_one_of_theory_3_3():
    order, divergence, delta = 3.0, 0.2, 1e-5
    by_hand = divergence + math.log(2 / 3) - (math.log(delta) + math.log(3)) / 2
    assert to_epsilon(order, divergence, delta) == pytest.approx(by_hand, rel=1e-14)


@pytest.mark.parametrize("sigma", [0.3, 0.5, 1.0, 4.0])
def test_the_searched_order_beats_every_listed_one(sigma):
    step, steps, delta = small_step(noise_multiplier=sigma), 50, 1e-5
    found = RenyiAccountant(analysis="anchored").epsilon(step * steps, delta).epsilon
    listed = [*(1 + x / 10 for x in range(1, 100)), *range(12, 64)]
    divergences = steps * renyi_epsilon(step, "anchored", listed)
    best = min(to_epsilon(a, d, delta) for a, d in zip(listed, divergences, strict=True))
    assert found <= best * (1 + 1e-4)


def test_little_noise_needs_a_fractional_order():
    step, steps, delta = small_step(noise_multiplier=0.3), 50, 1e-5
    found = RenyiAccountant(analysis="anchored").epsilon(step * steps, delta).epsilon
    divergences = steps * renyi_epsilon(step, "anchored", list(range(2, 64)))
    whole = min(to_epsilon(a, d, delta) for a, d in zip(range(2, 64), divergences, strict=True))
    assert found < 0.9 * whole


def test_no_noise_has_infinite_divergence():
    assert renyi_epsilon(small_step(noise_multiplier=0.0), "anchored", [2.0, 3.0]).tolist() == [
        math.inf,
        math.inf,
    ]


def test_more_orders_may_take_more_work(monkeypatch):
    work = []

    class Watched(StepDivergence):
        def __init__(self, *values, **settings):
            super().__init__(*values, **settings)
            work.append(self._work_left)

    monkeypatch.setattr(rdp, "StepDivergence", Watched)
    for count in (1, 600):
        renyi_epsilon(simple_step(), "replacement", [2.0] * count)
    assert work == [renyi.MAX_WORK, 10 * renyi.MAX_WORK]
