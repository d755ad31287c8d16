"""Losses that are sums over the negatives of a tuple: hinge, logistic, triplet and cosine margins.

Guarantees (theory.md 2): the terms of a tuple are functions of that tuple; a masked negative
contributes exactly 0 with gradient exactly 0, and nothing is ever divided by the number of negatives
that remain. Since each term belongs to one negative, pair clipping can clip every term apart. The
exception is ``pairing="all"``, which also compares negatives with each other: pair clipping refuses it.

Public: `HingeLoss`, `LogisticLoss`, `TripletMarginLoss`, `CosineMarginLoss`; inside the package
`hinge_terms`, `logistic_terms`.

>>> import torch
>>> rows = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])  # (tuples 1, rows 3, dim 2)
>>> HingeLoss(score="dot", temperature=1.0, margin=1.5)(rows, LossBatch.of([[0]], [[False]]))
tensor([[0.5000]])
"""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor
from torch.nn import functional

from reldp._validate import PAIRINGS, SCORES, check_choice, check_number
from reldp.errors import ConfigError
from reldp.losses.loss import LossBatch
from reldp.losses.pairs import Pairs, distance_pairs, dot_pairs, per_negative
from reldp.losses.settings import LossSettings

__all__ = [
    "CosineMarginLoss",
    "HingeLoss",
    "LogisticLoss",
    "TripletMarginLoss",
    "hinge_terms",
    "logistic_terms",
]


@dataclass(frozen=True, kw_only=True)
class _SumLoss(ABC):
    """A sum over pairs with negatives.

    Attributes:
        pairing: ``"one"``, every negative with the endpoint that was drawn for it; ``"both"``, with
            both endpoints; ``"all"``, also every two negatives of the tuple with each other.
    """

    pairing: str = LossSettings.pairing

    def __post_init__(self) -> None:
        check_choice("pairing", self.pairing, PAIRINGS, error=ConfigError)

    @abstractmethod
    def _pairs(self, embeddings: Tensor, batch: LossBatch) -> Pairs:
        """Return what is compared."""

    @abstractmethod
    def _terms(self, positive: Tensor, compared: Tensor) -> Tensor:
        """Return the terms of the sum, (tuples, pairs), from the positive's value (tuples, 1)."""

    def __call__(self, embeddings: Tensor, batch: LossBatch) -> Tensor:
        """Return one value per tuple and negative, (tuples, k); one per tuple where pairs share negatives."""
        pairs = self._pairs(embeddings, batch)
        terms = self._terms(pairs.positive[:, None], pairs.compared)
        return per_negative(terms.masked_fill(pairs.hidden, 0.0), batch, self.pairing)

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class _ScoreLoss(_SumLoss):
    """A sum over scores that are divided by a temperature.

    Attributes:
        score: ``"cosine"`` (lengths below 1e-4 count as 1e-4) or ``"dot"``.
        temperature: Every score is divided by it.
    """

    score: str = LossSettings.score
    temperature: float = LossSettings.temperature

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("score", self.score, SCORES, error=ConfigError)
        check_number("temperature", self.temperature, above=0, error=ConfigError)

    def _pairs(self, embeddings: Tensor, batch: LossBatch) -> Pairs:
        pairs = dot_pairs(embeddings, batch, pairing=self.pairing, score=self.score)
        return Pairs(
            pairs.positive / self.temperature, pairs.compared / self.temperature, pairs.hidden
        )


@dataclass(frozen=True, kw_only=True)
class HingeLoss(_ScoreLoss):
    """The sum of max(0, margin + score of a pair with a negative - score of the positive).

    Attributes:
        margin: The margin, in units of the divided score.
    """

    margin: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("margin", self.margin, above=0, error=ConfigError)

    def _terms(self, positive: Tensor, compared: Tensor) -> Tensor:
        return hinge_terms(positive, compared, self.margin)


@dataclass(frozen=True, kw_only=True)
class LogisticLoss(_ScoreLoss):
    """The sum of softplus(score of a pair with a negative - score of the positive)."""

    def _terms(self, positive: Tensor, compared: Tensor) -> Tensor:
        return logistic_terms(positive, compared)


@dataclass(frozen=True, kw_only=True)
class TripletMarginLoss(_SumLoss):
    """The sum of max(0, margin + distance of the positive - distance of a pair with a negative).

    Distances are Euclidean, between embeddings as they are; those below 1e-4 count as 1e-4.

    Attributes:
        margin: The margin, in units of distance.
    """

    margin: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("margin", self.margin, above=0, error=ConfigError)

    def _pairs(self, embeddings: Tensor, batch: LossBatch) -> Pairs:
        return distance_pairs(embeddings, batch, pairing=self.pairing)

    def _terms(self, positive: Tensor, compared: Tensor) -> Tensor:
        return (self.margin + (positive - compared)).relu()


@dataclass(frozen=True, kw_only=True)
class CosineMarginLoss(_SumLoss):
    """The sum of 1 - cosine of the positive + max(0, cosine of a pair with a negative - margin).

    Every term is torch's `CosineEmbeddingLoss` of the positive and of one pair with a negative.

    Attributes:
        margin: Cosine below which negatives are left alone.
    """

    margin: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("margin", self.margin, low=-1, below=1, error=ConfigError)

    def _pairs(self, embeddings: Tensor, batch: LossBatch) -> Pairs:
        return dot_pairs(embeddings, batch, pairing=self.pairing, score="cosine")

    def _terms(self, positive: Tensor, compared: Tensor) -> Tensor:
        return (1.0 - positive) + (compared - self.margin).relu()


def hinge_terms(positive: Tensor, compared: Tensor, margin: float) -> Tensor:
    """Return max(0, margin + score of a pair - score of the positive)."""
    return (margin + (compared - positive)).relu()


def logistic_terms(positive: Tensor, compared: Tensor) -> Tensor:
    """Return softplus(score of a pair - score of the positive)."""
    return functional.softplus(compared - positive)
