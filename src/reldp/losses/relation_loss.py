"""InfoNCE, hinge and logistic losses of clip units: embeddings in, one number per unit out.

A tuple unit has the rows ``[endpoint 0, endpoint 1, negative_1 .. negative_k]``, a pair unit
``[endpoint 0, endpoint 1, negative_j]``. In the paper, negative j is scored against one random
endpoint of the positive (theory.md 1, step 3). `pairing` may ask for both endpoints, or for
all pairs of a tuple. That costs no privacy: the loss stays a function of the tuple alone.

Guarantees (theory.md 2): the loss of a unit is a function of that unit's rows, endpoints and
mask; a masked negative leaves the softmax or the sum, and nothing is ever divided by the number of
negatives that remain; a unit whose negatives are all masked has loss exactly 0 with gradient exactly
0. InfoNCE mixes all negatives of a tuple in one softmax, so pair clipping refuses it.

Public: `RelationLoss`.

>>> import torch
>>> rows = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])  # (units 1, rows 3, dim 2)
>>> hinge = RelationLoss(loss="hinge", score="dot", temperature=1.0, margin=1.5)
>>> hinge(rows, [[0]], [[False]])
tensor([0.5000])
>>> RelationLoss(loss="infonce").check_pairwise()
Traceback (most recent call last):
reldp.errors.ConfigError: `loss` must be logistic or hinge with `clipping` pair, got 'infonce'. \
InfoNCE mixes all negatives of a tuple in one softmax, so it is no sum over pairs.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from reldp.errors import ConfigError
from reldp.losses.settings import LossSettings
from reldp.losses.unit_length import unit_length

__all__ = ["RelationLoss"]

_Values = Tensor | npt.NDArray[Any] | list[Any]


@dataclass(frozen=True, kw_only=True)
class RelationLoss(LossSettings):
    """A loss that pulls both endpoints of a positive together and pushes negatives away.

    Attributes:
        loss: ``"infonce"`` and ``"hinge"`` as in the paper, or ``"logistic"``: the sum over the
            pairs with negatives of softplus(their score - positive score).
        score: ``"cosine"`` (lengths below 1e-4 count as 1e-4) or ``"dot"``.
        temperature: Every score is divided by it.
        margin: Margin of the hinge loss, in units of the divided score.
        pairing: Pairs that the positive is compared with: ``"one"``, every negative with the
            endpoint that was drawn for it, as in the paper; ``"both"``, every negative with both
            endpoints; ``"all"``, also every two negatives of the tuple with each other.
    """

    def check_pairwise(self) -> None:
        """Refuse to be computed pair by pair unless the loss is a sum over the negatives."""
        if self.loss == "infonce":
            raise ConfigError(
                "`loss` must be logistic or hinge with `clipping` pair, got 'infonce'. "
                "InfoNCE mixes all negatives of a tuple in one softmax, so it is no sum over pairs."
            )
        if self.pairing == "all":
            raise ConfigError(
                "`pairing` must be one or both with `clipping` pair, got 'all'. "
                "Two negatives of a tuple with each other belong to no pair unit."
            )

    def __call__(self, embeddings: Tensor, endpoints: _Values, mask: _Values) -> Tensor:
        """Return the loss of each unit, (units,), in float32 or better; see `reldp.losses.Loss`."""
        endpoints, mask = _checked(embeddings, endpoints, mask)
        positive, negative_scores, hidden = self._scores(embeddings, endpoints, mask)
        if self.loss == "infonce":
            # exp(-inf) = 0 takes a masked negative out of the softmax, and out of its gradient.
            negative_scores = negative_scores.masked_fill(hidden, -math.inf)
            scores = torch.cat([positive[:, None], negative_scores], dim=1)  # (units, 1 + pairs)
            # logsumexp - positive is exactly 0 when the positive stands alone.
            return torch.logsumexp(scores, dim=1) - positive
        gap = negative_scores - positive[:, None]  # (units, pairs)
        terms = functional.softplus(gap) if self.loss == "logistic" else (self.margin + gap).relu()
        return terms.masked_fill(hidden, 0.0).sum(dim=1)

    def _scores(
        self, embeddings: Tensor, endpoints: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the score of the positive (units,), those of other pairs and their mask (units, pairs)."""
        rows = embeddings if embeddings.dtype == torch.float64 else embeddings.float()
        if self.score == "cosine":
            rows = unit_length(rows)
        pair, negatives = rows[:, :2], rows[:, 2:]  # (units, 2, dim), (units, k, dim)
        positive = (pair[:, 0] * pair[:, 1]).sum(dim=-1)
        # Both endpoints are scored, then one is chosen: (units, k, 2) is small, gathered rows are not.
        with_endpoints = negatives @ pair.transpose(1, 2)
        if self.pairing == "one":
            negative_scores, hidden = (
                with_endpoints.gather(2, endpoints[:, :, None]).squeeze(2),
                mask,
            )
        else:
            negative_scores, hidden = with_endpoints.flatten(1), mask.repeat_interleave(2, dim=1)
        if self.pairing == "all":
            count = mask.shape[1]
            first, second = torch.triu_indices(count, count, offset=1, device=mask.device)
            among = (negatives @ negatives.transpose(1, 2))[:, first, second]
            negative_scores = torch.cat([negative_scores, among], dim=1)
            hidden = torch.cat([hidden, mask[:, first] | mask[:, second]], dim=1)
        return positive / self.temperature, negative_scores / self.temperature, hidden

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Return the settings that `to_json` wrote; refuse unknown names."""
        unknown = sorted(set(values) - set(cls.__dataclass_fields__))
        if unknown:
            raise ConfigError(f"`loss` settings must be known names, got {', '.join(unknown)}.")
        return cls(**values)


def _checked(embeddings: Tensor, endpoints: _Values, mask: _Values) -> tuple[Tensor, Tensor]:
    """Return endpoints and mask as tensors beside the embeddings; refuse shapes that do not fit."""
    if embeddings.ndim != 3 or embeddings.shape[1] < 3:
        raise ConfigError(
            "`embeddings` must have shape (units, 2 + k, dim) with k >= 1, "
            f"got {tuple(embeddings.shape)}. A loss without negatives has nothing to learn."
        )
    shape = (embeddings.shape[0], embeddings.shape[1] - 2)
    chosen = torch.as_tensor(_array(endpoints), device=embeddings.device).long()
    hidden = torch.as_tensor(_array(mask), device=embeddings.device).bool()
    for name, value in (("endpoints", chosen), ("mask", hidden)):
        if tuple(value.shape) != shape:
            raise ConfigError(f"`{name}` must have shape {shape}, got {tuple(value.shape)}.")
    return chosen, hidden


def _array(values: _Values) -> Tensor | npt.NDArray[Any]:
    """Return lists and read-only arrays as values that torch takes without a warning."""
    return values if isinstance(values, Tensor) else np.array(values)
