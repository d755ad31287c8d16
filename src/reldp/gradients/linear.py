"""Linear layers whose backward yields one weight gradient per unit.

Each computes exactly what the layer computes; only the backward differs: the weight's own gradient
is not formed, its per-unit gradients flow to a probe (or its uses are kept), and the gradient of
the input is the usual one. Nothing has side effects except keeping, so recomputed forwards
(checkpointing) and traced graphs (compilation) give the same. Weights are passed detached.

Shapes: N positions in all, U units. Private to the package.

>>> probe = torch.zeros(2, 1, 3, requires_grad=True)
>>> x = torch.tensor([[1.0, 0, 0], [0, 2.0, 0]])
>>> direct_linear(x, torch.ones(1, 3), None, probe, None, 2).sum().backward()
>>> probe.grad[1]
tensor([[0., 2., 0.]])
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from reldp.gradients.products import by_unit, linear, matmul, per_unit_outer, per_unit_sum, run
from reldp.gradients.recorder import KeptLinear, Recorder

__all__ = ["direct_linear", "kept_linear", "lora_linear"]


def direct_linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    weight_probe: Tensor | None,
    bias_probe: Tensor | None,
    units: int,
    apart: bool = False,
) -> Tensor:
    """Compute x W^T + b; gradients of weight and bias go to probes."""
    return run(_Linear, x, weight, bias, weight_probe, bias_probe, units, apart, None)


def kept_linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    bias_probe: Tensor | None,
    recorder: Recorder,
    name: str,
) -> Tensor:
    """Compute x W^T + b; the recorder keeps uses of the weight, the bias gradient goes to its probe."""
    anchor, keep = recorder.anchor(weight.device), partial(recorder.keep, name)
    units, apart = recorder.units, recorder.apart
    return run(_Linear, x, weight, bias, anchor, bias_probe, units, apart, keep)


def lora_linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    a: Tensor,
    b: Tensor,
    a_probe: Tensor,
    b_probe: Tensor,
    scaling: float,
    units: int,
    apart: bool = False,
) -> Tensor:
    """Compute x W^T + bias + scaling (x A^T) B^T in one node; A and B have probes."""
    return run(_LoraLinear, x, weight, bias, a, b, a_probe, b_probe, scaling, units, apart)


class _Linear(torch.autograd.Function):
    """A linear layer whose gradients go to probes; where uses of the weight are kept, `keep` takes them."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        weight_leaf: Tensor | None,
        bias_probe: Tensor | None,
        units: int,
        apart: bool,
        keep: Callable[[KeptLinear], None] | None,
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.units, ctx.apart, ctx.keep = units, apart, keep
        return linear(x, weight, bias, units, apart)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (g,) = grads
        x, weight = ctx.saved_tensors
        needs, units, apart = ctx.needs_input_grad, ctx.units, ctx.apart
        grad_x = matmul(g, weight, units, apart) if needs[0] else None
        grad_w = grad_b = None
        if ctx.keep is not None:
            ctx.keep(KeptLinear(by_unit(x.detach(), units), by_unit(g.detach(), units)))
        elif needs[3]:
            grad_w = per_unit_outer(by_unit(g, units), by_unit(x, units), apart=apart)
        if needs[4]:
            grad_b = per_unit_sum(g, units)
        return grad_x, None, None, grad_w, grad_b, None, None, None


class _LoraLinear(torch.autograd.Function):
    """A frozen linear layer plus its low-rank update, in one node of the graph."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        a: Tensor,
        b: Tensor,
        a_probe: Tensor,
        b_probe: Tensor,
        scaling: float,
        units: int,
        apart: bool,
    ) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])  # (N, in)
        out = linear(flat, weight, bias, units, apart)  # (N, out)
        low = matmul(flat.to(a.dtype), a.t(), units, apart)  # (N, r)
        out = _plus(out, low, b.t(), scaling, units, apart)
        ctx.save_for_backward(x, low, weight, a, b)
        ctx.scaling, ctx.units, ctx.apart = scaling, units, apart
        return out.view(*x.shape[:-1], out.shape[-1])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (g,) = grads
        x, low, weight, a, b = ctx.saved_tensors
        units, apart = ctx.units, ctx.apart
        flat = g.reshape(-1, g.shape[-1])  # (N, out)
        wide = flat.to(b.dtype)
        down = matmul(wide, b, units, apart).mul_(ctx.scaling)  # (N, r)
        scaled = by_unit(low * ctx.scaling, units)  # (U, P, r)
        grad_a = per_unit_outer(by_unit(down, units), by_unit(x, units).to(a.dtype), apart=apart)
        grad_b = per_unit_outer(by_unit(wide, units), scaled, apart=apart)
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = matmul(flat, weight, units, apart)
            grad_x = _plus(grad_x, down, a, 1.0, units, apart).view(x.shape)
        return grad_x, None, None, None, None, grad_a, grad_b, None, None, None


def _plus(
    total: Tensor, low: Tensor, matrix: Tensor, scaling: float, units: int, apart: bool
) -> Tensor:
    """Return the total (used up) plus a scaled low-rank product, in the total's type."""
    wide = total.to(low.dtype)  # the same tensor if the types agree
    if apart:
        return (wide + scaling * matmul(low, matrix, units, apart)).to(total.dtype)
    if wide is total:
        return total.addmm_(low, matrix, alpha=scaling)
    return torch.addmm(wide, low, matrix, alpha=scaling).to(total.dtype)
