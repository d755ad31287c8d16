"""Rows of inputs, whatever kind of input they are of."""

import numpy as np
import pytest
import torch

from reldp.encoders.input_rows import Rows
from reldp.encoders.inputs import Column
from reldp.errors import EncoderError


def test_a_public_pool_follows_without_a_copy_of_a_shared_array():
    array = np.arange(6)
    one, other = Rows(array, np.array([0, 1])), Rows(array, np.array([5]))
    assert one.join(other).values is array
    assert one.join(other).take([2, 0]).tolist() == [5, 0]
    apart = Rows(array[:2].copy(), np.array([1, 0])).join(Rows(array[3:].copy(), np.array([2])))
    assert apart.take([0, 1, 2]).tolist() == [1, 0, 5]


def test_rows_are_copies_in_any_order():
    array = np.arange(6.0).reshape(3, 2)
    taken = Rows(array, np.array([2, 0])).take(np.array([1, 1, 0]))
    assert taken.tolist() == [[0.0, 1.0], [0.0, 1.0], [4.0, 5.0]]
    taken[:] = 9.0
    assert array.max() == 5.0


def test_numbers_reach_a_module_in_two_types():
    assert Column("a").tensor(np.array([1, 200], np.uint8)).dtype == torch.float32
    assert Column("a", num_values=9).tensor(np.array([1, 2], np.int32)).dtype == torch.int64


@pytest.mark.parametrize("shape", [(0,), (2, -1), "2", (1.5,)])
def test_a_shape_is_made_of_positive_whole_numbers(shape):
    with pytest.raises(EncoderError, match="`shape` must be positive whole numbers"):
        Column("a", shape=shape)
