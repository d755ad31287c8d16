"""Clipped gradients on a grid."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from reldp.gradients import fixed_point
from reldp.gradients.fixed_point import clipped_units, unit_sum

GRID = torch.tensor(0.37 * 2.0**-30, dtype=torch.float64)


@given(st.integers(1, 40), st.integers(1, 60), st.integers(0, 2**31))
def test_no_coordinate_grows_and_the_order_of_units_does_not_matter(
    units: int, size: int, seed: int
) -> None:
    torch.manual_seed(seed)
    values, factors = torch.randn(units, size), torch.rand(units, dtype=torch.float64)
    steps = clipped_units(values, factors, GRID)
    exact = values.double() * factors[:, None]
    assert torch.equal(steps, steps.round())
    assert bool((steps.abs() * GRID <= exact.abs() * (1 + 1e-15)).all())
    assert bool(((exact - steps * GRID).abs() <= GRID * (1 + 1e-6)).all())
    order = torch.randperm(units)
    total = unit_sum(values, factors, GRID)
    assert torch.equal(total, unit_sum(values[order], factors[order], GRID))
    first, rest = (unit_sum(values[s], factors[s], GRID) for s in (slice(0, 1), slice(1, None)))
    assert torch.equal(total, first + rest)


def test_blocks_of_elements_change_nothing(monkeypatch) -> None:
    values, factors = torch.randn(3, 100), torch.rand(3, dtype=torch.float64)
    whole = unit_sum(values, factors, GRID)
    monkeypatch.setitem(fixed_point._BLOCK, "cpu", 7)
    assert torch.equal(unit_sum(values, factors, GRID), whole)


def test_a_factor_of_zero_leaves_out_what_is_not_finite() -> None:
    values = torch.tensor([[1.0, 2.0], [float("nan"), float("inf")]])
    factors = torch.tensor([1.0, 0.0], dtype=torch.float64)
    assert unit_sum(values, factors, torch.tensor(1.0).double()).tolist() == [1.0, 2.0]
    assert unit_sum(values, factors, None).tolist() == [1.0, 2.0]


def test_no_units_or_no_elements_give_zeros() -> None:
    assert unit_sum(torch.zeros(0, 3), torch.zeros(0), GRID).tolist() == [0.0, 0.0, 0.0]
    assert unit_sum(torch.zeros(3, 0), torch.zeros(3), GRID).shape == (0,)
