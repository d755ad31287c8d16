"""Leaves of a graph of autograd."""

import torch

from reldp.gradients.leaves import leaves


def test_every_leaf_is_found_once_and_detached_ones_are_not():
    x, y, z = (torch.ones(2, requires_grad=True) for _ in range(3))
    values = ((x + y) * x).exp() + z.detach()
    assert {id(leaf) for leaf in leaves(values)} == {id(x), id(y)}
    assert len(list(leaves(values))) == 2
    assert list(leaves(torch.ones(2))) == []
