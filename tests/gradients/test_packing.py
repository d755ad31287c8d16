"""Packing by length: the cheapest cuts, and nothing lost."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reldp.errors import InputError
from reldp.gradients.packing import pack_units


def _slow_cost(longest: list[int], rows: int, chunk_cost: int) -> int:
    """The least cost over all ways to cut the sorted units."""
    sizes, n = sorted(longest), len(longest)
    best = None
    for cuts in itertools.product([False, True], repeat=n - 1):
        endpoints = [i + 1 for i, cut in enumerate(cuts) if cut] + [n]
        cost, start = 0, 0
        for end in endpoints:
            cost += (end - start) * rows * sizes[end - 1] + chunk_cost
            start = end
        best = cost if best is None else min(best, cost)
    assert best is not None
    return best


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(1, 3), st.integers(0, 40))
def test_the_cuts_are_the_cheapest_there_are(
    longest: list[int], rows: int, chunk_cost: int
) -> None:
    lengths = np.ones((len(longest), rows), dtype=np.int64)
    lengths[:, 0] = longest
    found = pack_units(lengths, chunk_cost=chunk_cost)
    assert found.positions + chunk_cost * len(found.sizes) == _slow_cost(longest, rows, chunk_cost)
    assert sorted(found.order.tolist()) == list(range(len(longest)))
    assert sum(found.sizes) == len(longest)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 200))
def test_no_chunk_exceeds_the_limit_unless_one_unit_does(longest: list[int], most: int) -> None:
    found = pack_units(np.array(longest)[:, None], chunk_cost=5, max_positions=most)
    start = 0
    for size in found.sizes:
        chunk = np.array(longest)[found.order[start : start + size]]
        assert size * chunk.max() <= most or size == 1
        start += size


def test_equal_lengths_stay_together_and_an_empty_batch_has_no_chunk() -> None:
    assert pack_units(np.full((7, 6), 32)).sizes == [7]
    assert pack_units(np.zeros((0, 6), np.int64)).sizes == []


def test_padding_that_is_worth_a_chunk_is_saved() -> None:
    lengths = np.array([[5, 5]] * 50 + [[300, 5]])
    found = pack_units(lengths, chunk_cost=4096)
    assert found.sizes == [50, 1]
    assert found.positions == 50 * 10 + 600


@pytest.mark.parametrize("lengths", [[1, 2], [[1.5]], [[-1]]])
def test_lengths_that_are_not_whole_numbers_per_row_are_refused(lengths: object) -> None:
    with pytest.raises(InputError, match="`lengths`"):
        pack_units(lengths)  # type: ignore[arg-type] # on purpose


def test_limits_below_their_range_are_refused() -> None:
    with pytest.raises(InputError, match="`chunk_cost`"):
        pack_units([[1]], chunk_cost=-1)
    with pytest.raises(InputError, match="`max_positions`"):
        pack_units([[1]], max_positions=0)
