"""Attention over short texts in one kernel each way: a row's head fits into registers.

Library kernels are made for thousands of tokens and spend most of their time on texts of 32 on
empty tiles. Here one program takes all queries, keys and values of one row and key head, so every
number is read once. Padding on the right is left out, and for decoders so is what comes later.
Products are bfloat16 with float32 sums, softmax is float32, as in the library's.

`register` makes it the attention ``"short"`` of transformers; `agrees` compares it with torch's on
a device first. Needs Triton, which comes with torch for CUDA.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

LONGEST = 64  # tokens


@triton.jit
def _probabilities(q, k, valid, scale, length, CAUSAL: tl.constexpr, BLOCK: tl.constexpr):
    """Softmax (queries, keys) of one head, float32."""
    places = tl.arange(0, BLOCK)
    scores = tl.dot(q, tl.trans(k)) * scale
    seen = valid[None, :] & (places[:, None] < length)
    if CAUSAL:
        seen = seen & (places[None, :] <= places[:, None])
    scores = tl.where(seen, scores, -1.0e30)
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    weights = tl.where(seen, weights, 0.0)
    total = tl.sum(weights, 1)
    return weights / tl.where(total > 0.0, total, 1.0)[:, None]


@triton.jit
def _forward(
    q_at, k_at, v_at, mask_at, out_at, scale, length, heads, kv_heads,
    GROUPS: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    row, kv_head = program // kv_heads, program % kv_heads
    places, columns = tl.arange(0, BLOCK), tl.arange(0, DIM)
    inside = (places < length)[:, None]
    kv = ((row * length + places[:, None]) * kv_heads + kv_head) * DIM + columns[None, :]
    k = tl.load(k_at + kv, mask=inside, other=0.0)
    v = tl.load(v_at + kv, mask=inside, other=0.0)
    valid = tl.load(mask_at + row * length + places, mask=places < length, other=0) != 0
    for group in tl.static_range(GROUPS):
        head = kv_head * GROUPS + group
        own = ((row * length + places[:, None]) * heads + head) * DIM + columns[None, :]
        q = tl.load(q_at + own, mask=inside, other=0.0)
        p = _probabilities(q, k, valid, scale, length, CAUSAL, BLOCK)
        out = tl.dot(p.to(v.dtype), v)
        tl.store(out_at + own, out.to(v.dtype), mask=inside)


@triton.jit
def _backward(
    q_at, k_at, v_at, mask_at, grad_at, dq_at, dk_at, dv_at, scale, length, heads, kv_heads,
    GROUPS: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    row, kv_head = program // kv_heads, program % kv_heads
    places, columns = tl.arange(0, BLOCK), tl.arange(0, DIM)
    inside = (places < length)[:, None]
    kv = ((row * length + places[:, None]) * kv_heads + kv_head) * DIM + columns[None, :]
    k = tl.load(k_at + kv, mask=inside, other=0.0)
    v = tl.load(v_at + kv, mask=inside, other=0.0)
    valid = tl.load(mask_at + row * length + places, mask=places < length, other=0) != 0
    dk = tl.zeros((BLOCK, DIM), tl.float32)
    dv = tl.zeros((BLOCK, DIM), tl.float32)
    for group in tl.static_range(GROUPS):
        head = kv_head * GROUPS + group
        own = ((row * length + places[:, None]) * heads + head) * DIM + columns[None, :]
        q = tl.load(q_at + own, mask=inside, other=0.0)
        grad = tl.load(grad_at + own, mask=inside, other=0.0)
        p = _probabilities(q, k, valid, scale, length, CAUSAL, BLOCK)
        dp = tl.dot(grad, tl.trans(v))
        ds = p * (dp - tl.sum(p * dp, 1)[:, None]) * scale
        low = ds.to(q.dtype)
        tl.store(dq_at + own, tl.dot(low, k).to(q.dtype), mask=inside)
        dk += tl.dot(tl.trans(low), q)
        dv += tl.dot(tl.trans(p.to(q.dtype)), grad)
    tl.store(dk_at + kv, dk.to(k.dtype), mask=inside)
    tl.store(dv_at + kv, dv.to(v.dtype), mask=inside)


class _ShortAttention(torch.autograd.Function):
    """q (rows, length, heads, dim), k and v (rows, length, kv heads, dim), mask (rows, length)."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float, causal: bool
    ) -> Tensor:
        q, k, v, mask = q.contiguous(), k.contiguous(), v.contiguous(), mask.contiguous()
        ctx.save_for_backward(q, k, v, mask)
        ctx.scale, ctx.causal = scale, causal
        out = torch.empty_like(q)
        _launch(_forward, (q, k, v, mask, out), q, k, scale, causal)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        q, k, v, mask = ctx.saved_tensors
        found = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        inputs = (q, k, v, mask, grads[0].contiguous(), *found)
        _launch(_backward, inputs, q, k, ctx.scale, ctx.causal)
        return *found, None, None, None


def _launch(
    kernel: Any, tensors: tuple[Tensor, ...], q: Tensor, k: Tensor, scale: float, causal: bool
) -> None:
    rows, length, heads, dim = q.shape
    kv_heads = k.shape[2]
    kernel[(rows * kv_heads,)](
        *tensors, scale, length, heads, kv_heads,
        GROUPS=heads // kv_heads, DIM=dim, BLOCK=max(16, triton.next_power_of_2(length)),
        CAUSAL=causal, num_warps=2,
    )  # fmt: skip


def short_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **unused: Any,
) -> tuple[Tensor, None]:
    """What transformers calls: (rows, heads, length, dim) in, (rows, length, heads, dim) out."""
    q, k, v = (part.transpose(1, 2) for part in (query, key, value))
    if q.shape[1] > LONGEST:
        raise ValueError(f"`length` must be at most {LONGEST}, got {q.shape[1]}.")
    if attention_mask is None:
        attention_mask = torch.ones(q.shape[:2], dtype=torch.bool, device=q.device)
    scale = q.shape[-1] ** -0.5 if scaling is None else scaling
    causal = bool(getattr(module, "is_causal", False))
    found: Tensor = _ShortAttention.apply(q, k, v, attention_mask, scale, causal)
    return found, None


def _padding_mask(*args: Any, attention_mask: Tensor | None = None, **unused: Any) -> Tensor | None:
    """The mask of rows as it is, (rows, length)."""
    return None if attention_mask is None else attention_mask.bool()


def agrees(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> bool:
    """Whether outputs and gradients are torch's within rounding, both with and without a future."""
    generator = torch.Generator(device).manual_seed(0)
    for causal, (rows, length, heads, kv_heads, dim) in (
        (False, (5, 32, 12, 12, 32)),
        (True, (5, 24, 9, 3, 64)),
    ):
        parts = [
            torch.randn((rows, length, count, dim), generator=generator, device=device).to(dtype)
            for count in (heads, kv_heads, kv_heads)
        ]
        endpoints = torch.tensor([[length], [7], [2], [length - 1], [16]], device=device)
        mask = torch.arange(length, device=device) < endpoints  # (rows, length)
        weight = torch.randn(parts[0].shape, generator=generator, device=device)
        weight = weight * mask[:, :, None, None]
        own = _gradients(_short, parts, mask, causal, weight)
        true = _gradients(_plain, parts, mask, causal, weight)
        for mine, other in zip(own, true, strict=True):
            if not float((mine - other).norm()) < 0.02 * float(other.norm()):
                return False
    return True


def _short(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, causal: bool) -> Tensor:
    found: Tensor = _ShortAttention.apply(q, k, v, mask, q.shape[-1] ** -0.5, causal)
    return found


def _plain(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, causal: bool) -> Tensor:
    """The same by torch, in float32."""
    length, groups = q.shape[1], q.shape[2] // k.shape[2]
    seen = mask[:, None, None, :].expand(-1, 1, length, -1)
    if causal:
        seen = seen & torch.ones((length, length), dtype=torch.bool, device=q.device).tril()
    k, v = (part.repeat_interleave(groups, 2) for part in (k, v))
    parts = (part.float().transpose(1, 2) for part in (q, k, v))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        found = torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=seen)
    return found.transpose(1, 2)


def _gradients(
    function: Any, parts: list[Tensor], mask: Tensor, causal: bool, weight: Tensor
) -> list[Tensor]:
    """The weighted output and the gradients of all parts, float32."""
    own = [part.detach().clone().requires_grad_() for part in parts]
    out = function(*own, mask, causal).float() * weight
    return [out.detach(), *(g.float() for g in torch.autograd.grad(out.sum(), own))]


def register() -> None:
    """Makes ``"short"`` an attention of transformers."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register("short", short_attention)
    AttentionMaskInterface.register("short", _padding_mask)
