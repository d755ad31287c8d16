import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reldp.accounting import PLDAccountant, RenyiAccountant
from reldp.accounting.calibration import least_noise, max_steps
from reldp.errors import PlanError, UnreachableTarget
from tests.accounting.conformance import small_step

MANY = settings(max_examples=60, deadline=None, derandomize=True)


@MANY
@given(
    scale=st.floats(1e-2, 1e2),
    power=st.floats(0.5, 4.0),
    target=st.floats(1e-2, 1e3),
)
def test_the_least_noise_is_on_the_safe_side_and_close(scale, power, target):
    def epsilon(noise):
        return (scale / noise) ** power

    noise, found = least_noise(epsilon, target)
    assert found == epsilon(noise) <= target
    exact = scale / target ** (1 / power)
    assert noise <= exact * 1.0011 or noise <= 1e-3


@MANY
@given(floor=st.floats(0.0, 0.9), target=st.floats(1.0, 5.0), jump=st.floats(0.5, 2.0))
def test_steps_and_floors_in_the_curve_do_not_break_the_search(floor, target, jump):
    def epsilon(noise):
        return math.inf if noise < 0.01 else floor + 10.0 / noise + (3.0 if noise < jump else 0.0)

    noise, found = least_noise(epsilon, target)
    assert found <= target
    assert epsilon(noise / 1.0011) > target


def test_a_target_that_no_noise_reaches_is_refused_with_the_reason():
    with pytest.raises(UnreachableTarget, match=r"even noise .* leaves epsilon 0.5, because"):
        least_noise(lambda noise: 0.5 + 1 / noise, 0.4)


def test_a_target_that_hardly_any_noise_meets_ends_at_the_smallest_noise():
    noise, found = least_noise(lambda noise: 1e-9, 1.0)
    assert noise <= 1e-3
    assert found == 1e-9


@pytest.mark.parametrize("target", [0.0, -1.0, math.inf, math.nan])
@pytest.mark.parametrize("search", [least_noise, max_steps])
def test_a_target_must_be_finite_and_positive(search, target):
    with pytest.raises(
        PlanError, match=r"`target_epsilon` must be a finite number (above 0|of at least 0.001)"
    ):
        search(lambda value: 1.0, target)


@MANY
@given(cost=st.floats(1e-7, 1.0), start=st.integers(1, 10**6))
def test_the_most_steps_are_exact(cost, start):
    steps, found = max_steps(lambda count: cost * math.sqrt(count), 1.0, start)
    assert found <= 1.0
    assert steps == 10**9 or cost * math.sqrt(steps + 1) > 1.0


def test_a_target_below_one_step_is_refused():
    with pytest.raises(UnreachableTarget, match="exceeded by a single step, which costs 2"):
        max_steps(lambda count: 2.0 * count, 1.0)


@pytest.mark.parametrize("accountant", [PLDAccountant(), RenyiAccountant()])
@pytest.mark.parametrize("target", [0.5, 8.0])
def test_real_curves_are_calibrated_to_a_thousandth(accountant, target):
    def epsilon(noise):
        return accountant.epsilon(small_step(noise_multiplier=noise) * 200, 1e-5).epsilon

    noise, found = least_noise(epsilon, target)
    assert found == epsilon(noise) <= target
    # 0.1 % less noise exceeds the target, up to what the adaptive grid may differ between two noises.
    assert epsilon(noise / 1.002) > target * (1 - 2e-3)
    assert epsilon(noise / 1.01) > target


def test_the_anchored_analysis_has_a_price_that_no_noise_lowers():
    # k/n sqrt(T b) is large: batch sizes alone reveal the entity; the other analysis has no such floor.
    step = small_step(num_relations=10_000, sample_rate=0.02, pool_size=1200)

    def epsilon(noise, analysis):
        event = small_step(
            num_relations=step.num_relations,
            sample_rate=step.sample_rate,
            pool_size=step.pool_size,
            noise_multiplier=noise,
        )
        return PLDAccountant(analysis=analysis).epsilon(event * 3000, 1e-5).epsilon

    with pytest.raises(UnreachableTarget, match="batch sizes alone reveal"):
        least_noise(lambda noise: epsilon(noise, "anchored"), 1.0, start=1e6)
    assert epsilon(1e6, "replacement") < 1.0
