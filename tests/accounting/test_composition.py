import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from reldp.accounting import composition
from reldp.accounting.composition import ComposedLoss, epsilon_of, smallest_epsilon
from reldp.accounting.discretization import LossDistribution
from reldp.errors import PlanError


def coin(chance, interval=1.0, infinity=0.0):
    """Loss +interval with `chance`, else -interval: its compositions are binomial."""
    masses = np.array([1 - chance, chance]) * (1 - infinity)
    return LossDistribution(interval, np.array([-1, 1]), masses, infinity)


@pytest.mark.parametrize("chance", [0.5, 0.6, 0.9])
@pytest.mark.parametrize("count", [1, 7, 1000])
@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-15, 1e-30])
def test_coins_compose_to_binomials_whatever_delta(chance, count, delta):
    interval = 0.02
    ups = np.arange(count + 1)
    losses, masses = (2 * ups - count) * interval, binom.pmf(ups, count, chance)
    low, high = 0.0, max(float(losses.max()), 0.0)
    for _ in range(200):
        middle = (low + high) / 2
        excess = float(np.maximum(-np.expm1(middle - losses), 0.0) @ masses) > delta
        low, high = (middle, high) if excess else (low, middle)
    found = epsilon_of([(coin(chance, interval), count)], delta)
    assert high * (1 - 1e-9) - 1e-12 <= found <= high * (1 + 2e-4) + 1e-9


def test_different_parts_compose_as_their_listed_sum():
    rng = np.random.default_rng(5)
    parts = []
    for count in (1, 2, 3):
        positions = np.sort(rng.choice(np.arange(-30, 60), size=6, replace=False))
        masses = rng.dirichlet(np.ones(6))
        parts.append((LossDistribution(0.1, positions, masses, 0.0), count))
    totals = {0: 1.0}
    for part, count in parts:
        for _ in range(count):
            fresh = {}
            for (at, mass), (move, share) in itertools.product(
                totals.items(), zip(part.positions.tolist(), part.masses, strict=True)
            ):
                fresh[at + move] = fresh.get(at + move, 0.0) + mass * share
            totals = fresh
    losses = np.array(sorted(totals)) * 0.1
    masses = np.array([totals[at] for at in sorted(totals)])
    for delta in (0.1, 1e-3, 1e-6):
        low, high = 0.0, 50.0
        for _ in range(100):
            middle = (low + high) / 2
            excess = float(np.maximum(-np.expm1(middle - losses), 0.0) @ masses) > delta
            low, high = (middle, high) if excess else (low, middle)
        assert high * (1 - 1e-9) <= epsilon_of(parts, delta) <= high * (1 + 1e-5)


@pytest.mark.parametrize("count", [10**6, 10**9])
def test_a_billion_small_losses_are_gaussian(count):
    spread = 1.0 / math.sqrt(count)
    interval = spread
    # Three losses with E exp(-loss) = 1: mean about spread^2 / 2.
    up = spread**2 / (2 * interval**2)
    tilt = math.exp(interval)
    masses = np.array([up / (1 + tilt), 1 - up, up * tilt / (1 + tilt)])
    part = LossDistribution(interval, np.array([-1, 0, 1]), masses, 0.0)
    found = epsilon_of([(part, count)], 1e-6)
    variance = up * interval**2 * count
    sensitivity = math.sqrt(variance)
    low, high = 0.0, 50.0
    for _ in range(100):
        middle = (low + high) / 2
        delta = ndtr(sensitivity / 2 - middle / sensitivity) - math.exp(middle) * ndtr(
            -sensitivity / 2 - middle / sensitivity
        )
        low, high = (middle, high) if delta > 1e-6 else (low, middle)
    assert found == pytest.approx(high, rel=2e-3)


def test_rare_huge_losses_are_not_lost():
    # Mass 1.2 delta at 10,000 and nothing near: epsilon lies just below 10,000, not near the bulk.
    part = LossDistribution(
        1.0, np.array([-1, 0, 10_000]), np.array([0.5, 0.5 - 1.2e-5, 1.2e-5]), 0.0
    )
    exact = 10_000 + math.log(1 - 1e-5 / 1.2e-5)
    assert exact <= epsilon_of([(part, 1)], 1e-5) <= exact + 1e-3
    found = smallest_epsilon(part.losses, part.masses, 1e-5)
    assert found == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("delta", [0.9, 0.5, 1e-3, 1e-12])
def test_the_smallest_epsilon_is_the_root(delta):
    rng = np.random.default_rng(1)
    losses = np.arange(0, 900) * 0.1
    masses = rng.exponential(size=900) * np.exp(-losses / 3)
    masses /= masses.sum()
    found = smallest_epsilon(losses, masses, delta)
    at_root = float(np.maximum(-np.expm1(found - losses), 0.0) @ masses)
    assert at_root == pytest.approx(delta, rel=1e-9) or (found == 0.0 and at_root <= delta)


def test_a_concentrated_sum_far_from_zero_may_have_a_smaller_epsilon():
    losses = np.array([9.9, 10.0, 10.1])
    found = smallest_epsilon(losses, np.array([0.25, 0.5, 0.25]), 0.9)
    assert pytest.approx(1 - math.exp(found) * (np.exp(-losses) @ [0.25, 0.5, 0.25])) == 0.9


def test_infinite_losses_take_their_part_of_delta():
    part = coin(0.75, infinity=1e-3)
    exact_infinite = 1 - (1 - 1e-3) ** 5
    assert epsilon_of([(part, 5)], exact_infinite * 0.99) == math.inf
    assert epsilon_of([(part, 5)], exact_infinite + 0.1) < math.inf
    assert epsilon_of([(part, 5)], 0.2) > epsilon_of([(coin(0.75), 5)], 0.2)
    everything = LossDistribution(1.0, np.array([0, 1]), np.zeros(2), 1.0)
    assert epsilon_of([(everything, 1)], 0.5) == math.inf


def test_the_window_holds_all_but_a_negligible_part():
    count, delta = 400, 1e-6
    low, high = ComposedLoss([(coin(0.6, 0.05), count)], delta).window
    ups = np.arange(count + 1)
    losses, masses = (2 * ups - count) * 0.05, binom.pmf(ups, count, 0.6)
    assert masses[(losses < low) | (losses > high)].sum() <= 2e-6 * delta
    assert high - low < 0.5 * (losses[-1] - losses[0])


def test_rounding_is_bounded_coefficient_by_coefficient():
    # One part that is a single loss: the transform has modulus 1 everywhere and the sum is one bin.
    part = LossDistribution(1.0, np.array([0, 3]), np.array([1e-300, 1.0]), 0.0)
    composed = ComposedLoss([(part, 50)], 1e-3)
    tilted, rounding = composed._tilted_sum(0.01, 720)
    exact = np.zeros(720)
    exact[150] = 1.0
    assert np.abs(tilted - exact).max() <= rounding < 1e-9


def test_rounding_covers_vanishing_coefficients():
    # Two equal losses half a window apart: every odd coefficient is exactly 0 and comes out as noise.
    part = LossDistribution(1.0, np.array([0, 360]), np.array([0.5, 0.5]), 0.0)
    composed = ComposedLoss([(part, 1)], 1e-3)
    tilted, rounding = composed._tilted_sum(1e-9, 720)
    weights = np.array([0.5, 0.5]) * np.exp([0.0, 360e-9])
    exact = np.zeros(720)
    exact[[0, 360]] = weights / weights.sum()
    assert np.abs(tilted - exact).max() <= rounding


@pytest.mark.parametrize("count", [1, 7, 400])
def test_divergences_of_coins_are_bounded_closely_at_every_epsilon(count):
    interval = 0.02
    ups = np.arange(count + 1)
    losses, masses = (2 * ups - count) * interval, binom.pmf(ups, count, 0.6)
    epsilons = np.linspace(0.0, 1.2 * count * interval, 50)
    exact = np.maximum(-np.expm1(epsilons[:, None] - losses), 0.0) @ masses
    found = ComposedLoss([(coin(0.6, interval), count)], 1e-9).divergences(epsilons)
    assert (found >= exact).all()
    assert (found <= exact + 1e-9).all()


def test_divergences_include_infinite_losses():
    loss = coin(0.6, 0.02, infinity=1e-3)
    found = ComposedLoss([(loss, 10)], 1e-9).divergences(np.array([0.0, 5.0]))
    assert found[1] == pytest.approx(1 - 0.999**10, rel=1e-6)
    assert found[0] > found[1]


def test_a_window_without_room_is_not_widened_and_epsilon_only_rises(monkeypatch):
    interval, count, delta = 1e-4, 10**10, 1e-6
    composed = ComposedLoss([(coin(1 / (1 + math.exp(-interval)), interval), count)], delta)
    sizes = []
    tilted_sum = ComposedLoss._tilted_sum

    def watched(self, tilt, size):
        sizes.append(size)
        return tilted_sum(self, tilt, size)

    monkeypatch.setattr(ComposedLoss, "_tilted_sum", watched)
    wide = composed.epsilon()
    assert sizes[-1] > 1.9 * sizes[0]
    monkeypatch.setattr(composition, "WIDEST", sizes[0])
    sizes.clear()
    narrow = composed.epsilon()
    assert max(sizes) < 1.1 * composed.num_bins + 10_000
    assert wide < narrow < 1.2 * wide
    # The sum is nearly normal, with deviation 10 and mean 50: its epsilon is known.
    gaussian = ndtr(50 / 10 - wide / 10) - math.exp(wide) * ndtr(-50 / 10 - wide / 10)
    assert gaussian <= delta


def test_losses_that_are_rounded_away_are_refused():
    """As those of a step with a noise multiplier of a billion: a mass below 0 bounds nothing."""
    loss = LossDistribution(1e-10, np.array([-1, 0, 1]), np.array([0.5, -1e-17, 0.5]), 0.0)
    with pytest.raises(PlanError, match="`noise_multiplier` must leave losses of a step that"):
        ComposedLoss([(loss, 10**12)], 1e-6)


def test_near_delta_one_a_window_is_widened_only_while_that_lowers_epsilon(monkeypatch):
    """Rounding of 10^8 steps is far above 1 - delta = 10^-12: a wider window holds more of it, and is more work."""
    count, interval, sizes = 10**8, 2e-3, []
    composed = ComposedLoss([(coin(1 / (1 + math.exp(-interval)), interval), count)], 1 - 1e-12)
    tilted_sum = ComposedLoss._tilted_sum

    def watched(self, tilt, size):
        sizes.append(size)
        return tilted_sum(self, tilt, size)

    monkeypatch.setattr(ComposedLoss, "_tilted_sum", watched)
    assert 0 < composed.epsilon() < math.inf
    assert max(sizes) < 2.1 * min(sizes)  # widened once, in vain
    assert composed.transformed == sum(sizes)


def test_the_transforms_of_one_epsilon_are_bounded_and_epsilon_only_rises(monkeypatch):
    interval, count, delta = 1e-4, 10**10, 1e-6
    parts = [(coin(1 / (1 + math.exp(-interval)), interval), count)]
    free = ComposedLoss(parts, delta)
    least = free.epsilon()
    first = free._bins(*free.window)[1]
    assert free.transformed > first
    monkeypatch.setattr(composition, "MAX_TRANSFORMED", free.transformed - 1)
    bound = ComposedLoss(parts, delta)
    assert least <= bound.epsilon() < math.inf
    assert first <= bound.transformed < free.transformed
