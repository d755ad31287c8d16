# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, untyped-decorator"
"""Triton kernels of `reldp.gradients.short_attention`, imported only where there is a CUDA device.

One program computes all queries, keys and values of one row and key head. Nothing is added up
across programs, so a row's bits do not depend on the other rows, and every run gives the same bits.
For bfloat16 only: float32 blocks of these sizes take minutes to compile.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _probabilities(q, k, valid, scale, length, CAUSAL: tl.constexpr, BLOCK: tl.constexpr):
    """Softmax (queries, keys) of one head, float32."""
    positions = tl.arange(0, BLOCK)
    scores = tl.dot(q, tl.trans(k)) * scale
    visible = valid[None, :] & (positions[:, None] < length)
    if CAUSAL:
        visible = visible & (positions[None, :] <= positions[:, None])
    scores = tl.where(visible, scores, -1.0e30)
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    weights = tl.where(visible, weights, 0.0)
    total = tl.sum(weights, 1)
    return weights / tl.where(total > 0.0, total, 1.0)[:, None]


@triton.jit
def _places(row, head, heads, length, dim, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Which elements (positions, columns) of a block exist, and where those of one head are."""
    positions, columns = tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    inside = (positions < length)[:, None] & (columns < dim)[None, :]
    return inside, ((row * length + positions[:, None]) * heads + head) * dim + columns[None, :]


@triton.jit
def _keys(k_at, v_at, mask_at, inside, length, BLOCK: tl.constexpr):
    """Keys and values of one head, and which keys are not padding."""
    positions = tl.arange(0, BLOCK)
    k = tl.load(k_at, mask=inside, other=0.0)
    v = tl.load(v_at, mask=inside, other=0.0)
    return k, v, tl.load(mask_at + positions, mask=positions < length, other=0) != 0


@triton.jit
def _forward(
    q_at, k_at, v_at, mask_at, out_at, scale, length, heads, kv_heads, dim,
    GROUPS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    row, kv_head = program // kv_heads, program % kv_heads
    inside, kv = _places(row, kv_head, kv_heads, length, dim, WIDTH, BLOCK)
    k, v, valid = _keys(k_at + kv, v_at + kv, mask_at + row * length, inside, length, BLOCK)
    for group in tl.static_range(GROUPS):
        head = kv_head * GROUPS + group
        _, place = _places(row, head, heads, length, dim, WIDTH, BLOCK)
        q = tl.load(q_at + place, mask=inside, other=0.0)
        p = _probabilities(q, k, valid, scale, length, CAUSAL, BLOCK)
        out = tl.dot(p.to(v.dtype), v)
        tl.store(out_at + place, out.to(v.dtype), mask=inside)


@triton.jit
def _backward(
    q_at, k_at, v_at, mask_at, grad_at, dq_at, dk_at, dv_at, scale, length, heads, kv_heads, dim,
    GROUPS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    row, kv_head = program // kv_heads, program % kv_heads
    inside, kv = _places(row, kv_head, kv_heads, length, dim, WIDTH, BLOCK)
    k, v, valid = _keys(k_at + kv, v_at + kv, mask_at + row * length, inside, length, BLOCK)
    dk = tl.zeros((BLOCK, WIDTH), tl.float32)
    dv = tl.zeros((BLOCK, WIDTH), tl.float32)
    for group in tl.static_range(GROUPS):
        head = kv_head * GROUPS + group
        _, place = _places(row, head, heads, length, dim, WIDTH, BLOCK)
        q = tl.load(q_at + place, mask=inside, other=0.0)
        grad = tl.load(grad_at + place, mask=inside, other=0.0)
        p = _probabilities(q, k, valid, scale, length, CAUSAL, BLOCK)
        dp = tl.dot(grad, tl.trans(v))
        ds = p * (dp - tl.sum(p * dp, 1)[:, None]) * scale
        low = ds.to(q.dtype)
        dq = tl.dot(low, k)
        tl.store(dq_at + place, dq.to(q.dtype), mask=inside)
        dk += tl.dot(tl.trans(low), q)
        dv += tl.dot(tl.trans(p.to(q.dtype)), grad)
    tl.store(dk_at + kv, dk.to(k.dtype), mask=inside)
    tl.store(dv_at + kv, dv.to(v.dtype), mask=inside)


class KernelAttention(torch.autograd.Function):
    """q (rows, length, heads, dim), k and v (rows, length, kv heads, dim), mask (rows, length)."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float, causal: bool
    ) -> Tensor:
        """Return the attention output, shaped like q."""
        q, k, v, mask = q.contiguous(), k.contiguous(), v.contiguous(), mask.contiguous()
        ctx.save_for_backward(q, k, v, mask)
        ctx.scale, ctx.causal = scale, causal
        out = torch.empty_like(q)
        _launch(_forward, (q, k, v, mask, out), q, k, scale, causal)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the gradients of q, k and v."""
        q, k, v, mask = ctx.saved_tensors
        gradients = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        inputs = (q, k, v, mask, grads[0].contiguous(), *gradients)
        _launch(_backward, inputs, q, k, ctx.scale, ctx.causal)
        return *gradients, None, None, None


def _launch(
    kernel: Any, tensors: tuple[Tensor, ...], q: Tensor, k: Tensor, scale: float, causal: bool
) -> None:
    """Run a kernel: one program per row and key head, in blocks of at least 16 by 16."""
    rows, length, heads, dim = q.shape
    kv_heads = k.shape[2]
    kernel[(rows * kv_heads,)](
        *tensors, scale, length, heads, kv_heads, dim,
        GROUPS=heads // kv_heads,
        WIDTH=max(16, triton.next_power_of_2(dim)),
        BLOCK=max(16, triton.next_power_of_2(length)),
        CAUSAL=causal,
        num_warps=2,
    )  # fmt: skip
