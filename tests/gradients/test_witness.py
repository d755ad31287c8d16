"""Witnesses of units."""

import pytest
import torch

from reldp.gradients.witness import _multipliers, witness


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_one_changed_bit_anywhere_is_seen_and_equal_units_agree(dtype):
    torch.manual_seed(0)
    unit = torch.randn(1, 500).to(dtype)
    values = unit.repeat(40, 1)
    bits = values.view(torch.int16)
    for row in range(1, 40):
        bits[row, (row * 37) % bits.shape[1]] ^= 1 << (row % 15)
    found = witness([values, unit.repeat(40, 1)])
    assert len(set(found.tolist())) == 40
    assert len(set(witness([unit.repeat(40, 1)]).tolist())) == 1


def test_place_does_not_matter():
    values = [torch.randn(9, 100), torch.randn(9, 7, 3), torch.zeros(9, 0)]
    found = witness(values)
    assert torch.equal(witness([v.flip(0) for v in values]).flip(0), found)
    alone = torch.cat([witness([v[i : i + 1] for v in values]) for i in range(9)])
    assert torch.equal(alone, found)


def test_values_that_swap_places_are_seen():
    one, two = torch.randn(2, 50)
    values = torch.stack([torch.cat([one, two]), torch.cat([two, one])])
    first, second = witness([values]).tolist()
    assert first != second


def test_a_bit_in_any_block_is_seen():
    values = torch.randn(1, 5 * (1 << 15) // 2 * 2).repeat(6, 1)  # several blocks of columns
    bits = values.view(torch.int16)
    for row in range(1, 6):
        bits[row, row * 60_000] ^= 1
    assert len(set(witness([values]).tolist())) == 6


def test_a_change_in_one_place_shows_wherever_it_is():
    """A multiplier of zero would hide it."""
    multipliers = _multipliers(torch.device("cpu"))
    assert bool((multipliers.remainder(2) == 1).all())
    column = int(multipliers.abs().argmin())
    bits = torch.zeros((2, len(multipliers)), dtype=torch.int16)
    bits[1, column] = 1
    first, second = witness([bits.view(torch.float32)]).tolist()
    assert first != second
