"""The clipped sum of per-unit gradients, with the statistics of the units in it.

Sensitive: only the total may leave a private run, and only after noise has been added.

Public: `ClippedSum`.

>>> shapes = {"weight": torch.Size([1, 2]), "bias": torch.Size([1])}
>>> one = ClippedSum.of_nothing(shapes)
>>> one.num_units, one.sums["weight"]
(0, tensor([[0., 0.]], dtype=torch.float64))
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

__all__ = ["ClippedSum"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ClippedSum:
    """The sum over some units of their clipped gradients. Sensitive: never release it before noise.

    Attributes:
        total: Sum of clipped gradients, all parameters one after the other, (parameters,) float64;
            in multiples of the grid's spacing, if there is a grid.
        shapes: Shape of each parameter by name, in the order of `total`.
        norms: Gradient norm of each unit before clipping, (units,).
        losses: Loss of each unit, (units,).
        factors: Factor by which each unit was multiplied, (units,).
        witness: One number per unit that tells the bits of its gradient apart, (units,), where asked
            for (`reldp.gradients.witness`).
    """

    total: Tensor
    shapes: Mapping[str, torch.Size]
    norms: Tensor
    losses: Tensor
    factors: Tensor
    witness: Tensor | None = None

    @classmethod
    def of_nothing(
        cls, shapes: Mapping[str, torch.Size], device: torch.device | None = None
    ) -> "ClippedSum":
        """Return the sum over no units: zeros."""
        size = sum(shape.numel() for shape in shapes.values())
        none = torch.zeros(0, dtype=torch.float64, device=device)
        return cls(total=none.new_zeros(size), shapes=shapes, norms=none, losses=none, factors=none)

    @property
    def sums(self) -> dict[str, Tensor]:
        """The clipped sum of each parameter by name, float64: views of `total`."""
        parts = torch.split(self.total, [shape.numel() for shape in self.shapes.values()])
        return {
            name: part.view(shape)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }

    @property
    def num_units(self) -> int:
        """Number of units in the sum."""
        return int(self.norms.shape[0])

    @property
    def num_nonfinite(self) -> int:
        """Number of units that contributed zero because their gradient is not finite."""
        return int((~torch.isfinite(self.norms)).sum())

    @property
    def num_clipped(self) -> int:
        """Number of units whose gradient was made shorter."""
        return int((self.factors < 1.0).sum())

    def first(self, units: int) -> "ClippedSum":
        """Return copies, with the statistics of the first units only: the rest is padding."""
        return ClippedSum(
            total=self.total.clone(),
            shapes=self.shapes,
            norms=self.norms[:units].clone(),
            losses=self.losses[:units].clone(),
            factors=self.factors[:units].clone(),
            witness=None if self.witness is None else self.witness[:units].clone(),
        )

    @classmethod
    def without_clipping(cls, losses: Tensor, parameters: Mapping[str, Tensor]) -> "ClippedSum":
        """Return the plain sum of the units' gradients, for comparison; norms are not known."""
        gradients = torch.autograd.grad(
            losses.sum(), list(parameters.values()), allow_unused=True, materialize_grads=True
        )
        values = losses.detach()
        return cls(
            total=torch.cat([gradient.reshape(-1).double() for gradient in gradients]),
            shapes={name: parameter.shape for name, parameter in parameters.items()},
            norms=torch.full_like(values, math.nan),
            losses=values,
            factors=torch.ones_like(values),
        )

    def select(self, names: Collection[str]) -> "ClippedSum":
        """Return the sum with these parameters only, in their order."""
        if list(names) == list(self.shapes):
            return self
        sums = self.sums
        return replace(
            self,
            total=torch.cat([sums[name].reshape(-1) for name in names]),
            shapes={name: self.shapes[name] for name in names},
        )

    def plus(self, other: "ClippedSum") -> "ClippedSum":
        """Return the sum over the units of both, the other's units last; witnesses are dropped."""
        return ClippedSum(
            total=self.total + other.total,
            shapes=self.shapes,
            norms=torch.cat([self.norms, other.norms]),
            losses=torch.cat([self.losses, other.losses]),
            factors=torch.cat([self.factors, other.factors]),
        )
