"""Scores and losses of clip units: embeddings of a unit's rows in, one number per unit out.

A tuple unit has the rows ``[end0, end1, negative_1 .. negative_k]``, a pair unit
``[end0, end1, negative_j]``. In the paper, negative j is scored against the end of the positive that
the sampler's coin chose (theory.md section 1, step 3); `pairing` may ask for both ends, or for all
pairs of a tuple, as a trainer does with InfoNCE unless told. That is free: more terms of the same
rows, and still a function of the tuple alone.

Guarantees (theory.md section 2): the loss of a unit is a function of that unit's own rows and
coins; a masked negative leaves the softmax or the sum, and nothing is ever divided by the number
of negatives that remain; a unit whose negatives are all masked has loss exactly 0 with gradient
exactly 0. InfoNCE mixes all negatives of a tuple in one softmax: it is refused for pair units.

Public: `RelationLoss` (the settings, one validated value), `unit_losses` (the same as a function).

>>> import torch
>>> rows = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])  # (units 1, rows 3, dim 2)
>>> unit_losses(rows, [[0]], [[False]], loss="hinge", score="dot", temperature=1.0, margin=1.5)
tensor([0.5000])
>>> RelationLoss(loss="infonce").check_clipping("pair")
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

from reldp.encoders.unit_length import unit_length
from reldp.errors import ConfigError

__all__ = ["LOSSES", "PAIRINGS", "SCORES", "RelationLoss", "unit_losses"]

LOSSES = ("infonce", "hinge", "logistic")
SCORES = ("cosine", "dot")
PAIRINGS = ("one", "both", "all")

_Coins = Tensor | npt.NDArray[Any] | list[Any]


@dataclass(frozen=True, kw_only=True)
class RelationLoss:
    """What a unit's rows are trained for.

    Attributes:
        loss: ``"infonce"`` and ``"hinge"`` as in the paper, or ``"logistic"``: the sum over
            other pairs of softplus(their score - positive score).
        score: ``"cosine"`` (lengths below 1e-4 count as 1e-4) or ``"dot"``.
        temperature: Every score is divided by it.
        margin: Of the hinge loss, in units of the divided score.
        pairing: Which pairs the positive is compared with: ``"one"``, every negative with the end
            that its coin chose, as in the paper; ``"both"``, every negative with both ends;
            ``"all"``, also every two negatives of the tuple with each other.
    """

    loss: str = "infonce"
    score: str = "cosine"
    temperature: float = 0.05
    margin: float = 1.0
    pairing: str = "one"

    def __post_init__(self) -> None:
        _require_one_of("loss", self.loss, LOSSES)
        _require_one_of("score", self.score, SCORES)
        _require_positive("temperature", self.temperature)
        _require_positive("margin", self.margin)
        _require_one_of("pairing", self.pairing, PAIRINGS)

    def check_clipping(self, clipping: str) -> None:
        """Refuses the clipping rule whose clip units this loss does not decompose into."""
        if clipping == "pair" and self.loss == "infonce":
            raise ConfigError(
                "`loss` must be logistic or hinge with `clipping` pair, got 'infonce'. "
                "InfoNCE mixes all negatives of a tuple in one softmax, so it is no sum over pairs."
            )
        if clipping == "pair" and self.pairing == "all":
            raise ConfigError(
                "`pairing` must be one or both with `clipping` pair, got 'all'. "
                "Two negatives of a tuple with each other belong to no pair unit."
            )

    def __call__(
        self, embeddings: Tensor, endpoints: _Coins, mask: _Coins, *, unit: str = "tuple"
    ) -> Tensor:
        """The loss of every unit.

        Args:
            embeddings: Shape (units, 2 + k, dim), rows ``[end0, end1, negative_1 .. negative_k]``.
            endpoints: Shape (units, k), 0 or 1: the end that each negative is paired with.
            mask: Shape (units, k), True where the negative is left out.
            unit: ``"tuple"``, or ``"pair"`` with k = 1: one of the k pair units of a tuple.

        Returns:
            Shape (units,), in float32 or better.
        """
        self.check_clipping(unit)
        endpoints, mask = _check_unit(embeddings, endpoints, mask, unit)
        positive, others, hidden = self._scores(embeddings, endpoints, mask)
        if self.loss == "infonce":
            # exp(-inf) = 0 takes a masked negative out of the softmax, and out of its gradient.
            others = others.masked_fill(hidden, -math.inf)
            scores = torch.cat([positive[:, None], others], dim=1)  # (units, 1 + pairs)
            # logsumexp - positive is exactly 0 when the positive stands alone.
            return torch.logsumexp(scores, dim=1) - positive
        gap = others - positive[:, None]  # (units, pairs)
        terms = functional.softplus(gap) if self.loss == "logistic" else (self.margin + gap).relu()
        return terms.masked_fill(hidden, 0.0).sum(dim=1)

    def _scores(
        self, embeddings: Tensor, endpoints: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The positive's score (units,), those of other pairs and which are left out (units, pairs)."""
        rows = embeddings if embeddings.dtype == torch.float64 else embeddings.float()
        if self.score == "cosine":
            rows = unit_length(rows)
        pair, negatives = rows[:, :2], rows[:, 2:]  # (units, 2, dim), (units, k, dim)
        positive = (pair[:, 0] * pair[:, 1]).sum(dim=-1)
        # Both ends are scored, then one chosen: (units, k, 2) is small, gathered anchors are not.
        with_endpoints = negatives @ pair.transpose(1, 2)
        if self.pairing == "one":
            others, hidden = with_endpoints.gather(2, endpoints[:, :, None]).squeeze(2), mask
        else:
            others, hidden = with_endpoints.flatten(1), mask.repeat_interleave(2, dim=1)
        if self.pairing == "all":
            count = mask.shape[1]
            first, second = torch.triu_indices(count, count, offset=1, device=mask.device)
            among = (negatives @ negatives.transpose(1, 2))[:, first, second]
            others = torch.cat([others, among], dim=1)
            hidden = torch.cat([hidden, mask[:, first] | mask[:, second]], dim=1)
        return positive / self.temperature, others / self.temperature, hidden

    def to_json(self) -> dict[str, Any]:
        """The settings as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """The settings that `to_json` wrote; unknown names are refused."""
        unknown = sorted(set(values) - set(cls.__dataclass_fields__))
        if unknown:
            raise ConfigError(f"`loss` settings must be known names, got {', '.join(unknown)}.")
        return cls(**values)


def unit_losses(
    embeddings: Tensor,
    endpoints: _Coins,
    mask: _Coins,
    *,
    loss: str = "infonce",
    score: str = "cosine",
    temperature: float = 0.05,
    margin: float = 1.0,
    pairing: str = "one",
    unit: str = "tuple",
) -> Tensor:
    """The loss of every unit, shape (units,): see `RelationLoss`."""
    settings = RelationLoss(
        loss=loss, score=score, temperature=temperature, margin=margin, pairing=pairing
    )
    return settings(embeddings, endpoints, mask, unit=unit)


def _check_unit(
    embeddings: Tensor, endpoints: _Coins, mask: _Coins, unit: str
) -> tuple[Tensor, Tensor]:
    """The coins as tensors beside the embeddings, once all shapes belong together."""
    _require_one_of("unit", unit, ("tuple", "pair"))
    if embeddings.ndim != 3 or embeddings.shape[1] < 3:
        raise ConfigError(
            "`embeddings` must have shape (units, 2 + k, dim) with k >= 1, "
            f"got {tuple(embeddings.shape)}. A loss without negatives has nothing to learn."
        )
    shape = (embeddings.shape[0], embeddings.shape[1] - 2)
    if unit == "pair" and shape[1] != 1:
        raise ConfigError(f"`embeddings` of pair units must have 3 rows, got {shape[1] + 2}.")
    chosen = torch.as_tensor(_array(endpoints), device=embeddings.device).long()
    hidden = torch.as_tensor(_array(mask), device=embeddings.device).bool()
    for name, value in (("endpoints", chosen), ("mask", hidden)):
        if tuple(value.shape) != shape:
            raise ConfigError(f"`{name}` must have shape {shape}, got {tuple(value.shape)}.")
    return chosen, hidden


def _array(values: _Coins) -> Tensor | npt.NDArray[Any]:
    """Lists and read-only arrays as something torch takes without a warning."""
    return values if isinstance(values, Tensor) else np.array(values)


def _require_one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(f"`{name}` must be one of {', '.join(known)}, got {value!r}.")


def _require_positive(name: str, value: float) -> None:
    if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
        raise ConfigError(f"`{name}` must be a finite number above 0, got {value!r}.")
