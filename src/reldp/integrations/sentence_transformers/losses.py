"""Losses of sentence-transformers as losses of one tuple.

A loss is accepted if its value for one row of the data is a function of that row: the loss of a tuple is then
that of sentence-transformers on a batch of one row, ``(anchor, positive, negative_1 .. negative_k)``. An anchor is
the endpoint of the relation that was drawn for a negative, since relations have no direction.

| of sentence-transformers | becomes |
|---|---|
| `MultipleNegativesRankingLoss`, cosine or dot product | `InfoNCELoss`: the negatives are those of the tuple alone |
| `TripletLoss`, Euclidean | `TripletMarginLoss`, summed over negatives |
| `TripletLoss`, cosine | `HingeLoss` with temperature 1, summed over negatives |
| `MatryoshkaLoss` around one of them | `MatryoshkaLoss`; shortened embeddings get length 1, as there |

Others are refused by name. Losses of reldp, their names and any ``loss(embeddings, batch)`` pass unchanged.

Inside the package: `as_tuple_loss`, `UnitLengthLoss`.

>>> as_tuple_loss("infonce", model=None)
'infonce'
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from reldp.errors import ConfigError
from reldp.losses import HingeLoss, InfoNCELoss, Loss, LossBatch, MatryoshkaLoss, TripletMarginLoss
from reldp.losses.unit_length import unit_length

__all__ = ["REFUSED", "UnitLengthLoss", "as_tuple_loss"]

logger = logging.getLogger(__name__)

_LIBRARY = "sentence_transformers."
_IN_BATCH = "it compares a row with other rows of the batch, whose gradients would then mix"
_CACHED = "it caches embeddings of a whole batch, so that a row's gradient depends on other rows"
_MINED = "it mines triplets among the rows of a batch by their labels"
_LABELS = "it needs a label of each pair, and relations have none"
_TEACHER = "it imitates scores or embeddings of a teacher, and relations have none"
_RANKING = "MultipleNegativesRankingLoss"
_TRIPLET = "TripletLoss"
_LOSS_OF_ONES_OWN = "a loss of one tuple of your own"

# Name of a refused loss: why, and what to use.
REFUSED: Mapping[str, tuple[str, str]] = {
    "CachedMultipleNegativesRankingLoss": (_CACHED, _RANKING),
    "CachedMultipleNegativesSymmetricRankingLoss": (_CACHED, _RANKING),
    "CachedGISTEmbedLoss": (_CACHED, _RANKING),
    "GISTEmbedLoss": (_IN_BATCH, _RANKING),
    "MultipleNegativesSymmetricRankingLoss": (_IN_BATCH, _RANKING),
    "MegaBatchMarginLoss": (_IN_BATCH, _TRIPLET),
    "CoSENTLoss": ("it compares the scores of all pairs of a batch", _RANKING),
    "AnglELoss": ("it compares the scores of all pairs of a batch", _RANKING),
    "GlobalOrthogonalRegularizationLoss": ("it is a statistic of a whole batch", _RANKING),
    "BatchAllTripletLoss": (_MINED, _TRIPLET),
    "BatchHardTripletLoss": (_MINED, _TRIPLET),
    "BatchHardSoftMarginTripletLoss": (_MINED, _TRIPLET),
    "BatchSemiHardTripletLoss": (_MINED, _TRIPLET),
    "OnlineContrastiveLoss": ("it selects the hard pairs of a batch", _TRIPLET),
    "ContrastiveLoss": (_LABELS, _TRIPLET),
    "CosineSimilarityLoss": (_LABELS, _RANKING),
    "SoftmaxLoss": (_LABELS, _RANKING),
    "ContrastiveTensionLoss": ("it trains two models", _RANKING),
    "ContrastiveTensionLossInBatchNegatives": (_IN_BATCH, _RANKING),
    "DenoisingAutoEncoderLoss": ("it trains a decoder on the texts", _RANKING),
    "MarginMSELoss": (_TEACHER, _TRIPLET),
    "MSELoss": (_TEACHER, _RANKING),
    "DistillKLDivLoss": (_TEACHER, _RANKING),
    "EmbedDistillLoss": (_TEACHER, _RANKING),
    "AdaptiveLayerLoss": ("it draws layers at random, outside of the run's key", "MatryoshkaLoss"),
    "Matryoshka2dLoss": ("it draws layers at random, outside of the run's key", "MatryoshkaLoss"),
}


@dataclass(frozen=True)
class UnitLengthLoss:
    """A loss on embeddings that are first given length 1; lengths below 1e-4 count as 1e-4.

    Attributes:
        loss: The loss.
    """

    loss: Loss

    def __call__(self, embeddings: Tensor, batch: LossBatch) -> Tensor:
        """Return the values of the loss."""
        return self.loss(unit_length(embeddings), batch)

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        inner: Any = self.loss
        settings = inner.describe() if hasattr(inner, "describe") else {}
        return {"loss": {"name": type(inner).__name__, **settings}}


def as_tuple_loss(loss: Any, model: Any) -> Any:
    """Return the loss of one tuple: a name, a loss of reldp or any callable as it is.

    Args:
        loss: A loss, or a class of sentence-transformers.
        model: The SentenceTransformer that is trained, which a loss must have been made with.

    Raises:
        ConfigError: A loss of sentence-transformers looks at more than one row, or has a setting that does.
    """
    if isinstance(loss, Mapping):
        raise ConfigError(
            "`loss` must be one loss, got a dictionary. Training takes one graph: join the datasets."
        )
    kind = loss if isinstance(loss, type) else type(loss)
    if not any(base.__module__.startswith(_LIBRARY) for base in kind.__mro__):
        return loss
    if kind.__name__ not in _MAPPED or not kind.__module__.startswith(_LIBRARY):
        why, instead = REFUSED.get(kind.__name__, ("it is not known here", _LOSS_OF_ONES_OWN))
        raise ConfigError(
            f"`loss` must be a function of one row, got {kind.__name__}: {why}. Use {instead}."
        )
    made = loss(model) if isinstance(loss, type) and kind.__name__ != "MatryoshkaLoss" else loss
    if isinstance(made, type):
        raise ConfigError(
            "`loss` must be a MatryoshkaLoss with its sizes, got the class. Make one."
        )
    if getattr(made, "model", model) is not model:
        raise ConfigError(
            f"`loss` must be made with the model that is trained, got a {kind.__name__} of another model."
        )
    return _MAPPED[kind.__name__](made)


def _ranking(loss: Any, *, of_unit_length: bool = False) -> InfoNCELoss:
    """Return InfoNCE with the same scale and similarity."""
    _require(loss, "directions", ("query_to_doc",), "the others compare rows of a batch")
    _require(loss, "partition_mode", "joint", "there is one direction")
    _require(loss, "hardness_mode", None, "it weighs negatives of a batch")
    _require(loss, "gather_across_devices", False, "it compares rows of several devices")
    score = _score(loss.similarity_fct)
    _say_once(_NEGATIVES_OF_THE_ROW)
    # Lengths are 1 already, where it does not matter which.
    return InfoNCELoss(
        score="cosine" if of_unit_length else score,
        temperature=1.0 / float(loss.scale),
        pairing="one",
    )


def _triplet(loss: Any, *, of_unit_length: bool = False) -> Any:
    """Return the triplet loss with the same distance and margin."""
    margin, name = float(loss.triplet_margin), _metric(loss.distance_metric)
    if name == "EUCLIDEAN":
        inner = TripletMarginLoss(margin=margin, pairing="one")
        return UnitLengthLoss(inner) if of_unit_length else inner
    if name == "COSINE":
        return HingeLoss(margin=margin, score="cosine", temperature=1.0, pairing="one")
    raise ConfigError(
        "`loss` must be a TripletLoss with TripletDistanceMetric.EUCLIDEAN or COSINE, got "
        f"{name or 'a function'}. Use one of the two."
    )


def _matryoshka(loss: Any) -> MatryoshkaLoss:
    """Return the sum over the same sizes; sentence-transformers gives shortened embeddings length 1."""
    _require(
        loss, "n_dims_per_step", -1, "sizes would be drawn at random, outside of the run's key"
    )
    inner = type(loss.loss).__name__
    if inner not in (_RANKING, _TRIPLET):
        as_tuple_loss(loss.loss, loss.loss.model)  # refused by its own row
        raise ConfigError(
            f"`loss` must be a MatryoshkaLoss around {_RANKING} or {_TRIPLET}, got {inner}."
        )
    make = _ranking if inner == _RANKING else _triplet
    weights = [float(weight) for weight in loss.matryoshka_weights]
    dims = [int(dim) for dim in loss.matryoshka_dims]
    return MatryoshkaLoss(make(loss.loss, of_unit_length=True), dims, weights=weights)


_MAPPED: Mapping[str, Callable[..., Any]] = {
    _RANKING: _ranking,
    _TRIPLET: _triplet,
    "MatryoshkaLoss": _matryoshka,
}


def _require(loss: Any, name: str, wanted: Any, why: str) -> None:
    """Refuse a setting of a loss other than the one that looks at a row alone."""
    value = getattr(loss, name, wanted)
    if value != wanted:
        raise ConfigError(
            f"`loss` must be a {type(loss).__name__} with {name}={wanted!r}, got {value!r}: {why}."
        )


def _score(function: Any) -> str:
    """Return reldp's name of a similarity."""
    names = {"cos_sim": "cosine", "pytorch_cos_sim": "cosine", "dot_score": "dot"}
    name = getattr(function, "__name__", type(function).__name__)
    if name not in names:
        raise ConfigError(
            f"`loss` must compare by cos_sim or dot_score, got similarity_fct {name}. Use one of the two."
        )
    return names[name]


def _metric(function: Any) -> str | None:
    """Return the name of a distance of sentence-transformers."""
    from sentence_transformers.sentence_transformer.losses.triplet import TripletDistanceMetric

    for name in ("EUCLIDEAN", "COSINE", "MANHATTAN"):
        if getattr(TripletDistanceMetric, name) == function:
            return name
    return None


_NEGATIVES_OF_THE_ROW = (
    "MultipleNegativesRankingLoss is trained over the negatives of each row alone, num_negatives of them drawn for "
    "it; other rows of the batch are no negatives, since a row's gradient must not depend on them."
)
_said: set[str] = set()


def _say_once(sentence: str) -> None:
    """Log a sentence the first time."""
    if sentence not in _said:
        _said.add(sentence)
        logger.warning(sentence)
