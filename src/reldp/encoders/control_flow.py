"""Whether a module decides what it computes by the values of its rows.

``if features.max() > 10`` or a router that gathers the rows of each expert lets one row decide which
kernels run on the others, and public random rows may never reach the branch that private ones
take (theory.md 6). It cannot hide, though: values must be read back from a tensor, or a
tensor get a shape that depends on them, whichever way the decision falls, and torch marks the
operations that do so. Units of such a module are run alone, so that a decision is about one unit.

A decision that reads attention masks only does not count: which of them are full is fixed by
padding (`reldp.gradients.microbatches`). What leaves torch is not seen (``features.numpy()``).

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
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

__all__ = ["depends_on_values"]

_TELLING = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


def depends_on_values(run: Callable[..., Any], rows: Mapping[str, Tensor]) -> bool:
    """Whether what is computed for these rows, given by name, follows from their values."""
    watch = _Watch(value for name, value in rows.items() if name != "attention_mask")
    with torch.no_grad(), watch:
        run(**rows)
    return watch.depends


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch leaves it untyped
    """Follows what is computed from some tensors."""

    def __init__(self, values: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch leaves it untyped
        self.depends = False
        self._reached: Any = WeakTensorKeyDictionary()
        self._reach(values)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and look at where its operands come from."""
        out = func(*args, **(kwargs or {}))
        operands = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        if any(x in self._reached for x in operands):
            self.depends = self.depends or _tells(func, operands)
            self._reach(x for x in tree_leaves(out) if isinstance(x, Tensor))
            if func._schema.is_mutable:
                self._reach(operands)
        return out

    def _reach(self, values: Iterable[Tensor]) -> None:
        for value in values:
            self._reached[value] = True


def _tells(func: Any, operands: list[Tensor]) -> bool:
    """Whether an operation hands out values of its operands, as a number or as a shape."""
    if func is torch.ops.aten.index.Tensor:  # with whole numbers its shape follows from shapes
        return any(x.dtype in (torch.bool, torch.uint8) for x in operands[1:])
    return not _TELLING.isdisjoint(func.tags)
