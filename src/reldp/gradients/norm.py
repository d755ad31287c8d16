"""Normalization layers whose backward yields one weight and bias gradient per unit.

The forward is torch's own; per-unit gradients of the affine part flow to probes. Weights are passed
detached. Private to the package.

>>> probe = torch.zeros(2, 2, requires_grad=True)
>>> affine(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.ones(2), probe, 2).sum().backward()
>>> probe.grad
tensor([[1., 2.],
        [3., 4.]])
"""

from typing import Any

import torch
from torch import Tensor

from reldp.gradients.products import per_unit_sum, run, sum_dtype

__all__ = ["affine", "layer_norm"]


def affine(x: Tensor, weight: Tensor, weight_probe: Tensor | None, units: int) -> Tensor:
    """Scale the last dimension; the gradient of the scale goes to its probe."""
    return run(_Affine, x, weight, weight_probe, units)


def layer_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    weight_probe: Tensor | None,
    bias_probe: Tensor | None,
    eps: float,
    units: int,
) -> Tensor:
    """Normalize over the weight's shape; gradients of weight and bias go to probes."""
    return run(_LayerNorm, x, weight, bias, weight_probe, bias_probe, eps, units)


class _Affine(torch.autograd.Function):
    """Scale (and shift) along the last dimension, the affine part of a norm layer."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, weight_probe: Tensor | None, units: int
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.units = units
        return weight * x

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (g,) = grads
        x, weight = ctx.saved_tensors
        grad_x = (g * weight).to(x.dtype) if ctx.needs_input_grad[0] else None
        grad_w = per_unit_sum(g * x, ctx.units) if ctx.needs_input_grad[2] else None
        return grad_x, None, grad_w, None


class _LayerNorm(torch.autograd.Function):
    """Layer normalization whose weight and bias gradients go to probes."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        weight_probe: Tensor | None,
        bias_probe: Tensor | None,
        eps: float,
        units: int,
    ) -> Tensor:
        out, mean, rstd = torch.native_layer_norm(x, weight.shape, weight, bias, eps)
        ctx.save_for_backward(x, weight, bias, mean, rstd)
        ctx.units = units
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (g,) = grads
        x, weight, bias, mean, rstd = ctx.saved_tensors
        needs, shape = ctx.needs_input_grad, weight.shape
        grad_x = None
        if needs[0]:
            grad_x = torch.ops.aten.native_layer_norm_backward(
                g.contiguous(), x, shape, mean, rstd, weight, bias, [True, False, False]
            )[0]
        grad_w = grad_b = None
        flat = g.reshape(ctx.units, -1, weight.numel())
        if needs[3]:
            normal = (x - mean).mul_(rstd).reshape(flat.shape)
            grad_w = (flat * normal).sum(1, dtype=sum_dtype(g.dtype)).view(-1, *shape)
        if needs[4]:
            grad_b = flat.sum(1, dtype=sum_dtype(g.dtype)).view(-1, *shape)
        return grad_x, None, None, grad_w, grad_b, None, None
