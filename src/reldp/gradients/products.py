"""Products and sums over the positions of each unit, in float32 or better.

Rows are unit-major, so the positions of a unit (its rows times their length) are a view. Products
of low-precision activations are exact in the float32 they are summed in, whatever the type of the
activations (theory.md section 6). Private to the package.

>>> left, right = torch.ones(2, 3, 4), torch.ones(2, 3, 5)
>>> per_unit_outer(left, right).shape
torch.Size([2, 4, 5])
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

__all__ = [
    "by_unit",
    "outside_graphs",
    "per_unit_outer",
    "per_unit_sum",
    "run",
    "sum_dtype",
    "wide_product",
]

# Whether a product on a GPU can be given in a wider type than its operands; torch 2.8 and later.
_WIDE = hasattr(torch.ops.aten.bmm, "dtype") and hasattr(torch.ops.aten.mm, "dtype")

_Called = TypeVar("_Called", bound=Callable[..., Any])


def outside_graphs(function: _Called) -> _Called:
    """Runs a function eagerly inside compiled code, for what a compiled graph cannot hold."""
    disabled: _Called = torch.compiler.disable(function)  # type: ignore[no-untyped-call] # in torch
    return disabled


def run(function: type[torch.autograd.Function], *args: Any) -> Tensor:
    """Applies an autograd function that returns one tensor."""
    result: Tensor = function.apply(*args)  # type: ignore[no-untyped-call] # untyped in torch
    return result


def sum_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type of norms and sums of a parameter: float32 or better, never less."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def by_unit(value: Tensor, units: int) -> Tensor:
    """Rows in unit-major order as (units, positions, features)."""
    return value.reshape(units, -1, value.shape[-1])


def per_unit_outer(left: Tensor, right: Tensor) -> Tensor:
    """Sums left_p right_p^T over the positions of each unit: (U, P, m), (U, P, n) -> (U, m, n)."""
    return wide_product(left.mT, right)


def wide_product(left: Tensor, right: Tensor) -> Tensor:
    """The matrix product of two matrices, or of two batches of them, in float32 or better."""
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
    """Sums over the positions of each unit: (N, ..., d) -> (U, d)."""
    return by_unit(value, units).sum(1, dtype=sum_dtype(value.dtype))
