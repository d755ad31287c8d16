"""Products and sums over the positions of each unit, in float32 or better.

Rows are unit-major, so the positions of a unit (its rows times their length) are a view. Products
of low-precision activations are exact in the float32 they are summed in, whatever the type of the
activations (theory.md 6).

A matrix product over the rows of a whole microbatch may round a row differently depending on its
place: kernels treat the last rows, and rows that are not aligned in memory, in another way. With
``apart=True`` every unit has a matrix product of its own, of equal shape and equal alignment (widths
are padded with zeros), so that its place cannot matter. Private to the package.

>>> left, right = torch.ones(2, 3, 4), torch.ones(2, 3, 5)
>>> per_unit_outer(left, right).shape
torch.Size([2, 4, 5])
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = [
    "by_unit",
    "linear",
    "matmul",
    "outside_graphs",
    "padded",
    "per_unit_outer",
    "per_unit_sum",
    "run",
    "sum_dtype",
    "wide_product",
]

# Whether a product on a GPU can be given in a wider type than its operands; torch 2.8 and later.
_WIDE = hasattr(torch.ops.aten.bmm, "dtype") and hasattr(torch.ops.aten.mm, "dtype")

# Bytes that the rows of a padded matrix are a multiple of: a cache line, and any vector register.
_ALIGNMENT = 64

_Called = TypeVar("_Called", bound=Callable[..., Any])


def outside_graphs(function: _Called) -> _Called:
    """Run a function eagerly inside compiled code, for what a compiled graph cannot hold."""
    disabled: _Called = torch.compiler.disable(function)  # type: ignore[no-untyped-call] # in torch
    return disabled


def run(function: type[torch.autograd.Function], *args: Any) -> Tensor:
    """Apply an autograd function that returns one tensor."""
    result: Tensor = function.apply(*args)  # type: ignore[no-untyped-call] # untyped in torch
    return result


def sum_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the type of norms and sums of a parameter: float32 or better, never less."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def by_unit(value: Tensor, units: int) -> Tensor:
    """Rows in unit-major order as (units, positions, features)."""
    return value.reshape(units, -1, value.shape[-1])


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, units: int, apart: bool) -> Tensor:
    """Compute x W^T + b.

    Args:
        x: Rows of all units, unit after unit, (rows, ..., in).
        weight: (out, in).
        bias: (out,).
        units: How many units the rows belong to.
        apart: Whether every unit has a product of its own.
    """
    if not apart:
        return F.linear(x, weight, bias)
    out = matmul(x, weight.t(), units, apart)
    return out if bias is None else out + bias


def matmul(x: Tensor, weight: Tensor, units: int, apart: bool) -> Tensor:
    """Return the product of rows (rows, ..., k) and a matrix (k, n); see `linear` for the arguments."""
    if not apart:
        return x @ weight
    n = weight.shape[1]
    x = padded(x)
    weight = padded(F.pad(weight, (0, 0, 0, x.shape[-1] - weight.shape[0])))
    out = torch.bmm(by_unit(x, units), weight.expand(units, -1, -1))  # (U, P, n)
    return out[..., :n].reshape(*x.shape[:-1], n)


def padded(value: Tensor) -> Tensor:
    """Return the values with zeros after them, so that every row starts at an aligned address."""
    return F.pad(value, (0, -value.shape[-1] % (_ALIGNMENT // value.element_size())))


def per_unit_outer(left: Tensor, right: Tensor, *, apart: bool = False) -> Tensor:
    """Sum left_p right_p^T over the positions of each unit: (U, P, m), (U, P, n) -> (U, m, n)."""
    if apart:
        product = wide_product(padded(left).mT, padded(right))
        return product[:, : left.shape[-1], : right.shape[-1]].contiguous()
    return wide_product(left.mT, right)


def wide_product(left: Tensor, right: Tensor) -> Tensor:
    """Return the matrix product of two matrices, or of two batches of them, in float32 or better."""
    dtype = sum_dtype(left.dtype)
    if left.dtype == dtype:
        return left @ right
    if left.is_cuda and _WIDE:
        # Low-precision operands, float32 accumulation and result: products are exact.
        product: Any = torch.mm if left.dim() == 2 else torch.bmm
        wide: Tensor = product(left, right, out_dtype=dtype)
        return wide
    return left.to(dtype) @ right.to(dtype)


def per_unit_sum(value: Tensor, units: int) -> Tensor:
    """Sum over the positions of each unit: (N, ..., d) -> (U, d)."""
    return by_unit(value, units).sum(1, dtype=sum_dtype(value.dtype))
