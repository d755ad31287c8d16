"""Scores of typed relations: DistMult, ComplEx, and translations as in TransE.

With s, r and t the vectors of source, type and target:

* DistMult: sum of s r t. It is the same in both directions, so it suits types such as "similar to".
* ComplEx: real part of the sum of s r conj(t), where the first half of a vector holds real parts and the
  second half imaginary ones. It tells directions apart.
* TransE: minus the length of s + r - t, Euclidean (l2) or the sum of absolute values (l1).

Vectors of types start at 1, 1 + 0i and 0: every type then means the plain similarity of two embeddings, the
cosine for the first two. A type with few relations stays near it.

Public: `DistMultLoss`, `ComplExLoss`, `TransELoss`.

>>> loss = DistMultLoss(["likes", "knows"], dim=4)
>>> rows = torch.tensor([[[1.0, 0.0, 0.0, 0.0]] * 3])  # nothing to tell apart: log 3 with both endpoints
>>> loss(rows, LossBatch.of([[0]], [[False]], types=[1])).detach()
tensor([1.0986])
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from reldp._validate import DISTANCES, check_choice
from reldp.errors import ConfigError
from reldp.losses.loss import LossBatch
from reldp.losses.pairs import distance as euclidean
from reldp.losses.typed import TypedLoss

__all__ = ["ComplExLoss", "DistMultLoss", "LossBatch", "TransELoss"]


class DistMultLoss(TypedLoss):
    """Typed loss whose score is the sum of source times type times target."""

    name = "distmult"

    def _start(self) -> Tensor:
        return torch.ones(self.dim)

    def _query(self, rows: Tensor, relations: Tensor, endpoint: int) -> Tensor:
        return rows * relations


class ComplExLoss(TypedLoss):
    """Typed loss whose score is the real part of source times type times the target's conjugate.

    The length of an embedding must be even. Prefixes of embeddings have other halves, so there is no Matryoshka loss
    around this one.
    """

    name = "complex"
    takes_prefixes = False

    def __init__(self, type_names: Sequence[str], dim: int, **settings: Any) -> None:
        """Make the vectors of all types; see `TypedLoss`.

        Raises:
            ConfigError: The length of an embedding is odd, or a value breaks its rule.
        """
        super().__init__(type_names, dim, **settings)
        if self.dim % 2:
            raise ConfigError(
                f"`dim` must be even for the complex loss, whose halves are real and imaginary parts, got {self.dim}. "
                "Use an encoder with an even dim, or distmult."
            )

    def _start(self) -> Tensor:
        half = self.dim // 2
        return torch.cat([torch.ones(half), torch.zeros(self.dim - half)])

    def _query(self, rows: Tensor, relations: Tensor, endpoint: int) -> Tensor:
        real, imaginary = rows.chunk(2, dim=-1)
        type_real, type_imaginary = relations.chunk(2, dim=-1)
        if endpoint == 1:  # conj(r) t: what a source is compared with
            type_imaginary = -type_imaginary
        return torch.cat(
            [
                real * type_real - imaginary * type_imaginary,
                real * type_imaginary + imaginary * type_real,
            ],
            dim=-1,
        )


class TransELoss(TypedLoss):
    """Typed loss whose score is minus the distance of source plus type from the target.

    Attributes:
        comparison: The distance: ``"l2"`` (those below 1e-4 count as 1e-4) or ``"l1"``.
    """

    name = "transe"

    def __init__(
        self, type_names: Sequence[str], dim: int, *, distance: str = DISTANCES[0], **settings: Any
    ) -> None:
        """Make the vectors of all types; see `TypedLoss`.

        Args:
            type_names: Names of the types.
            dim: Length of an embedding.
            distance: ``"l2"`` or ``"l1"``.
            **settings: Other settings of `TypedLoss`.
        """
        super().__init__(type_names, dim, **settings)
        self.comparison = check_choice("distance", distance, DISTANCES, error=ConfigError)

    def _start(self) -> Tensor:
        return torch.zeros(self.dim)

    def _query(self, rows: Tensor, relations: Tensor, endpoint: int) -> Tensor:
        return rows + relations if endpoint == 0 else rows - relations

    def _compare(self, candidates: Tensor, queries: Tensor) -> Tensor:
        left, right = candidates[:, :, None], queries[:, None, :]
        if self.comparison == "l1":
            return -(left - right).abs().sum(dim=-1)
        return -euclidean(left, right)

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return {**super().describe(), "distance": self.comparison}
