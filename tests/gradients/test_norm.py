"""Normalization layers against plain autograd, unit by unit."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from reldp.gradients.norm import affine, layer_norm

UNITS, ROWS = 3, 2


def _probe(*shape: int) -> Tensor:
    return torch.zeros(UNITS, *shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("shape", [(5,), (4, 5)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_layer_norm_equals_a_loop_over_units(shape: tuple[int, ...], with_bias: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(UNITS * ROWS, 4, 5, dtype=torch.float64, requires_grad=True)
    weight, bias = torch.randn(2, *shape, dtype=torch.float64).unbind()
    g = torch.randn(x.shape, dtype=torch.float64)
    probes = _probe(*shape), _probe(*shape) if with_bias else None
    own_bias = bias if with_bias else None
    out = layer_norm(x, weight, own_bias, *probes, 1e-5, UNITS)
    assert torch.allclose(out, F.layer_norm(x, shape, weight, own_bias, 1e-5))
    (truth,) = torch.autograd.grad(F.layer_norm(x, shape, weight, own_bias, 1e-5).mul(g).sum(), [x])
    out.backward(g)
    assert x.grad is not None
    assert torch.allclose(x.grad, truth)
    for u in range(UNITS):
        rows = slice(u * ROWS, (u + 1) * ROWS)
        leaves = [weight.clone().requires_grad_(), bias.clone().requires_grad_()]
        used = leaves if with_bias else leaves[:1]
        one = F.layer_norm(x.detach()[rows], shape, leaves[0], leaves[1] if with_bias else None)
        for probe, slow in zip(
            probes, torch.autograd.grad((one * g[rows]).sum(), used), strict=False
        ):
            assert probe is not None
            assert probe.grad is not None
            assert torch.allclose(probe.grad[u], slow)


def test_affine_scales_and_gives_each_unit_its_own_gradient() -> None:
    torch.manual_seed(0)
    x = torch.randn(UNITS * ROWS, 4, 5, dtype=torch.float64, requires_grad=True)
    weight, probe = torch.randn(5, dtype=torch.float64), _probe(5)
    g = torch.randn(x.shape, dtype=torch.float64)
    affine(x, weight, probe, UNITS).backward(g)
    assert x.grad is not None
    assert probe.grad is not None
    assert torch.allclose(x.grad, g * weight)
    assert torch.allclose(probe.grad, (g * x.detach()).view(UNITS, -1, 5).sum(1))
