"""Detection of modules whose control flow depends on the values of their rows.

``if features.max() > 10`` or a router that gathers the rows of each expert lets one row decide which
kernels run on the others, and public random rows may never reach the branch that private ones
take (theory.md 6). Such a decision can be detected: whichever branch is taken, a value must be read
back from a tensor, or a tensor must get a shape that depends on values, and torch tags the operations
that do so. Units of such a module are run alone, so that a decision depends on one unit.

Values that leave torch as lists or arrays (``features.tolist()``) are decisions, too. Decisions that read a mask of
tokens only are ignored: padding fixes which masks are full.

Private to the package: `depends_on_values`.

>>> rows = {"x": torch.ones(3)}
>>> depends_on_values(lambda x: x * 2 if x.sum() > 9 else x, rows)
True
>>> depends_on_values(lambda x: torch.where(x.sum() > 9, x * 2, x), rows)
False
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from reldp.encoders.tensor_marks import TensorMarks, tensors_in

__all__ = ["depends_on_values"]

_LEAVES = {Tensor.tolist, Tensor.numpy, Tensor.__array__}
_DATA_DEPENDENT = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


def depends_on_values(
    run: Callable[..., Any], rows: Mapping[str, Tensor], *, mask: str | None = None
) -> bool:
    """Return whether the control flow of a function depends on the values of its rows.

    Args:
        run: The function.
        rows: Its arguments by name.
        mask: The argument that is the mask of tokens, if there is one.
    """
    watch = _Watch(value for name, value in rows.items() if name != mask)
    with torch.no_grad(), watch, _Leaving(watch):
        run(**rows)
    return watch.depends


class _Leaving(TorchFunctionMode):
    """Mode that tells a watch which tensors leave torch: no operation does it."""

    def __init__(self, watch: "_Watch") -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function or method of torch."""
        if func in _LEAVES:
            self._watch.leave(args[0])
        return func(*args, **(kwargs or {}))


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch leaves it untyped
    """Dispatch mode that tracks which tensors are computed from given ones."""

    def __init__(self, values: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch leaves it untyped
        self.depends = False
        self._reached = TensorMarks()
        for value in values:
            self._reached.set(value, True)

    def leave(self, value: Tensor) -> None:
        """Note that the values of a tensor are read outside of torch."""
        self.depends = self.depends or bool(self._reached.of(value))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and look at where its operands come from."""
        out = func(*args, **(kwargs or {}))
        operands = tensors_in((args, kwargs))
        if any(map(self._reached.of, operands)):
            self.depends = self.depends or _exposes_values(func, operands)
            for value in tensors_in(out):
                self._reached.set(value, True)
            if func._schema.is_mutable:
                for value in operands:
                    self._reached.write(value, True)
        return out


def _exposes_values(func: Any, operands: list[Tensor]) -> bool:
    """Return whether an operation exposes values of its operands, as a number or a shape."""
    if func is torch.ops.aten.index.Tensor:  # with integer indices the shape is known from shapes
        return any(x.dtype in (torch.bool, torch.uint8) for x in operands[1:])
    return not _DATA_DEPENDENT.isdisjoint(func.tags)
