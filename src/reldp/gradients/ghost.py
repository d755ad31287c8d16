"""Norms and clipped sums of large parameters, from the uses that a backward pass has recorded.

A linear layer's gradient for one unit is G = sum over positions p of g_p x_p^T. Its norm needs no
G: |G|^2 = sum over p, q of (g_p . g_q)(x_p . x_q), two Gram matrices; or G is formed and dropped
again, whichever costs less for the sizes of this layer and batch. The clipped sum of all units is
one matrix product, sum over p of (f g_p) x_p^T with each unit's factor f. There is no second
backward.

Everything here is float64, computed from recorded values, each of which belongs to one
unit. The sum is not exact as that of small parameters is (`reldp.gradients.fixed_point`): its
rounding may depend on all units. How far is bounded. Let S = sum over p of |g_p||x_p| be a unit's
*spread*; factors keep f S within `SPREAD` times the threshold C, so the sum of n positions of U
units in any order is within n 2^-53 U SPREAD C of the exact one. `sum_error` is that bound;
thresholds are lowered for it (theory.md 6).

Shapes: U units, P positions per unit. Private to the package.

>>> x, g = torch.ones(1, 2, 3), torch.ones(1, 2, 4)
>>> linear_norms([KeptLinear(x, g)])[0].sqrt()  # |2 * ones(4, 3)|
tensor([6.9282], dtype=torch.float64)
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from reldp.gradients.products import padded
from reldp.gradients.recorder import KeptEmbedding, KeptLinear

__all__ = [
    "SPREAD",
    "clipped_sum",
    "embedding_norms",
    "embedding_sum",
    "linear_norms",
    "linear_sum",
    "norms",
    "num_positions",
    "sum_error",
]

# Largest spread of a unit after clipping, over its threshold. Texts of hundreds of positions have
# ten to twenty; more means that positions cancel almost entirely.
SPREAD = 256.0
# Elements of one temporary block, 512 MiB in float64.
_BLOCK = 1 << 26


def sum_error(positions: int, units: int) -> float:
    """Return a bound on the error of a clipped sum, as a multiple of the threshold.

    Args:
        positions: Largest number of positions in one matrix product.
        units: Largest number of units in a batch.
    """
    # A product adds so many positions; then the sums of at most so many products are added.
    return (positions + units + 4) * 2.0**-53 * units * SPREAD


def num_positions(uses: Sequence[KeptLinear | KeptEmbedding]) -> int:
    """Positions of all units and uses, which one sum is made of."""
    return sum(use.grads.shape[0] * use.grads.shape[1] for use in uses)


def norms(uses: Sequence[KeptLinear | KeptEmbedding]) -> tuple[Tensor, Tensor]:
    """Squared norms and spreads of one kept parameter, (U,) each."""
    linear = [use for use in uses if isinstance(use, KeptLinear)]
    if linear:
        return linear_norms(linear)
    return embedding_norms([use for use in uses if isinstance(use, KeptEmbedding)])


def clipped_sum(uses: Sequence[KeptLinear | KeptEmbedding], factors: Tensor, count: int) -> Tensor:
    """Return the clipped sum of one kept parameter with so many rows."""
    linear = [use for use in uses if isinstance(use, KeptLinear)]
    if linear:
        return linear_sum(linear, factors)
    return embedding_sum([use for use in uses if isinstance(use, KeptEmbedding)], factors, count)


def linear_norms(uses: Sequence[KeptLinear]) -> tuple[Tensor, Tensor]:
    """Squared norm, at least the true one, and spread of each unit's weight gradient, (U,) each."""
    inputs, grads = _joined(uses)
    units, positions, width = inputs.shape
    size = width * grads.shape[-1]
    gram = size > positions * (width + grads.shape[-1])
    way = _gram_norms if gram else _formed_norms
    blocks = _blocks(units, positions**2 if gram else size)
    parts = [way(_even(inputs[b]), _even(grads[b])) for b in blocks]
    spread = torch.cat([spread for _, spread in parts])
    square = torch.cat([square for square, _ in parts]).clamp_min(0.0)
    # Every way adds fewer numbers than this, each with a relative error of 2^-53.
    additions = positions * (positions + 2) + size + width + grads.shape[-1]
    return square + additions * 2.0**-53 * spread.square(), spread


def linear_sum(uses: Sequence[KeptLinear], factors: Tensor) -> Tensor:
    """Sum over units of factor times weight gradient, (out, in) float64.

    Args:
        uses: The uses of the weight.
        factors: Clip factor of each unit, (U,); 0 leaves the unit out.
    """
    inputs, grads = (_zero_where_unused(value, factors) for value in _joined(uses))
    scaled = grads * factors[:, None, None]
    return scaled.flatten(0, 1).t() @ inputs.flatten(0, 1)  # over U P positions


def embedding_norms(uses: Sequence[KeptEmbedding]) -> tuple[Tensor, Tensor]:
    """Squared norm, at least the true one, and spread of each unit's table gradient, (U,) each."""
    indices = torch.cat([use.indices for use in uses], 1)  # (U, P)
    grads = torch.cat([use.grads for use in uses], 1)  # (U, P, d)
    squares = []
    for block in _blocks(len(indices), indices.shape[1] ** 2):
        same = indices[block, :, None] == indices[block, None, :]
        gradients_block, count = _even(grads[block]), indices.shape[1]
        products = (gradients_block @ gradients_block.mT)[:, :count, :count]
        squares.append(torch.where(same, products, 0.0).sum((1, 2)))
    spread = torch.linalg.vector_norm(grads.double(), dim=-1).sum(1)
    additions = indices.shape[1] * (indices.shape[1] + 2) + grads.shape[-1]
    square = torch.cat(squares).clamp_min(0.0)
    return square + additions * 2.0**-53 * spread.square(), spread


def embedding_sum(uses: Sequence[KeptEmbedding], factors: Tensor, count: int) -> Tensor:
    """Sum over units of factor times table gradient, (count, d) float64."""
    total: Tensor | None = None
    for use in uses:
        scaled = _zero_where_unused(use.grads, factors) * factors[:, None, None]
        if total is None:
            total = scaled.new_zeros((count, scaled.shape[-1]))
        total.index_add_(0, use.indices.reshape(-1), scaled.flatten(0, 1))
    assert total is not None  # uses are never empty
    return total


def _even(values: Tensor) -> Tensor:
    """Return the values in float64 with zeros around them: every unit's matrix starts at an even address.

    What a product rounds to may depend on that, and so on a unit's place.
    """
    return padded(padded(values.double()).mT.contiguous()).mT.contiguous()


def _joined(uses: Sequence[KeptLinear]) -> tuple[Tensor, Tensor]:
    """All uses of a parameter as one: a sum over uses is a sum over more positions."""
    if len(uses) == 1:
        return uses[0].inputs, uses[0].grads
    return torch.cat([u.inputs for u in uses], 1), torch.cat([u.grads for u in uses], 1)


def _zero_where_unused(value: Tensor, factors: Tensor) -> Tensor:
    """Return the values in float64, zeros for units that are left out: zero times infinity is not zero."""
    return torch.where((factors > 0)[:, None, None], value.double(), 0.0)


def _gram_norms(inputs: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
    """Squared norms from Gram matrices, and spreads from their diagonals."""
    left, right = inputs @ inputs.mT, grads @ grads.mT  # (U, P, P)
    lengths = left.diagonal(dim1=1, dim2=2) * right.diagonal(dim1=1, dim2=2)  # (U, P)
    spread = lengths.clamp_min(0.0).sqrt().sum(1)
    return left.mul_(right).sum((1, 2)), spread


def _formed_norms(inputs: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
    """Squared norms from gradients that are formed and dropped, and spreads."""
    lengths = [torch.linalg.vector_norm(value, dim=-1) for value in (inputs, grads)]
    formed = grads.mT @ inputs  # (U, out, in)
    return formed.square().sum((1, 2)), (lengths[0] * lengths[1]).sum(1)


def _blocks(units: int, size: int) -> Iterator[slice]:
    """Blocks of units, none with more than `_BLOCK` elements unless a unit has."""
    step = max(1, _BLOCK // max(1, size))
    for start in range(0, units, step):
        yield slice(start, start + step)
