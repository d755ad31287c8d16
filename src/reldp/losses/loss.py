"""The protocol of a loss, and what a loss sees besides embeddings.

A loss is any callable ``loss(embeddings, batch)``. It gets the embeddings of many tuples at once, for
speed, and returns one value per tuple, ``(tuples,)``, or one per tuple and negative, ``(tuples, k)``,
whose sum over the negatives is the tuple's loss. The contract is *locality* (theory.md 2): a
tuple's values depend on that tuple alone. Training checks this on public random embeddings
(`reldp.training.loss_check`), and the whole step again (`reldp.training.locality`).

With pair clipping, every negative is a clip unit. The loss then sees each pair of a positive with one
negative as a tuple of its own, so k is 1, and must return ``(tuples, k)``: a value per tuple would
say nothing about its terms. Such a loss cannot mix negatives, by construction.

A loss that is a `torch.nn.Module` with trainable parameters is trained with the encoder: its
gradients are clipped jointly with the encoder's, and get noise.

Public: `Loss`, `LossBatch`.

>>> import torch
>>> def margin_loss(embeddings, batch):
...     anchor, partner, negatives = embeddings[:, :1], embeddings[:, 1:2], embeddings[:, 2:]
...     near, far = (anchor - partner).square().sum(-1), (anchor - negatives).square().sum(-1)
...     return torch.relu(1 + near - far).masked_fill(batch.mask, 0.0)  # (tuples, k)
>>> isinstance(margin_loss, Loss)
True
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from reldp.errors import ConfigError

__all__ = ["Loss", "LossBatch", "check_batch"]


@dataclass(frozen=True, eq=False)
class LossBatch:
    """The tuples of a microbatch as a loss sees them, besides their embeddings.

    Attributes:
        endpoints: Endpoint of the positive, 0 or 1, that was drawn for each negative, (tuples, k) int64.
        mask: True where a negative is an endpoint of its own positive and must contribute
            nothing, (tuples, k) bool.
        types: Type of each positive, (tuples,) int64, a place in the graph's ``type_names``; None where relations
            have no types. Endpoint 0 is then the source.
    """

    endpoints: Tensor
    mask: Tensor
    types: Tensor | None = None

    @classmethod
    def of(
        cls,
        endpoints: npt.ArrayLike | Tensor,
        mask: npt.ArrayLike | Tensor,
        types: npt.ArrayLike | Tensor | None = None,
    ) -> "LossBatch":
        """Return the batch of endpoints, mask and types that are given as lists, arrays or tensors."""
        kinds = None if types is None else _tensor(types).long()
        return cls(_tensor(endpoints).long(), _tensor(mask).bool(), kinds)

    def take(self, index: Tensor) -> "LossBatch":
        """Return copies of some of the tuples, in this order."""
        types = None if self.types is None else self.types[index]
        return LossBatch(self.endpoints[index], self.mask[index], types)

    @property
    def num_tuples(self) -> int:
        """Number of tuples, padding included: a loss must not depend on it."""
        return int(self.mask.shape[0])

    @property
    def num_negatives(self) -> int:
        """Negatives of a tuple, k; masked ones included."""
        return int(self.mask.shape[1])


@runtime_checkable
class Loss(Protocol):
    """A differentiable loss of tuples."""

    def __call__(self, embeddings: Tensor, batch: LossBatch) -> Tensor:
        """Return one value per tuple, (tuples,), or per tuple and negative, (tuples, k).

        Args:
            embeddings: Rows ``[endpoint 0, endpoint 1, negative_1 .. negative_k]`` of each tuple,
                (tuples, 2 + k, dim), in float32 or float64.
            batch: Endpoints, mask and types of the same tuples.
        """
        ...


def check_batch(embeddings: Tensor, batch: LossBatch) -> None:
    """Refuse embeddings and a batch whose shapes do not fit each other."""
    if embeddings.ndim != 3 or embeddings.shape[1] < 3:
        raise ConfigError(
            "`embeddings` must have shape (tuples, 2 + k, dim) with k >= 1, "
            f"got {tuple(embeddings.shape)}. A loss without negatives has nothing to learn."
        )
    shape = (embeddings.shape[0], embeddings.shape[1] - 2)
    for name, value in (("endpoints", batch.endpoints), ("mask", batch.mask)):
        if tuple(value.shape) != shape:
            raise ConfigError(f"`{name}` must have shape {shape}, got {tuple(value.shape)}.")
    if batch.types is not None and tuple(batch.types.shape) != shape[:1]:
        raise ConfigError(f"`types` must have shape {shape[:1]}, got {tuple(batch.types.shape)}.")


def _tensor(values: Any) -> Tensor:
    """Return lists and read-only arrays as tensors, without a warning."""
    return values if isinstance(values, Tensor) else torch.as_tensor(np.array(values))
