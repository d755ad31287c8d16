"""Attention for short texts: one fused kernel per direction, for rows of at most 64 tokens.

General attention kernels are tuned for thousands of tokens and spend most of their time on empty
tiles when a text has 32. For bfloat16 on a CUDA device, one Triton program holds all queries, keys
and values of one row and key head, so every number is read once. Elsewhere the same formula is
computed with torch operations, which is exact but no faster than other implementations. Softmax and
sums are float32 either way.

A performance setting (``TextEncoder.load(..., attention="short")``): results differ from those of
other implementations by rounding only, so epsilon does not change, but bits do. A row's output
depends on that row alone, which the training step checks as it does for every other layer
(`reldp.training.guard`).

Private to the package: `MAX_TOKENS`, `NAME`, `agrees`, `register`, `short_attention`.

>>> q = k = v = torch.ones(1, 3, 2, 4)  # (rows, length, heads, dim)
>>> mask = torch.tensor([[True, True, False]])
>>> short_attention(q, k, v, mask, scale=0.5, causal=False).shape
torch.Size([1, 3, 2, 4])
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from reldp.errors import EncoderError, MissingDependency

__all__ = ["MAX_TOKENS", "NAME", "agrees", "register", "short_attention"]

MAX_TOKENS = 64
NAME = "short"

# Arguments that models pass and that change nothing in the output of a forward over whole texts.
_NEUTRAL = frozenset(
    {"cache_position", "cu_seq_lens_k", "cu_seq_lens_q", "max_length_k", "max_length_q"}
    | {"output_attentions", "output_hidden_states", "position_ids", "return_dict", "use_cache"}
)


def short_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, *, scale: float, causal: bool
) -> Tensor:
    """Return softmax(q k^T scale) v, with padding (and, if causal, later tokens) left out.

    Args:
        q: Queries (rows, length, heads, dim).
        k: Keys (rows, length, kv heads, dim); kv heads divide heads.
        v: Values, shaped like the keys.
        mask: Shape (rows, length), true for a token. A row without tokens gives zeros.
        scale: Factor of the scores.
        causal: Whether a token attends to itself and earlier tokens only.
    """
    if q.device.type != "cuda" or q.dtype != torch.bfloat16:
        return _by_torch(q, k, v, mask, scale, causal)
    _check_kernels(q.device)
    return _by_kernels(q, k, v, mask, scale, causal)


def register() -> None:
    """Make ``attn_implementation="short"`` known to transformers; repeated calls change nothing."""
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
    except ImportError as error:
        raise MissingDependency(
            "`transformers` must be 4.53 or later for attention='short'. Upgrade it, or leave "
            "`attention` out."
        ) from error
    AttentionInterface.register(NAME, _transformers_attention)
    AttentionMaskInterface.register(NAME, _padding_mask)


def _transformers_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    sliding_window: int | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Adapt `short_attention` to transformers: (rows, heads, length, dim) in, heads third out."""
    q, k, v = (part.transpose(1, 2) for part in (query, key, value))
    length = q.shape[1]
    if length > MAX_TOKENS or k.shape[1] != length:
        raise EncoderError(
            f"`attention` 'short' must have at most {MAX_TOKENS} queries and as many keys, got "
            f"{length} and {k.shape[1]}. Lower max_length, or leave `attention` out."
        )
    unknown = sorted(n for n, value in options.items() if value is not None and n not in _NEUTRAL)
    if sliding_window is not None and sliding_window < length:
        unknown.append("sliding_window")
    if dropout or unknown:
        raise EncoderError(
            "`attention` 'short' must have nothing but scaling and a mask of padding, got "
            f"{unknown[0] if unknown else 'dropout'} from {type(module).__name__}. "
            "Leave `attention` out for this model."
        )
    if attention_mask is None:
        attention_mask = torch.ones(q.shape[:2], dtype=torch.bool, device=q.device)
    scale = q.shape[-1] ** -0.5 if scaling is None else scaling
    causal = bool(getattr(module, "is_causal", False)) if is_causal is None else is_causal
    return short_attention(q, k, v, attention_mask, scale=scale, causal=causal), None


def _padding_mask(*args: Any, attention_mask: Tensor | None = None, **unused: Any) -> Tensor | None:
    """Return the mask of padding as it is, (rows, length)."""
    return None if attention_mask is None else attention_mask.bool()


def _by_torch(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float, causal: bool) -> Tensor:
    """Compute the same formula with torch operations, in float32."""
    length, groups = q.shape[1], q.shape[2] // k.shape[2]
    k, v = (part.repeat_interleave(groups, 2) if groups > 1 else part for part in (k, v))
    queries, keys, values = (part.float().transpose(1, 2) for part in (q, k, v))
    visible = mask.bool()[:, None, None, :]  # (rows, 1, 1, keys)
    if causal:
        earlier = torch.ones((length, length), dtype=torch.bool, device=q.device).tril()
        visible = visible & earlier
    scores = (queries @ keys.transpose(2, 3) * scale).masked_fill(~visible, -1.0e30)
    weights = scores.softmax(-1) * visible  # (rows, heads, queries, keys)
    return (weights @ values).transpose(1, 2).to(q.dtype)


def _by_kernels(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float, causal: bool
) -> Tensor:
    """Compute it with the Triton kernels, which CUDA builds of torch can run."""
    try:
        from reldp.gradients._short_attention_kernels import KernelAttention
    except ImportError as error:
        raise MissingDependency(
            "`triton` must be installed for attention='short' on a GPU. Install a CUDA build of "
            "torch, which includes it, or leave `attention` out."
        ) from error
    apply: Callable[..., Tensor] = KernelAttention.apply
    return apply(q, k, v, mask, scale, causal)


def _check_kernels(device: torch.device) -> None:
    """Refuse kernels that disagree with torch on this device."""
    if torch.cuda.is_current_stream_capturing():
        return  # a CUDA graph is captured only after the same step has run without one
    if not _agreed(device):
        raise EncoderError(
            f"`attention` 'short' must agree with torch's on {torch.cuda.get_device_name(device)}, "
            "got other outputs or gradients. Leave `attention` out."
        )


@lru_cache(maxsize=16)
def _agreed(device: torch.device) -> bool:
    """Run `agrees` once per device, whatever mode the caller is in."""
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast(device.type, enabled=False),
    ):
        return agrees(_by_kernels, device, torch.bfloat16)


def agrees(function: Callable[..., Tensor], device: torch.device, dtype: torch.dtype) -> bool:
    """Whether outputs and gradients of an attention equal torch's, to the rounding of bfloat16.

    Compares rows of five lengths, bidirectional and causal, with and without shared key heads.

    Args:
        function: Takes q, k, v, mask, scale and causal as `short_attention` does.
        device: Device of the inputs.
        dtype: Type of the inputs.
    """
    generator = torch.Generator(device).manual_seed(0)
    for causal, (length, heads, kv_heads, dim) in (
        (False, (32, 12, 12, 32)),
        (True, (24, 9, 3, 64)),
    ):
        inputs = [
            torch.randn((5, length, count, dim), generator=generator, device=device).to(dtype)
            for count in (heads, kv_heads, kv_heads)
        ]
        lengths = torch.tensor([[length], [7], [2], [length - 1], [16]], device=device)
        mask = torch.arange(length, device=device) < lengths  # (rows, length)
        weight = torch.randn(inputs[0].shape, generator=generator, device=device)
        weight = weight * mask[:, :, None, None]
        ours = _values_and_gradients(function, inputs, mask, causal, weight)
        reference = _values_and_gradients(_reference, inputs, mask, causal, weight)
        for value, expected in zip(ours, reference, strict=True):
            if not float((value - expected).norm()) < 0.02 * float(expected.norm()):
                return False
    return True


def _reference(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float, causal: bool) -> Tensor:
    """Compute it with torch's own attention, in float32."""
    length, groups = q.shape[1], q.shape[2] // k.shape[2]
    visible = mask[:, None, None, :].expand(-1, 1, length, -1)
    if causal:
        visible = visible & torch.ones((length, length), dtype=torch.bool, device=q.device).tril()
    k, v = (part.repeat_interleave(groups, 2) for part in (k, v))
    queries, keys, values = (part.float().transpose(1, 2) for part in (q, k, v))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        output = torch.nn.functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=visible, scale=scale
        )
    return output.transpose(1, 2)


def _values_and_gradients(
    function: Callable[..., Tensor],
    inputs: Sequence[Tensor],
    mask: Tensor,
    causal: bool,
    weight: Tensor,
) -> list[Tensor]:
    """Return the weighted output and the gradients of all inputs, float32."""
    leaves = [value.detach().clone().requires_grad_() for value in inputs]
    scale = leaves[0].shape[-1] ** -0.5
    output = function(*leaves, mask, scale, causal).float() * weight
    return [output.detach(), *(g.float() for g in torch.autograd.grad(output.sum(), leaves))]
