"""Layouts of microbatches: found to the bit, and refused where units mix."""

from dataclasses import replace

import pytest
import torch

from reldp.errors import InputError
from reldp.gradients import ClippedSum
from reldp.gradients.microbatches import MicrobatchShape, MicrobatchShapes
from reldp.training.locality import SyntheticUnits, find_layouts, is_still_local

ROWS = 3
SHAPES = MicrobatchShapes(rows_per_unit=ROWS, typical_units=8, max_length=16, device_type="cpu")


def make(units, length, seed):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn((units * ROWS, length), generator=generator)
    flags = torch.zeros((units, 1), dtype=torch.int64)
    return SyntheticUnits({"input_ids": values}, flags, flags.bool())


class Machine:
    """A stand-in for a step whose gradients may depend on more than their unit.

    Args:
        fault: Given (layout, gradients (units, size), place numbers, all rows), returns gradients.
    """

    def __init__(self, fault=None):
        self.fault, self.calls = fault, 0

    def __call__(self, shape: MicrobatchShape, units: SyntheticUnits, *, weights):
        self.calls += 1
        layout = "single" if shape.units == 1 else "apart" if shape.apart else "rows"
        rows = units.rows["input_ids"].view(len(units.endpoints), -1)
        count = len(rows)
        padded = torch.cat([rows, rows[:1].expand(shape.units - count, -1)])
        gradients = padded[:, :4] * 0.1 + 0.01
        if self.fault is not None:
            gradients = self.fault(layout, gradients, self.calls)
        norms = gradients.double().norm(dim=1)
        total = (gradients[:count].double() * weights[:, None]).sum(0) * 2.0**30
        witness = gradients.contiguous().view(torch.int32).double().sum(1)
        clipped = ClippedSum(
            total=total,
            shapes={"weight": total.shape},
            norms=norms,
            losses=gradients.sum(1),
            factors=torch.ones(shape.units),
            witness=witness,
        )
        return clipped.first(count)


def layouts(fault):
    found = find_layouts(SHAPES, Machine(fault), make)
    return [found.layouts[length] for length in found.lengths()]


def test_units_that_are_taken_keep_their_types():
    flags = torch.zeros((3, 1), dtype=torch.int64)
    rows = {"features": torch.arange(9.0).view(9, 1)}
    units = SyntheticUnits(rows, flags, flags.bool(), torch.tensor([4, 5, 6]))
    assert units.take([2, 0, 2]).types.tolist() == [6, 4, 6]
    assert make(3, 4, 0).take([1]).types is None


def nudged(gradients, places):
    """The last bit changed at some places."""
    bits = gradients.clone().view(torch.int32)
    bits[places] ^= 1
    return bits.view(torch.float32)


def test_independent_units_keep_the_fastest_layout():
    assert layouts(None) == ["rows", "rows"]


@pytest.mark.parametrize("place", [0, 1, 5, -2])
def test_one_bit_at_one_place_is_found_and_the_next_layout_taken(place):
    def fault(layout, gradients, call):
        return nudged(gradients, [place]) if layout == "rows" else gradients

    assert layouts(fault) == ["apart", "apart"]


def test_where_products_of_units_depend_on_place_too_units_are_run_alone():
    def fault(layout, gradients, call):
        return gradients if layout == "single" else nudged(gradients, [1])

    assert layouts(fault) == ["single", "single"]


def test_rounding_that_depends_on_neighbors_is_found():
    def fault(layout, gradients, call):
        others = gradients.sum(0, keepdim=True) - gradients
        return gradients * (1 + 1e-6 * others.sign()) if layout == "rows" else gradients

    assert layouts(fault) == ["apart", "apart"]


@pytest.mark.parametrize("strength", [1.0, 0.3])
def test_units_that_mix_are_refused(strength):
    def centered(layout, gradients, call):
        return gradients - strength * gradients.mean(0, keepdim=True)

    with pytest.raises(InputError, match="keep units apart"):
        layouts(centered)


def test_an_encoder_that_does_not_repeat_itself_is_refused():
    def restless(layout, gradients, call):
        return gradients * (1 + 1e-6 * call)

    with pytest.raises(InputError, match="even for a unit alone"):
        layouts(restless)


def test_gradients_that_are_not_finite_are_refused():
    with pytest.raises(InputError, match="finite losses and gradients"):
        layouts(lambda layout, gradients, call: gradients / 0)


def test_without_gradients_nothing_is_shown_and_units_are_run_alone():
    assert layouts(lambda layout, gradients, call: gradients * 0) == ["single", "single"]


def test_what_changes_later_is_seen_when_looked_at_again():
    shapes = find_layouts(SHAPES, Machine(), make)
    assert is_still_local(shapes, Machine(), make, length=8, seed=77)
    late = Machine(lambda layout, gradients, call: nudged(gradients, [2]))
    assert not is_still_local(shapes, late, make, length=8, seed=77)


def test_a_unit_that_others_make_infinite_is_no_rounding():
    def overflow(layout, gradients, call):
        alike = bool((gradients == gradients[:1]).all())
        return gradients if alike else gradients + float("nan")

    with pytest.raises(InputError, match="keep units apart"):
        layouts(overflow)


def test_units_of_two_makes_are_joined_in_order():
    first, second = make(1, 1, 0), make(2, 1, 1)
    joined = first.and_also(second)
    assert joined.endpoints.shape[0] == joined.mask.shape[0] == 3
    for name, value in joined.rows.items():
        assert torch.equal(value, torch.cat([first.rows[name], second.rows[name]]))
    types = torch.tensor([1]), torch.tensor([2, 3])
    typed = replace(first, types=types[0]).and_also(replace(second, types=types[1]))
    assert typed.types.tolist() == [1, 2, 3]
    assert joined.types is None


@pytest.mark.parametrize("name", ["losses", "witness"])
def test_values_that_are_rounded_differently_at_the_end_of_an_array_are_found(name):
    """The unit that is compared has none of them: only units that move show it."""

    class Tail(Machine):
        def __call__(self, shape, units, *, weights):
            result = super().__call__(shape, units, weights=weights)
            rows = units.rows["input_ids"].view(len(weights), -1)
            if shape.apart or shape.units == 1 or torch.equal(rows[0], rows[1]):
                return result
            values = getattr(result, name).clone()
            changed = weights == 0
            changed[: len(values) // 2] = False
            return replace(result, **{name: torch.where(changed, values + 1, values)})

    found = find_layouts(SHAPES, Tail(), make)
    assert [found.layouts[length] for length in found.lengths()] == ["apart", "apart"]
