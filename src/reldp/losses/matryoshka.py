"""Matryoshka: one loss on several prefixes of the embeddings, so that shorter ones are useful too.

The sum over sizes of a tuple's losses is again a loss of that tuple. It has one gradient, which is
clipped once, to the same norm as ever, so one run gives several embedding sizes and costs no privacy
(theory.md 2). The sizes share that norm: the gradient of each is smaller than in a run of its own.

Public: `MatryoshkaLoss`.

>>> from reldp.losses.infonce import InfoNCELoss
>>> MatryoshkaLoss(InfoNCELoss(), dims=[64, 16]).describe()["dims"]
[64, 16]
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from reldp._validate import as_integer, check, check_integer, check_number
from reldp.errors import ConfigError
from reldp.losses.loss import Loss, LossBatch

__all__ = ["MatryoshkaLoss"]


class MatryoshkaLoss(nn.Module):
    """The weighted sum of a loss over several sizes of the embeddings.

    Args:
        loss: The loss; a module with parameters is trained.
        dims: Sizes, such as ``[384, 128, 32]``; each takes the first numbers of every embedding.
        weights: Weight of each size; 1 unless given.

    Attributes:
        dims: The sizes.
        weights: Their weights.
    """

    def __init__(
        self, loss: Loss, dims: Sequence[int], *, weights: Sequence[float] | None = None
    ) -> None:
        super().__init__()
        check(callable(loss), "loss", "a callable", loss, error=ConfigError)
        sizes = isinstance(dims, list | tuple) and len(dims) > 0
        check(sizes, "dims", "a list of sizes", dims, error=ConfigError)
        self.loss = loss
        self.dims = tuple(
            check_integer("dims", as_integer(dim), low=1, error=ConfigError) for dim in dims
        )
        check(len(set(dims)) == len(dims), "dims", "different sizes", dims, error=ConfigError)
        given = [1.0] * len(self.dims) if weights is None else weights
        fits = isinstance(given, Sequence) and len(given) == len(self.dims)
        check(fits, "weights", "one number per size", weights, error=ConfigError)
        self.weights = tuple(
            check_number("weights", weight, above=0, error=ConfigError) for weight in given
        )

    def forward(self, embeddings: Tensor, batch: LossBatch) -> Tensor:
        """Return the values of the inner loss, summed over sizes."""
        if max(self.dims) > embeddings.shape[-1]:
            raise ConfigError(
                f"`dims` must be at most the embeddings' {embeddings.shape[-1]}, "
                f"got {max(self.dims)}."
            )
        values = [
            weight * self.loss(embeddings[..., :dim], batch)
            for dim, weight in zip(self.dims, self.weights, strict=True)
        ]
        return sum(values[1:], values[0])

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        inner = self.loss
        name = getattr(inner, "__name__", type(inner).__name__)
        settings = inner.describe() if hasattr(inner, "describe") else {}
        dims, weights = list(self.dims), list(self.weights)
        return {"dims": dims, "weights": weights, "loss": {"name": name, **settings}}
