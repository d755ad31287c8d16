import math

import numpy as np
import pytest
from scipy import stats

from reldp.auditing.one_run import (
    curve_bound,
    gaussian_curve,
    gaussian_epsilon,
    guessing_bound,
    guessing_p_value,
    is_too_good,
    profile_curve,
)
from reldp.errors import InputError


def published_p_value(m, r, v, eps, delta):
    """The formula of Steinke et al. written as a plain loop."""
    q = 1 / (1 + math.exp(-eps))
    alpha, total = 0.0, 0.0
    for i in range(1, v + 1):
        total += stats.binom.pmf(v - i, r, q)
        alpha = max(alpha, total / i)
    return min(stats.binom.sf(v - 1, r, q) + alpha * delta * 2 * m, 1.0)


@pytest.mark.parametrize(("r", "v"), [(100, 60), (40, 39), (10, 0), (100, 100)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 1e-5), (3.0, 1e-3)])
def test_p_values_follow_the_published_formula(r, v, epsilon, delta):
    actual = guessing_p_value(canaries=100, guesses=r, right=v, epsilon=epsilon, delta=delta)
    assert actual == pytest.approx(published_p_value(100, r, v, epsilon, delta))


def randomized_response(epsilon, canaries, rng):
    return int((rng.random(canaries) < 1 / (1 + math.exp(-epsilon))).sum())


def test_randomized_response_is_nearly_found_out_and_seldom_overstated():
    # 200 runs at miss 0.05: more than 20 overstatements have probability below 0.2 %.
    rng = np.random.default_rng(1)
    actual = [
        guessing_bound(
            canaries=1000, guesses=1000, right=randomized_response(1.0, 1000, rng), delta=0.0,
            miss=0.05,
        )
        for _ in range(200)
    ]  # fmt: skip
    assert sum(bound > 1.0 for bound in actual) <= 20
    assert np.mean(actual) > 0.8


def gaussian_guesses(mu, canaries, guesses, rng):
    """Right guesses about inclusions whose +-1/2 mu is seen through standard normal noise."""
    included = rng.integers(0, 2, canaries)
    seen = mu * (included - 0.5) + rng.standard_normal(canaries)
    order = np.argsort(-np.abs(seen))[:guesses]
    return int(((seen[order] > 0) == included[order]).sum())


def test_the_curve_seldom_rejects_the_truth_and_often_a_lie():
    rng = np.random.default_rng(2)
    right = [gaussian_guesses(1.0, 1000, 200, rng) for _ in range(200)]

    def rejected(mu):
        return sum(
            is_too_good(canaries=1000, guesses=200, right=v, curve=gaussian_curve(mu), miss=0.05)
            for v in right
        )

    assert rejected(1.0) <= 20
    assert rejected(0.4) > 150


def test_the_curve_sees_more_than_counting_at_small_delta():
    rng = np.random.default_rng(3)
    right = gaussian_guesses(2.0, 2000, 200, rng)
    numbers = {"canaries": 2000, "guesses": 200, "right": right, "delta": 1e-5, "miss": 0.05}
    truth = gaussian_epsilon(2.0, 1e-5)
    assert guessing_bound(**numbers) < curve_bound(**numbers) < truth


def test_the_curve_of_a_profile_is_the_gaussian_one_when_the_profile_is():
    points = [(gaussian_epsilon(1.5, delta), delta) for delta in np.geomspace(1e-9, 0.54, 400)]
    curve = profile_curve(points)
    for p in (0.01, 0.2, 0.7, 0.99):
        exact = gaussian_curve(1.5)(p)
        assert exact * 0.97 - 1e-3 < curve(p) <= exact + 1e-9


def test_points_without_a_promise_allow_everything():
    assert profile_curve([(math.inf, 1e-5), (2e4, 1e-3)])(0.999) == 0.0
    assert profile_curve([(math.inf, 1e-5), (0.0, 0.1)])(0.5) == pytest.approx(0.4)


def test_epsilon_of_the_gaussian_mechanism():
    assert gaussian_epsilon(0.0, 1e-5) == 0.0
    assert gaussian_epsilon(1.0, 1e-5) == pytest.approx(4.3769, abs=2e-3)


def test_chance_shows_nothing():
    numbers = {"canaries": 200, "guesses": 100, "right": 52, "delta": 1e-5, "miss": 0.05}
    assert guessing_bound(**numbers) == 0.0
    assert curve_bound(**numbers) == 0.0
    none = {**numbers, "guesses": 0, "right": 0}
    assert guessing_bound(**none) == 0.0
    assert curve_bound(**none) == 0.0


def test_more_right_guesses_than_guesses_are_refused():
    with pytest.raises(InputError, match="`right` must be at most the guesses"):
        guessing_bound(canaries=10, guesses=5, right=6, delta=0.0, miss=0.05)
