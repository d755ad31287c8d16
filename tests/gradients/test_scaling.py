"""Clip factors."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from reldp.gradients.scaling import MARGIN, clip_factors

positive = st.floats(1e-30, 1e30)


@given(positive, positive)
def test_factor_times_length_never_exceeds_the_threshold(norm: float, threshold: float) -> None:
    factor = clip_factors(
        torch.tensor([norm]).double(), torch.tensor([threshold]).double(), torch.zeros(1)
    )
    assert 0.0 <= float(factor) <= 1.0
    assert float(factor) * norm <= threshold


def test_units_below_their_threshold_are_untouched_and_zero_gradients_stay_zero() -> None:
    factors = clip_factors(torch.tensor([0.0, 0.5, 2.0]), torch.ones(3), torch.zeros(3))
    assert factors.tolist() == [1.0, 1.0, MARGIN / 2]


def test_lengths_that_are_not_finite_get_the_factor_zero() -> None:
    bad = torch.tensor([float("nan"), float("inf"), 1.0])
    fine, limits = torch.zeros(3), torch.ones(3) * 5
    assert clip_factors(bad, limits, fine).tolist() == [0.0, 0.0, 1.0]
    assert clip_factors(fine, limits, bad).tolist() == [0.0, 0.0, 1.0]


def test_spreads_stay_within_the_threshold_too() -> None:
    factors = clip_factors(torch.ones(2), torch.ones(2) * 2, torch.tensor([1.0, 8.0]))
    assert factors.tolist() == [1.0, MARGIN / 4]
