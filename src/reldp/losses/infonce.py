"""InfoNCE: the positive against the negatives of its own tuple, in one softmax.

Guarantees (theory.md 2): the loss of a tuple is a function of that tuple; a masked negative leaves
the softmax, and a tuple whose negatives are all masked has loss exactly 0 with gradient exactly 0.
All negatives of a tuple share one softmax, so the loss is no sum over pairs, and pair clipping
refuses it. There are no in-batch negatives: they would make a tuple depend on other tuples.

Public: `InfoNCELoss`; inside the package `softmax_loss`.

>>> import torch
>>> from reldp.losses.loss import LossBatch
>>> rows = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]])  # nothing to tell apart: log 2
>>> InfoNCELoss()(rows, LossBatch.of([[0]], [[False]]))
tensor([0.6931])
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from reldp._validate import SCORES, SOFTMAX_PAIRINGS, check_choice, check_number
from reldp.errors import ConfigError
from reldp.losses.loss import LossBatch
from reldp.losses.pairs import Pairs, dot_pairs
from reldp.losses.relations import relations_loss
from reldp.losses.settings import LossSettings

__all__ = ["InfoNCELoss", "softmax_loss"]


@dataclass(frozen=True, kw_only=True)
class InfoNCELoss:
    """The negative log of the positive's share in a softmax over the pairs of its tuple.

    Attributes:
        score: ``"cosine"`` (lengths below 1e-4 count as 1e-4) or ``"dot"``.
        temperature: Every score is divided by it.
        pairing: Pairs that the positive is compared with: ``"one"``, every negative with the
            endpoint that was drawn for it, as in the paper; ``"both"``, every negative with both
            endpoints; ``"all"``, also every two negatives of the tuple with each other; ``"relations"``, where
            negatives are the endpoints of other relations: each of them is a positive too, and is compared with
            all pairs of entities from two relations of the tuple. The loss is then the sum over its relations.
    """

    score: str = LossSettings.score
    temperature: float = LossSettings.temperature
    pairing: str = LossSettings.pairing

    def __post_init__(self) -> None:
        check_choice("score", self.score, SCORES, error=ConfigError)
        check_number("temperature", self.temperature, above=0, error=ConfigError)
        check_choice("pairing", self.pairing, SOFTMAX_PAIRINGS, error=ConfigError)

    def __call__(self, embeddings: Tensor, batch: LossBatch) -> Tensor:
        """Return the loss of each tuple, (tuples,)."""
        if self.pairing == "relations":
            return relations_loss(embeddings, batch, score=self.score, temperature=self.temperature)
        pairs = dot_pairs(embeddings, batch, pairing=self.pairing, score=self.score)
        return softmax_loss(pairs, self.temperature)

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return asdict(self)


def softmax_loss(pairs: Pairs, temperature: float) -> Tensor:
    """Return the negative log of the positive's share in a softmax over its pairs, (tuples,)."""
    positive = pairs.positive / temperature
    # exp(-inf) = 0 takes a masked negative out of the softmax, and out of its gradient.
    compared = (pairs.compared / temperature).masked_fill(pairs.hidden, -math.inf)
    scores = torch.cat([positive[:, None], compared], dim=1)  # (tuples, 1 + pairs)
    # logsumexp - positive is exactly 0 when the positive stands alone.
    return torch.logsumexp(scores, dim=1) - positive
