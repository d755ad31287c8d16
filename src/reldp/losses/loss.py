"""The protocol of a loss: a function of the embeddings of one clip unit.

The proofs need that what a tuple contributes depends on that tuple alone (theory.md 2). So a
loss takes the rows of many units at once, for speed, and must compute each unit's number from that
unit's rows, endpoints and mask alone. Nothing may be divided by the number of unmasked negatives.

Public: `Loss`.

>>> from reldp.losses.relation_loss import RelationLoss
>>> isinstance(RelationLoss(), Loss)
True
"""

from typing import Protocol, runtime_checkable

from torch import Tensor

__all__ = ["Loss"]


@runtime_checkable
class Loss(Protocol):
    """A differentiable loss of clip units."""

    def __call__(self, embeddings: Tensor, endpoints: Tensor, mask: Tensor) -> Tensor:
        """Return the loss of each unit, (units,).

        Args:
            embeddings: Rows ``[endpoint 0, endpoint 1, negative_1 .. negative_k]`` of each unit,
                (units, 2 + k, dim).
            endpoints: Endpoint that each negative is paired with, (units, k), 0 or 1.
            mask: True where a negative is left out, (units, k).
        """
        ...

    def check_pairwise(self) -> None:
        """Refuse to be computed pair by pair unless the loss is a sum over the negatives.

        Raises:
            ConfigError: The loss is not a sum over negatives, so pair clipping cannot split it.
        """
        ...
