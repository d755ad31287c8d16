"""Detection of functions that compute something from several rows at once, whatever the values of the rows.

A mean over the rows of a batch that stands in for unknown numbers, or a mask of what occurs in other rows, changes
nothing as long as no row needs it, and public random rows may never need it (theory.md 6). The operations show it all
the same: a result that depends on rows and has lost the dimension of the rows belongs to all of them, and so does what
is computed from it. The dimension is recognized by its size: the function runs on prime numbers of rows, which no
other size is a multiple of.

Units of such a function are run alone, so that all rows it sees belong to one unit. So a result that is called mixed
by mistake, as in a loop over rows, costs time only. What keeps the dimension of the rows and mixes them for all values,
such as a convolution over them, is found by comparing bits (`reldp.training.locality`). What keeps it, and is used for
a few rows only, goes unnoticed unless it is one of the operations below.

Private to the package: `mixes_rows`.

>>> make = lambda count: {"x": torch.ones(count, 4)}
>>> mixes_rows(lambda x: torch.where(x > 9, x.mean(0), x), make)
True
>>> mixes_rows(lambda x: torch.where(x > 9, x.mean(1, keepdim=True), x), make)
False
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from reldp.encoders.tensor_marks import TensorMarks, tensors_in

__all__ = ["mixes_rows"]

_PRIMES = (29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71)
_RUNS = 3
# Operations that keep a shape and mix along a dimension, which is their second argument, or the third one.
_ALONG = (
    *("_softmax", "_log_softmax", "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"),
    *("sort", "argsort", "flip", "index_select", "gather", "scatter", "scatter_add", "index_add"),
    *("index_copy", "index_fill", "scatter_reduce", "index_reduce", "roll", "topk", "kthvalue"),
)
_DIM_IS_THIRD = ("roll", "topk", "kthvalue")
_BY_INDEX = ("index_select", "gather", "scatter", "scatter_add", "index_add", "index_copy")
_SHAPE_ONLY = ("zeros_like", "ones_like", "empty_like", "full_like", "new_zeros", "new_ones")


def mixes_rows(run: Callable[..., Any], make: Callable[[int], Mapping[str, Tensor]]) -> bool:
    """Return whether a result of a function is computed from more than one row, as far as its operations show it.

    Args:
        run: The function; its results have one row for each row of its arguments.
        make: Returns its arguments by name for a number of rows.
    """
    few = _Watch((rows := make(2)).values(), 2)
    with torch.no_grad(), few:
        run(**rows)
    known = few.sizes
    usable = [p for p in _PRIMES if all(size % p for size in known if size)]
    primes = (usable or list(_PRIMES))[:_RUNS]
    # A size that depends on the number of rows may be a multiple of one of them by chance.
    num_mixed = sum(_is_mixed(run, make(prime), prime) for prime in primes)
    return 2 * num_mixed > len(primes)


def _is_mixed(run: Callable[..., Any], rows: Mapping[str, Tensor], count: int) -> bool:
    watch = _Watch(rows.values(), count)
    with torch.no_grad(), watch:
        out = run(**rows)
    return any(watch.is_mixed(value) for value in tensors_in(out))


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch leaves it untyped
    """Dispatch mode that tracks which tensors depend on rows, and which of them on several at once."""

    def __init__(self, rows: Iterable[Tensor], count: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch leaves it untyped
        self._count = count
        self.sizes: set[int] = set()  # of all tensors
        self._mixed = TensorMarks()  # False for what depends on rows and is apart
        for value in rows:
            self._mixed.set(value, False)

    def is_mixed(self, value: Tensor) -> bool:
        """Return whether a tensor was computed from several rows at once."""
        return bool(self._mixed.of(value))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and look at what becomes of the dimension of the rows."""
        operands = tensors_in((args, kwargs))
        sides = [self._sides(value) for value in operands if self._depends(value)]
        name = func._schema.name.removeprefix("aten::").removesuffix("_")
        along = self._mixes_along(name, args, kwargs or {})
        mixes = any(map(self.is_mixed, operands)) or along
        out = func(*args, **(kwargs or {}))
        self.sizes.update(
            side
            for value in (*operands, *tensors_in(out))
            if not value.is_nested
            for side in value.shape
        )
        if sides and name not in _SHAPE_ONLY:
            for value in tensors_in(out):
                # A buffer of another size that rows were written to has no dimension of rows any more.
                is_lost = min(sides) == 0 or self._sides(value) == 0
                has_changed = self._sides(value) not in (1, *sides)
                changed = mixes or (value.numel() > 0 and (has_changed or is_lost))
                self._mixed.set(value, changed or self.is_mixed(value))
            if func._schema.is_mutable:
                written = [*_written(func, args, kwargs or {}), *tensors_in(out)]
                mark = any(map(self.is_mixed, [*operands, *tensors_in(out)])) or mixes
                for value in written:
                    self._mixed.write(value, mark)
        return out

    def _depends(self, value: Tensor) -> bool:
        """Return whether a tensor was computed from rows."""
        return self._mixed.of(value) is not None

    def _sides(self, value: Tensor) -> int:
        """Return how many dimensions of a tensor are those of rows."""
        if value.is_nested:
            return 1
        return sum(side > 0 and side % self._count == 0 for side in value.shape)

    def _mixes_along(self, name: str, args: Any, kwargs: Mapping[str, Any]) -> bool:
        """Return whether an operation that keeps its shape works along the dimension of the rows."""
        if not args or not isinstance(args[0], Tensor) or not self._depends(args[0]):
            return False
        if name == "index":
            return any(
                index is not None and self._depends(index) and self._is_of_rows(args[0], dim)
                for dim, index in enumerate(args[1])
            )
        if name not in _ALONG:
            return False
        place = 2 if name in _DIM_IS_THIRD else 1
        given = args[place] if len(args) > place else kwargs.get("dim", kwargs.get("dims"))
        dims = given if isinstance(given, list | tuple) else [-1 if given is None else given]
        if name == "roll" and not given:  # of all elements
            return True
        if not any(isinstance(dim, int) and self._is_of_rows(args[0], dim) for dim in dims):
            return False
        if name not in _BY_INDEX:
            return True
        # An index that does not depend on rows moves them in a fixed way, which bits show if every row takes it.
        index = args[2] if len(args) > 2 else kwargs.get("index")
        return isinstance(index, Tensor) and self._depends(index)

    def _is_of_rows(self, value: Tensor, dim: int) -> bool:
        return value.dim() > 0 and value.shape[dim] % self._count == 0


def _written(func: Any, args: Any, kwargs: Mapping[str, Any]) -> list[Tensor]:
    """Return the tensors that an operation writes to."""
    given = zip(func._schema.arguments, args, strict=False)
    named = ((a, kwargs[a.name]) for a in func._schema.arguments if a.name in kwargs)
    return tensors_in(
        [value for a, value in (*given, *named) if a.alias_info and a.alias_info.is_write]
    )
