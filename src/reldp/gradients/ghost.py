"""Norms and clipped sums of large parameters, from the uses that a backward left behind.

A linear layer's gradient for one unit is G = sum over positions p of g_p x_p^T. Its norm needs no
G: |G|^2 = sum over p, q of (g_p . g_q)(x_p . x_q), two Gram matrices; or G is formed and dropped
again, whichever costs less for the sizes of this layer and batch. The clipped sum of all units is
one matrix product, sum over p of (f g_p) x_p^T with each unit's factor f: what an ordinary backward
would have paid. There is no second backward.

Rounding. A unit must not exceed its threshold, but the product that is summed rounds f g_p (or
f x_p, whichever is narrower) to the type of the activations, which the norm has not seen. With spread S = sum over p
of |g_p||x_p|, that moves a unit's contribution by at most r S f, r the unit roundoff. So norms come with a *slack* r
S that is added to the norm before the factor is chosen (theory.md section 6): at most 0.2 % of S for bfloat16,
nothing to speak of for float32.

Shapes: U units, P positions per unit. Private to the package.

>>> x, g = torch.ones(1, 2, 3), torch.ones(1, 2, 4)
>>> linear_norms([KeptLinear(x, g)])[0].sqrt()  # |2 * ones(4, 3)|
tensor([6.9282])
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from reldp.gradients.products import per_unit_outer, sum_dtype, wide_product
from reldp.gradients.recorder import KeptEmbedding, KeptLinear

__all__ = [
    "embedding_norms",
    "embedding_sum",
    "linear_norms",
    "linear_sum",
    "roundoff",
]

# Elements of one temporary block, 256 MiB in float32.
_BLOCK = 1 << 26

# Norm and factor are single precision arithmetic on long sums: a few units in the last place.
_SINGLE = 2.0**-22
_DOUBLE = 2.0**-50


def roundoff(dtype: torch.dtype, device: torch.device) -> float:
    """How far a factor times a value of this type can be off in a matrix product, relatively."""
    if dtype == torch.float64:
        return _DOUBLE
    if dtype == torch.float32:
        return 2.0**-9 if device.type == "cuda" and _tensor_float() else _SINGLE
    if dtype == torch.bfloat16:
        return 2.0**-9 + _SINGLE
    return 2.0**-12 + _SINGLE  # float16


def _tensor_float() -> bool:
    """Whether float32 products on a GPU may be rounded to TF32; True where it cannot be told."""
    try:
        if torch.get_float32_matmul_precision() != "highest":
            return True
    except RuntimeError:
        return True
    return getattr(torch.backends.cuda.matmul, "fp32_precision", "none") not in ("none", "ieee")


def _joined(uses: Sequence[KeptLinear]) -> tuple[Tensor, Tensor]:
    """All uses of a parameter as one: a sum over uses is a sum over more positions."""
    if len(uses) == 1:
        return uses[0].inputs, uses[0].grads
    return torch.cat([u.inputs for u in uses], 1), torch.cat([u.grads for u in uses], 1)


def _gram(value: Tensor) -> Tensor:
    """(U, P, d) -> (U, P, P), in float32 or better."""
    return per_unit_outer(value.mT, value.mT)


def linear_norms(uses: Sequence[KeptLinear]) -> tuple[Tensor, Tensor]:
    """Squared norm and squared slack of each unit's weight gradient, (U,) and (U,)."""
    inputs, grads = _joined(uses)
    units, positions, width = inputs.shape
    size = width * grads.shape[-1]
    gram = size > positions * (width + grads.shape[-1])
    per_block = max(1, _BLOCK // max(1, positions**2 if gram else size))
    blocks = [
        (_gram_norms if gram else _formed_norms)(
            inputs[start : start + per_block], grads[start : start + per_block]
        )
        for start in range(0, units, per_block)
    ]
    square = torch.cat([b[0] for b in blocks])
    spread = torch.cat([b[1] for b in blocks])
    own = _SINGLE if square.dtype == torch.float32 else _DOUBLE
    # The computed square is off by at most `own` times the squared spread.
    square = square.clamp_min(0.0) + own * spread.square()
    return square, (roundoff(inputs.dtype, inputs.device) * spread).square()


def _gram_norms(inputs: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
    """Squared norms from Gram matrices, and spreads from their diagonals."""
    left, right = _gram(inputs), _gram(grads)  # (U, P, P)
    lengths = left.diagonal(dim1=1, dim2=2) * right.diagonal(dim1=1, dim2=2)  # (U, P)
    spread = lengths.clamp_min(0.0).sqrt().sum(1)
    return left.mul_(right).sum((1, 2)), spread


def _formed_norms(inputs: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
    """Squared norms from gradients that are formed and dropped, and spreads."""
    dtype = sum_dtype(inputs.dtype)
    formed = per_unit_outer(grads, inputs)  # (U, out, in)
    lengths = [torch.linalg.vector_norm(v, dim=-1, dtype=dtype) for v in (inputs, grads)]
    # In float64: float32 sums of a million squares may be too small.
    square = torch.linalg.vector_norm(formed, dim=(1, 2), dtype=torch.float64).square().to(dtype)
    return square, (lengths[0] * lengths[1]).sum(1)


def linear_sum(uses: Sequence[KeptLinear], factors: Tensor, keep: Tensor | None) -> Tensor:
    """Sum over units of factor times weight gradient, (out, in).

    Args:
        uses: The uses of the weight.
        factors: Clip factor of each unit, (U,).
        keep: False for units whose gradient is not finite, (U,); None if all are.
    """
    inputs, grads = _joined(uses)
    if keep is not None:
        inputs = torch.where(keep[:, None, None], inputs, 0.0)
        grads = torch.where(keep[:, None, None], grads, 0.0)
    if inputs.shape[-1] < grads.shape[-1]:  # the factor goes to the narrower side
        inputs = _scaled(inputs, factors)
    else:
        grads = _scaled(grads, factors)
    return wide_product(grads.flatten(0, 1).t(), inputs.flatten(0, 1))  # over U P positions


def _scaled(value: Tensor, factors: Tensor) -> Tensor:
    """Each unit's values times its factor: multiplied in float32 or better, rounded once.

    For bfloat16 the factor is first cut to bfloat16 towards zero: it can only make a unit shorter,
    by 0.8 % at most, and a product of equal types takes a GPU 0.6 of the time.
    """
    if value.dtype == torch.bfloat16:
        return value * _cut_to_bfloat16(factors)[:, None, None]
    wide = factors.to(sum_dtype(value.dtype))[:, None, None]
    return torch.mul(value, wide, out=torch.empty_like(value))


def _cut_to_bfloat16(factors: Tensor) -> Tensor:
    """The largest bfloat16 number at or below each factor (in float32), none of which is negative."""
    return (factors.float().view(torch.int32) & -65536).view(torch.float32).to(torch.bfloat16)


def embedding_norms(uses: Sequence[KeptEmbedding]) -> tuple[Tensor, Tensor]:
    """Squared norm and squared slack of each unit's table gradient, (U,) and (U,)."""
    indices = torch.cat([u.indices for u in uses], 1)  # (U, P)
    grads = torch.cat([u.grads for u in uses], 1)  # (U, P, d)
    units, positions = indices.shape
    per_block = max(1, _BLOCK // max(1, positions**2))
    squares = []
    for start in range(0, units, per_block):
        block = slice(start, start + per_block)
        same = indices[block, :, None] == indices[block, None, :]
        squares.append(torch.where(same, _gram(grads[block]), 0.0).sum((1, 2)))
    square = torch.cat(squares)
    spread = torch.linalg.vector_norm(grads, dim=-1).sum(1)
    own = _SINGLE if square.dtype == torch.float32 else _DOUBLE
    exact = roundoff(grads.dtype, torch.device("cpu"))  # the sum is an addition, not a product
    return square.clamp_min(0.0) + own * spread.square(), (exact * spread).square()


def embedding_sum(
    uses: Sequence[KeptEmbedding], factors: Tensor, keep: Tensor | None, count: int
) -> Tensor:
    """Sum over units of factor times table gradient, (count, d)."""
    total = None
    for use in uses:
        scaled = use.grads * factors.to(use.grads.dtype)[:, None, None]
        if keep is not None:
            scaled = torch.where(keep[:, None, None], scaled, 0.0)
        if total is None:
            total = torch.zeros(count, scaled.shape[-1], dtype=scaled.dtype, device=scaled.device)
        total.index_add_(0, use.indices.reshape(-1), scaled.flatten(0, 1))
    assert total is not None  # uses are never empty
    return total
