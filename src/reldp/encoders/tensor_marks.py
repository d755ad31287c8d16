"""Marks on tensors, and on the memory that tensors share.

``column = x[:, 0]`` and ``column.fill_(...)`` write into the memory of x. A mark that a write leaves must therefore be
seen on every tensor of that memory, whichever of them the write was about.

Private to the package: `TensorMarks`, `tensors_in`.

>>> marks, x = TensorMarks(), torch.zeros(2, 2)
>>> marks.write(x[:, 0], True)
>>> marks.of(x), marks.of(torch.zeros(2)) is None
(True, True)
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

__all__ = ["TensorMarks", "tensors_in"]


class TensorMarks:
    """A truth value for some tensors; of two for one tensor, True counts."""

    def __init__(self) -> None:
        """Start without marks."""
        self._by_tensor: Any = WeakTensorKeyDictionary()
        # Storages are kept, so that no later one has the same address.
        self._by_storage: dict[int, tuple[bool, torch.UntypedStorage]] = {}

    def of(self, value: Tensor) -> bool | None:
        """Return the mark of a tensor or of its memory; None if there is none."""
        storage = _storage(value)
        written = None if storage is None else self._by_storage.get(storage._cdata)
        mark = self._by_tensor.get(value)
        if written is None:
            return None if mark is None else bool(mark)
        return bool(mark) or written[0]

    def set(self, value: Tensor, mark: bool) -> None:
        """Mark a tensor."""
        self._by_tensor[value] = mark

    def write(self, value: Tensor, mark: bool) -> None:
        """Mark all tensors that share the memory of one that was written to."""
        self.set(value, bool(self.of(value)) or mark)
        if (storage := _storage(value)) is not None:
            before = self._by_storage.get(storage._cdata)
            self._by_storage[storage._cdata] = (mark or (before is not None and before[0]), storage)


def tensors_in(tree: Any) -> list[Tensor]:
    """Return the tensors of nested lists, tuples and dictionaries."""
    return [value for value in tree_leaves(tree) if isinstance(value, Tensor)]


def _storage(value: Tensor) -> torch.UntypedStorage | None:
    try:
        return value.untyped_storage()
    except (NotImplementedError, RuntimeError):  # a sparse tensor, for example
        return None
