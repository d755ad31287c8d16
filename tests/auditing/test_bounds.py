import numpy as np
import pytest
from scipy.stats import norm

from reldp.auditing.bounds import counting_bound, gaussian_bound


def gaussian_epsilon(distance, delta):
    """Epsilon of the Gaussian mechanism, by bisection on its exact profile."""
    low, high = 0.0, 60.0
    for _ in range(100):
        middle = (low + high) / 2
        profile = norm.cdf(distance / 2 - middle / distance) - np.exp(middle) * norm.cdf(
            -distance / 2 - middle / distance
        )
        low, high = (middle, high) if profile > delta else (low, middle)
    return high


def draws(distance, count, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(distance, 1.0, count), rng.normal(0.0, 1.0, count)


@pytest.mark.parametrize("delta", [0.01, 0.1])
def test_counting_comes_close_to_the_gaussian_mechanism_and_stays_below(delta):
    truth = gaussian_epsilon(1.0, delta)
    actual = counting_bound(draws(1.0, 50_000, 1), draws(1.0, 100_000, 2), delta=delta, miss=0.01)
    assert 0.85 * truth < actual.epsilon < truth


def test_counting_seldom_exceeds_the_truth():
    # At miss 0.2 more than 95 of 300 false alarms have probability below 1e-6.
    truth = gaussian_epsilon(1.0, 0.05)
    actual = [
        counting_bound(draws(1.0, 500, 2 * s), draws(1.0, 500, 2 * s + 1), delta=0.05, miss=0.2)
        for s in range(300)
    ]
    assert sum(bound.epsilon > truth for bound in actual) <= 95
    assert any(bound.epsilon > 0 for bound in actual)


def test_choosing_the_event_on_the_judging_trials_would_be_caught():
    # The wrong-on-purpose control: the same trials choose and judge, and identical sides look different.
    alarms = 0
    for seed in range(200):
        trials = draws(0.0, 200, seed)
        alarms += counting_bound(trials, trials, delta=0.0, miss=0.2).epsilon > 0
    assert alarms > 95


def mixture_epsilon(weight, deviation, delta):
    """Epsilon of (1 - w) N(0) + w N(1) against N(0): the best half-line, which is optimal here."""
    grid = np.linspace(-3, 12, 30_001)
    q = norm.sf(grid, 0, deviation)
    p = (1 - weight) * q + weight * norm.sf(grid, 1, deviation)
    return np.log((p - delta).clip(1e-300) / q).max()


def test_known_noise_reaches_further_than_counting():
    # Shift 1 with probability 0.2, else 0; the other side is always 0.
    rng = np.random.default_rng(5)
    sums = [(rng.random((5000, 1)) < 0.2).astype(float) for _ in range(2)]
    none = np.zeros((5000, 1))
    noisy = [s[:, 0] + 0.4 * rng.standard_normal(5000) for s in (*sums, none, none)]
    numbers = {"delta": 0.01, "miss": 0.01}
    blind = gaussian_bound((sums[0], none), (sums[1], none), deviation=0.4, **numbers)
    sure = gaussian_bound(
        (sums[0], none), (sums[1], none), deviation=0.4, certain=(False, True), **numbers
    )
    counted = counting_bound((noisy[0], noisy[2]), (noisy[1], noisy[3]), **numbers)
    truth = mixture_epsilon(0.2, 0.4, 0.01)
    assert counted.epsilon < blind.epsilon < sure.epsilon < truth
    assert sure.epsilon > 0.95 * truth


@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-2])
def test_known_noise_is_tight_at_any_delta(delta):
    rng = np.random.default_rng(6)
    sums = [(rng.random((5000, 1)) < 0.2).astype(float) for _ in range(2)]
    none = np.zeros((5000, 1))
    actual = gaussian_bound(
        (sums[0], none), (sums[1], none), deviation=0.5, delta=delta, miss=0.01,
        certain=(False, True),
    )  # fmt: skip
    truth = mixture_epsilon(0.2, 0.5, delta)
    assert 0.93 * truth < actual.epsilon < truth


def test_known_noise_seldom_exceeds_the_truth_and_plain_averages_would():
    # At miss 0.2 more than 50 of 150 false alarms have probability below 1e-4.
    rng = np.random.default_rng(7)
    none = np.zeros((100, 1))
    alarms, naive = 0, 0
    for _ in range(150):
        sums = [(rng.random((100, 1)) < 0.3).astype(float) for _ in range(2)]
        actual = gaussian_bound(
            (sums[0], none), (sums[1], none), deviation=0.5, delta=1e-3, miss=0.2,
            certain=(False, True),
        )  # fmt: skip
        beyond = norm.sf(actual.threshold, [0, 1], 0.5)
        truth = np.log((0.7 * beyond[0] + 0.3 * beyond[1] - 1e-3) / beyond[0])  # of this event
        average = norm.cdf((sums[1] - actual.threshold) / 0.5).mean()
        alarms += actual.epsilon > truth
        naive += np.log((average - 1e-3) / actual.other) > truth
    assert alarms <= 50
    assert naive > 50


def test_what_is_called_certain_is_believed_only_while_it_is():
    rng = np.random.default_rng(8)
    sums = [(rng.random((2000, 1)) < 0.5).astype(float) for _ in range(2)]
    none = np.zeros((2000, 1))
    odd = none.copy()
    odd[7] = 1.0
    numbers = {"deviation": 0.3, "delta": 1e-3, "miss": 0.01, "certain": (False, True)}
    trusted = gaussian_bound((sums[0], none), (sums[1], none), **numbers)
    doubted = gaussian_bound((sums[0], none), (sums[1], odd), **numbers)
    assert doubted.epsilon < trusted.epsilon - 1


def test_a_rare_step_among_many_shows_in_the_largest_rather_than_the_total():
    rng = np.random.default_rng(9)
    sums = [(rng.random((4000, 20)) < 0.02).astype(float) for _ in range(2)]
    none = np.zeros((4000, 20))
    actual = gaussian_bound(
        (sums[0], none), (sums[1], none), deviation=0.3, delta=1e-3, miss=0.01,
        certain=(False, True),
    )  # fmt: skip
    assert actual.score == "largest output"
    # Exactly: some step of 20 above t.
    p_step = lambda t: 0.98 * norm.sf(t, 0, 0.3) + 0.02 * norm.sf(t, 1, 0.3)  # noqa: E731
    p = 1 - (1 - p_step(actual.threshold)) ** 20
    q = -np.expm1(20 * norm.logcdf(actual.threshold, 0, 0.3))
    truth = np.log((p - 1e-3) / q)
    assert 0.9 * truth < actual.epsilon < truth


def test_a_score_at_which_both_sides_have_an_atom_is_counted_strictly():
    ones, zeros = np.ones(1000), np.zeros(1000)
    actual = counting_bound((ones, zeros), (ones, zeros), delta=0.0, miss=0.01)
    assert actual.other == pytest.approx(1 - 0.005 ** (1 / 1000))
    assert actual.epsilon > 5
