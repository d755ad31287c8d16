import numpy as np
import pytest
from scipy.stats import norm

from reldp.auditing.bounds import counting_bound, gaussian_bound


def gaussian_epsilon(shift, delta):
    """Epsilon of the Gaussian mechanism, by bisection on its exact profile."""
    low, high = 0.0, 60.0
    for _ in range(100):
        middle = (low + high) / 2
        profile = norm.cdf(shift / 2 - middle / shift) - np.exp(middle) * norm.cdf(
            -shift / 2 - middle / shift
        )
        low, high = (middle, high) if profile > delta else (low, middle)
    return high


def draws(shift, count, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(shift, 1.0, count), rng.normal(0.0, 1.0, count)


@pytest.mark.parametrize("delta", [0.01, 0.1])
def test_counting_comes_close_to_the_gaussian_mechanism_and_stays_below(delta):
    truth = gaussian_epsilon(1.0, delta)
    found = counting_bound(draws(1.0, 50_000, 1), draws(1.0, 100_000, 2), delta=delta, miss=0.01)
    assert 0.85 * truth < found.epsilon < truth


def test_counting_seldom_exceeds_the_truth():
    # At miss 0.2 more than 95 of 300 false alarms have probability below 1e-6.
    truth = gaussian_epsilon(1.0, 0.05)
    found = [
        counting_bound(draws(1.0, 500, 2 * s), draws(1.0, 500, 2 * s + 1), delta=0.05, miss=0.2)
        for s in range(300)
    ]
    assert sum(bound.epsilon > truth for bound in found) <= 95
    assert any(bound.epsilon > 0 for bound in found)


def test_choosing_the_event_on_the_judging_trials_would_be_caught():
    # The wrong-on-purpose control: the same trials choose and judge, and identical sides look different.
    alarms = 0
    for seed in range(200):
        trials = draws(0.0, 200, seed)
        alarms += counting_bound(trials, trials, delta=0.0, miss=0.2).epsilon > 0
    assert alarms > 95


def test_known_noise_reaches_further_than_counting():
    # Shift 1 with probability 0.2, else 0; the other side is always 0.
    rng = np.random.default_rng(5)
    sums = [(rng.random(5000) < 0.2).astype(float) for _ in range(2)]
    none = np.zeros(5000)
    noisy = [s + 0.4 * rng.standard_normal(5000) for s in (*sums, none, none)]
    exact = gaussian_bound((sums[0], none), (sums[1], none), deviation=0.4, delta=0.01, miss=0.01)
    counted = counting_bound((noisy[0], noisy[2]), (noisy[1], noisy[3]), delta=0.01, miss=0.01)
    grid = np.linspace(-3, 5, 4001)
    p = 0.8 * norm.sf(grid, 0, 0.4) + 0.2 * norm.sf(grid, 1, 0.4)
    truth = np.log((p - 0.01).clip(1e-300) / norm.sf(grid, 0, 0.4)).max()
    assert counted.epsilon < exact.epsilon < truth


def test_a_score_at_which_both_sides_have_an_atom_is_counted_strictly():
    ones, zeros = np.ones(1000), np.zeros(1000)
    found = counting_bound((ones, zeros), (ones, zeros), delta=0.0, miss=0.01)
    assert found.other == pytest.approx(1 - 0.005 ** (1 / 1000))
    assert found.epsilon > 5
