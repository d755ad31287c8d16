"""Clipped sums: views by parameter, copies, and sums of sums."""

import torch

from reldp.gradients import ClippedSum

SHAPES = {"weight": torch.Size([2, 2]), "bias": torch.Size([1])}


def clipped_sum(values=(0.0, 1.0, 2.0)):
    values = torch.tensor(values)
    return ClippedSum(
        total=torch.arange(5.0), shapes=SHAPES, norms=values, losses=values + 1, factors=values / 2
    )


def test_sums_are_views_of_the_total_in_the_shapes_of_the_parameters():
    one = clipped_sum()
    assert {name: value.tolist() for name, value in one.sums.items()} == {
        "weight": [[0.0, 1.0], [2.0, 3.0]],
        "bias": [4.0],
    }
    one.sums["bias"].fill_(7.0)
    assert one.total[-1] == 7.0


def test_units_are_counted():
    one = clipped_sum((float("nan"), 1.0, float("inf")))
    assert (one.num_units, one.num_nonfinite, one.num_clipped) == (3, 2, 1)


def test_sums_are_joined_unit_by_unit_and_copied():
    one = clipped_sum()
    copy = one.first(2)
    one.norms.fill_(9.0)
    one.total.fill_(9.0)
    assert copy.norms.tolist() == [0.0, 1.0]
    both = copy.plus(copy)
    assert both.total.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert both.factors.tolist() == [0.0, 0.5, 0.0, 0.5]
    assert both.sums["bias"].tolist() == [8.0]


def test_the_sum_over_nothing_is_zero_in_double_precision():
    nothing = ClippedSum.of_nothing(SHAPES)
    assert nothing.total.tolist() == [0.0] * 5
    assert nothing.total.dtype == torch.float64
    assert (nothing.num_units, nothing.num_clipped, nothing.num_nonfinite) == (0, 0, 0)


def test_a_selection_has_the_parameters_in_the_order_asked_for():
    one = clipped_sum()
    names = list(reversed(one.shapes))
    turned = one.select(names)
    assert list(turned.shapes) == names
    for name in names:
        assert torch.equal(turned.sums[name], one.sums[name])
    assert one.select(one.shapes) is one
