"""Vectors of length 1."""

import torch
from torch.nn import functional

from reldp.losses.unit_length import NORM_FLOOR, unit_length


def test_vectors_above_the_floor_are_divided_by_their_length():
    vectors = torch.randn(50, 7)
    assert torch.equal(unit_length(vectors), functional.normalize(vectors, dim=-1))


def test_gradients_are_bounded_by_the_floor_and_would_not_be_without_it():
    for scale in (1e-3, 1e-5, 1e-9, 0.0):
        steep = []
        for function in (unit_length, lambda v: functional.normalize(v, dim=-1)):
            vectors = (scale * torch.ones(1, 3)).requires_grad_()
            function(vectors)[0, 0].backward()
            steep.append(float(vectors.grad.norm()))
        assert steep[0] <= 1.0 / NORM_FLOOR * (1 + 1e-6)
        if scale in (1e-9,):
            assert steep[1] > 100 / NORM_FLOOR
