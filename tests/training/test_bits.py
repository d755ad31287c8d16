"""The bits of weights are compared exactly enough: any single change is noticed, and so are exchanges and signs."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reldp.training.bits import bits_of

torch.set_num_threads(1)
TYPES = (torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool)


def values(count, dtype=torch.float32, seed=0):
    drawn = torch.randn(count, generator=torch.Generator().manual_seed(seed))
    return (10 * drawn).to(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("count", [0, 1, 3, 16_384, 16_385, 100_001])
def test_every_single_element_counts(dtype, count):
    value = values(count, dtype)
    known = bits_of([value])
    assert known == bits_of([value.clone()])
    for place in {0, count // 2, count - 1} if count else ():
        changed = value.clone()
        changed[place] = ~changed[place] if dtype == torch.bool else changed[place] + 1
        assert bits_of([changed]) != known


@given(st.integers(0, 99_999), st.integers(0, 99_999))
def test_two_elements_cannot_change_places(one, other):
    value = torch.arange(100_000, dtype=torch.float32)
    changed = value.clone()
    changed[[one, other]] = value[[other, one]]
    assert (bits_of([changed]) == bits_of([value])) == (one == other)


def test_signs_of_many_elements_count():
    """A plain sum of words would lose every second sign: 2^63 twice is nothing."""
    value = values(96_000).view(-1, 384)
    known = bits_of([value])
    for column in range(4):
        changed = value.clone()
        changed[:, column].neg_()
        assert bits_of([changed]) != known


def test_shapes_types_orders_and_parts_count():
    one, other = values(6), values(6, seed=1)
    states = [
        [one, other],
        [other, one],
        [torch.cat([one, other])],
        [one.view(2, 3), other],
        [one.view(2, 3).T, other],
        [one.view(torch.int32), other],
        [one],
        [],
    ]
    assert len({bits_of(state) for state in states}) == len(states)


def test_large_tensors_do_not_change_places():
    one, other = values(40_000), values(40_000, seed=1)
    assert bits_of([one, other]) != bits_of([other, one])
    whole = torch.cat([values(16_384, seed=seed) for seed in range(3)])
    swapped = whole.view(3, -1).flip(0).reshape(-1)
    assert bits_of([whole]) != bits_of([swapped])
