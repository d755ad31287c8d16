"""Embedding tables whose backward yields one table gradient per unit.

Small tables get a probe; uses of large ones are kept. As in torch, the padding index has no
gradient. Weights are passed detached. Private to the package.

>>> probe = torch.zeros(2, 3, 1, requires_grad=True)
>>> out = direct_embedding(torch.tensor([[0, 0], [2, 1]]), torch.ones(3, 1), probe, -1, 2)
>>> out.sum().backward()
>>> probe.grad[..., 0]
tensor([[2., 0., 0.],
        [0., 1., 1.]])
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from reldp.gradients.products import by_unit, run, sum_dtype
from reldp.gradients.recorder import KeptEmbedding, Recorder

__all__ = ["direct_embedding", "kept_embedding"]


def direct_embedding(
    indices: Tensor, weight: Tensor, probe: Tensor | None, padding: int, units: int
) -> Tensor:
    """Rows of the table; its gradient goes to the probe. A padding of -1 means none."""
    return run(_DirectEmbedding, indices, weight, probe, padding, units)


def kept_embedding(
    indices: Tensor, weight: Tensor, padding: int, recorder: Recorder, name: str
) -> Tensor:
    """Rows of the table; its uses are kept. A padding of -1 means none."""
    anchor = recorder.anchor(weight.device)
    return run(_KeptEmbedding, indices, weight, anchor, padding, recorder, name)


class _DirectEmbedding(torch.autograd.Function):
    """A small embedding table whose gradient goes to a probe."""

    @staticmethod
    def forward(
        ctx: Any, indices: Tensor, weight: Tensor, probe: Tensor | None, padding: int, units: int
    ) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.padding, ctx.units, ctx.shape = padding, units, weight.shape
        return F.embedding(indices, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (g,) = grads
        (indices,) = ctx.saved_tensors
        count, dim = ctx.shape
        flat = _without_padding(g, indices, ctx.padding).reshape(-1, dim)
        start = torch.arange(ctx.units, device=g.device).view(-1, 1) * count
        slots = (indices.reshape(ctx.units, -1) + start).reshape(-1)
        table = torch.zeros(ctx.units * count, dim, dtype=flat.dtype, device=g.device)
        if table.is_cuda:  # additions in a fixed order, which index_add has on a CPU only
            table.index_put_((slots,), flat, accumulate=True)
        else:
            table.index_add_(0, slots, flat)
        return None, None, table.view(ctx.units, count, dim), None, None


class _KeptEmbedding(torch.autograd.Function):
    """A large embedding table whose uses are kept for ghost norms."""

    @staticmethod
    def forward(
        ctx: Any,
        indices: Tensor,
        weight: Tensor,
        anchor: Tensor,
        padding: int,
        recorder: Recorder,
        name: str,
    ) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.recorder, ctx.units, ctx.name, ctx.padding = recorder, recorder.units, name, padding
        return F.embedding(indices, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (g,) = grads
        (indices,) = ctx.saved_tensors
        flat = by_unit(_without_padding(g.detach(), indices, ctx.padding), ctx.units)
        ctx.recorder.keep(ctx.name, KeptEmbedding(indices.reshape(ctx.units, -1), flat))
        return None, None, None, None, None, None


def _without_padding(g: Tensor, indices: Tensor, padding: int) -> Tensor:
    """Return the output gradient in float32 or better, zero at the padding index (-1: there is none)."""
    wide = g.to(sum_dtype(g.dtype))
    if padding < 0:
        return wide
    return wide.masked_fill((indices == padding).unsqueeze(-1), 0.0)
