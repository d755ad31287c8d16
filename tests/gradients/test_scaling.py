"""Clip factors."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from reldp.gradients.scaling import MARGIN, clip_factors

positive = st.floats(1e-30, 1e30)


@given(positive, st.floats(0, 1e10), positive)
def test_factor_times_length_never_exceeds_the_threshold_in_single_precision(
    norm: float, slack: float, threshold: float
) -> None:
    factor = clip_factors(
        torch.tensor([norm]).double(),
        torch.tensor([slack]).double(),
        torch.tensor([threshold]).double(),
    )
    assert 0.0 <= float(factor) <= 1.0
    assert float(factor.float().double()) * (norm + slack) <= threshold


def test_units_below_their_threshold_are_untouched_and_zero_gradients_stay_zero() -> None:
    factors = clip_factors(torch.tensor([0.0, 0.5, 2.0]), torch.zeros(3), torch.ones(3))
    assert factors.tolist() == [1.0, 1.0, MARGIN / 2]


def test_lengths_that_are_not_finite_get_the_factor_zero() -> None:
    bad = torch.tensor([float("nan"), float("inf"), 1.0])
    assert clip_factors(bad, torch.zeros(3), torch.ones(3) * 5).tolist() == [0.0, 0.0, 1.0]
    assert clip_factors(torch.ones(3), bad, torch.ones(3) * 5).tolist() == [0.0, 0.0, 1.0]
