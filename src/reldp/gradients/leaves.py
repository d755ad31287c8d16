"""The leaf tensors that a backward pass would reach.

Private to the package: `leaves`.

>>> x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
>>> [leaf is x for leaf in leaves((x * y.detach()).sum())]
[True]
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

__all__ = ["leaves"]


def leaves(values: Tensor) -> Iterator[Tensor]:
    """Yield the leaf tensors whose ``.grad`` the backward of some values would fill."""
    seen: set[Any] = set()
    waiting: list[Any] = [values.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, torch.Tensor):
            yield leaf
        waiting.extend(following for following, _ in node.next_functions)
