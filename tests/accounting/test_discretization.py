import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest

from reldp.accounting.discretization import (
    discretize,
    excess_at,
    hockey_stick,
    loss_at,
    loss_range,
    output_at,
    upper_mass,
)
from reldp.accounting.dominating import dominating_pair
from tests.accounting.conformance import simple_step, small_step, tiny_step
from tests.accounting.oracles import hockey_sticks

STEPS = [
    small_step(),
    small_step(noise_multiplier=0.05),
    small_step(noise_multiplier=100.0, sample_rate=1e-9, num_relations=10**12, pool_size=10**7),
    simple_step(sample_rate=1.0),
    replace(simple_step(sample_rate=0.4), max_degree=200),
]


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 2.5])
@pytest.mark.parametrize(
    ("step", "analysis"),
    [
        (tiny_step(), "anchored"),
        (tiny_step(), "replacement"),
        (tiny_step(sample_rate=0.5, noise_multiplier=2.0), "anchored"),
        (tiny_step(negative_replacement=2 / 3), "replacement"),
    ],
)
def test_hockey_sticks_equal_mpmath(step, analysis, epsilon):
    with mp.workdps(25):
        exact = [float(side) for side in hockey_sticks(step, analysis, epsilon)]
    found = hockey_stick(dominating_pair(step, analysis, -500.0), np.array([epsilon]))
    assert found[0][0] == pytest.approx(exact[0], rel=1e-11)
    assert found[1][0] == pytest.approx(exact[1], rel=1e-9, abs=1e-16)


def test_hockey_sticks_of_huge_epsilons_are_nothing_not_nan():
    found = hockey_stick(
        dominating_pair(small_step(), "anchored", -80.0), np.array([800.0, 5000.0])
    )
    assert (found[0] < 1e-30).all()
    assert (found[1] == 0).all()


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("analysis", ["anchored", "replacement"])
def test_outputs_invert_losses(step, analysis):
    pair = dominating_pair(step, analysis, -80.0) if analysis in step.available_analyses else None
    if pair is None:
        pytest.fail("every listed step allows both analyses")
    low, high = loss_range(pair, 1e-12)
    losses = np.linspace(low, high, 41)
    x = output_at(pair, losses)
    for row in range(len(x)):
        reached = np.isfinite(x[row])
        back = np.diag(loss_at(pair, x[row, reached])[row][:, None] * np.eye(reached.sum()))
        np.testing.assert_allclose(back, losses[reached], rtol=1e-9, atol=1e-13 * abs(high))


def test_excess_is_precise_where_the_loss_is_not():
    step = simple_step(sample_rate=1e-12)
    pair = dominating_pair(step, "anchored", -80.0)
    x = np.array([-2.0, 0.0, 0.7, 3.0])
    exact = 1e-12 * np.expm1(x - 0.5)
    np.testing.assert_allclose(excess_at(pair, x)[0], exact, rtol=1e-12)
    assert np.abs(np.expm1(loss_at(pair, x)[0]) / exact - 1)[0] > 1e-9


@pytest.mark.parametrize("step", [*STEPS, tiny_step(), simple_step(sample_rate=0.999)])
def test_excess_is_the_exponential_of_the_loss(step):
    pair = dominating_pair(step, "replacement", -80.0)
    x = np.linspace(-12.0, 12.0 + float(pair.sensitivities[-1]) / pair.sigma, 60)
    found, losses = excess_at(pair, x), loss_at(pair, x)
    np.testing.assert_allclose(found, np.expm1(np.minimum(losses, math.log(2))), atol=1e-13)


def divergence(distribution, epsilon):
    gains = np.maximum(-np.expm1(epsilon - distribution.losses), 0.0)
    return float(gains @ distribution.masses) + distribution.infinity


@pytest.mark.parametrize("step", [small_step(), small_step(noise_multiplier=0.3), tiny_step()])
@pytest.mark.parametrize("analysis", ["anchored", "replacement"])
@pytest.mark.parametrize("uneven", [False, True])
def test_connecting_the_dots_is_exact_on_the_dots_and_above_between_them(step, analysis, uneven):
    pair = dominating_pair(step, analysis, -200.0)
    interval = 0.05
    positions = np.arange(-60, 161)
    if uneven:
        positions = np.unique((np.sign(positions) * np.abs(positions) ** 1.3).astype(np.int64))
    sides = discretize(pair, positions, interval)
    on = positions[(positions >= -40) & (positions <= 40)] * interval
    between = on[:-1] + 0.37 * np.diff(on)
    for place, sign in ((0, 1), (1, -1)):
        exact_on = hockey_stick(pair, sign * on)[place]
        exact_between = hockey_stick(pair, sign * between)[place]
        found_on = np.array([divergence(sides[place], sign * e) for e in on])
        found_between = np.array([divergence(sides[place], sign * e) for e in between])
        np.testing.assert_allclose(found_on, exact_on, rtol=1e-9, atol=1e-14)
        assert (found_between >= exact_between * (1 - 1e-12) - 1e-15).all()
        assert (found_between > exact_between + 1e-9).any()


@pytest.mark.parametrize("step", STEPS)
def test_both_sides_keep_their_mass(step):
    pair = dominating_pair(step, "replacement", -80.0)
    low, high = loss_range(pair, 1e-12)
    interval = (high - low) / 300
    positions = np.arange(math.floor(low / interval) - 1, math.ceil(high / interval) + 2)
    for side in discretize(pair, positions, interval):
        assert side.masses.min() >= 0
        assert side.masses.sum() + side.infinity == pytest.approx(1.0, abs=1e-12)
        # What the other side holds of it: at most 1, up to rounding that exp(-loss) magnifies.
        shown = side.losses > -15
        assert np.exp(-side.losses[shown]) @ side.masses[shown] <= 1 + 1e-8


def test_a_range_too_short_sends_its_top_to_infinity_and_raises_its_bottom():
    pair = dominating_pair(simple_step(sample_rate=0.5, noise_multiplier=0.5), "anchored", -80.0)
    removal, insertion = discretize(pair, np.arange(-2, 3), 0.1)
    wide, _ = discretize(pair, np.arange(-200, 400), 0.1)
    assert removal.infinity > 0.1
    for epsilon in (-0.2, 0.0, 0.15, 1.0, 4.0):
        assert divergence(removal, epsilon) >= divergence(wide, epsilon) - 1e-12
    assert insertion.masses.min() >= 0


@pytest.mark.parametrize("step", STEPS)
def test_the_range_leaves_out_only_what_is_rare(step):
    pair, rare = dominating_pair(step, "replacement", -80.0), 1e-9
    low, high = loss_range(pair, rare)
    assert low < 0 < high or step.sample_rate == 1.0
    # Beyond the highest loss lies at most about `rare` of the side with the entity.
    x = output_at(pair, np.array([high]))[:, 0]
    beyond = sum(
        weight * (np.exp(row) @ np.array([upper_mass_of(pair, s, at) for s in pair.sensitivities]))
        for weight, row, at in zip(pair.node_weights, pair.log_weights, x, strict=True)
    )
    assert beyond <= 3 * rare


def upper_mass_of(pair, sensitivity, at):
    single = replace(
        pair,
        sensitivities=np.array([sensitivity]),
        log_weights=np.zeros((1, 1)),
        node_weights=np.ones(1),
        excess=np.zeros(1),
    )
    return upper_mass(single, at)
