"""The clipped sum while chunks are added to it.

Small parameters are summed as one flat vector, so that a step needs a few large operations instead
of many small ones; the sums that are handed out are views of it. Every trainable parameter has a
sum, of zeros if nothing reached it. Private to the package.

>>> totals = Totals({"a": torch.ones(2), "b": torch.ones(1)})
>>> totals.add_flat(["a"], torch.tensor([1.0, 2.0], dtype=torch.float64))
>>> totals.sums()["b"]
tensor([0.], dtype=torch.float64)
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

__all__ = ["Totals"]


class Totals:
    """Adds up clipped gradients by parameter name."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self._parameters = parameters
        self._flat: dict[tuple[str, ...], Tensor] = {}
        self._own: dict[str, Tensor] = {}

    def add_flat(self, names: Sequence[str], total: Tensor) -> None:
        """Adds the gradients of several parameters, one after the other in one vector."""
        key = tuple(names)
        before = self._flat.get(key)
        self._flat[key] = total if before is None else before.add_(total)

    def add(self, name: str, total: Tensor) -> None:
        """Adds the gradient of one parameter."""
        before = self._own.get(name)
        self._own[name] = total if before is None else before.add_(total)

    def sums(self) -> dict[str, Tensor]:
        """The sum of every parameter, in the parameter's shape, float64."""
        found = dict(self._own)
        for names, total in self._flat.items():
            sizes = [self._parameters[name].numel() for name in names]
            for name, part in zip(names, torch.split(total, sizes), strict=True):
                own = self._parameters[name]
                value = part.view(own.shape).to(own.device)
                found[name] = value if name not in found else found[name] + value
        return {
            name: found[name] if name in found else _zeros(p)
            for name, p in self._parameters.items()
        }


def _zeros(parameter: Tensor) -> Tensor:
    """No gradient."""
    return torch.zeros(parameter.shape, dtype=torch.float64, device=parameter.device)
