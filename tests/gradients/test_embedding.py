"""Embedding tables against plain autograd, unit by unit."""

import pytest
import torch
import torch.nn.functional as F

from reldp.gradients.embedding import direct_embedding, kept_embedding
from reldp.gradients.recorder import KeptEmbedding, Recorder

UNITS, ROWS, COUNT, DIM = 3, 2, 7, 4


@pytest.mark.parametrize("padding", [-1, 1])
def test_both_ways_equal_a_loop_over_units(padding: int) -> None:
    torch.manual_seed(0)
    indices = torch.randint(COUNT, (UNITS * ROWS, 5))
    weight = torch.randn(COUNT, DIM, dtype=torch.float64)
    g = torch.randn(UNITS * ROWS, 5, DIM, dtype=torch.float64)
    probe = torch.zeros(UNITS, COUNT, DIM, dtype=torch.float64, requires_grad=True)
    out = direct_embedding(indices, weight, probe, padding, UNITS)
    assert torch.equal(out, F.embedding(indices, weight))
    out.backward(g)
    recorder = Recorder({"w": weight}, ghost_names={"w"})
    recorder.start(units=UNITS, rows_per_unit=ROWS)
    kept_embedding(indices, weight, padding, recorder, "w").backward(g)
    (use,) = recorder.uses["w"]
    assert isinstance(use, KeptEmbedding)
    assert probe.grad is not None
    for u in range(UNITS):
        rows = slice(u * ROWS, (u + 1) * ROWS)
        leaf = weight.clone().requires_grad_()
        one = F.embedding(indices[rows], leaf, None if padding < 0 else padding)
        (slow,) = torch.autograd.grad((one * g[rows]).sum(), [leaf])
        assert torch.allclose(probe.grad[u], slow)
        table = torch.zeros_like(weight).index_add(0, use.indices[u], use.grads[u])
        assert torch.allclose(table, slow)


def test_gradients_of_low_precision_outputs_are_added_in_float32() -> None:
    probe = torch.zeros(1, 1, 1, requires_grad=True)
    out = direct_embedding(
        torch.zeros(1, 2, dtype=torch.int64), torch.ones(1, 1).bfloat16(), probe, -1, 1
    )
    out.backward(torch.tensor([[[256.0], [1.0]]]).bfloat16())
    assert probe.grad is not None
    assert probe.grad.item() == 257.0  # not a bfloat16 number
