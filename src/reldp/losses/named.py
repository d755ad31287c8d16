"""The included losses by name, as settings, recipes and the command line give them.

Public: `make_loss`; inside the package `make_typed_loss`.

>>> make_loss("triplet", margin=2.0)
TripletMarginLoss(pairing='one', margin=2.0)
>>> make_loss("tripplet")
Traceback (most recent call last):
reldp.errors.ConfigError: `loss` must be one of infonce, hinge, logistic, triplet, cosine, distmult, complex, transe, \
got 'tripplet'. Did you mean triplet?
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from reldp._validate import LOSSES, TYPED_LOSSES, check_choice, check_name
from reldp.errors import ConfigError
from reldp.losses.infonce import InfoNCELoss
from reldp.losses.loss import Loss
from reldp.losses.matryoshka import MatryoshkaLoss
from reldp.losses.sums import CosineMarginLoss, HingeLoss, LogisticLoss, TripletMarginLoss
from reldp.losses.typed import TypedLoss
from reldp.losses.typed_scores import ComplExLoss, DistMultLoss, TransELoss

__all__ = ["make_loss", "make_typed_loss"]

_CLASSES: Mapping[str, type[Any]] = dict(
    zip(
        LOSSES,
        (InfoNCELoss, HingeLoss, LogisticLoss, TripletMarginLoss, CosineMarginLoss),
        strict=True,
    )
)
_TYPED: Mapping[str, type[TypedLoss]] = dict(
    zip(TYPED_LOSSES, (DistMultLoss, ComplExLoss, TransELoss), strict=True)
)
_OF_TYPED = ("temperature", "margin", "pairing", "objective")
_SETTINGS = sorted(
    {field.name for kind in _CLASSES.values() for field in fields(kind)} | {"objective", "distance"}
)


def make_loss(
    name: str,
    *,
    matryoshka_dims: Sequence[int] | None = None,
    type_names: Sequence[str] = (),
    dim: int | None = None,
    **settings: Any,
) -> Loss:
    """Return an included loss.

    Args:
        name: One of ``"infonce"``, ``"hinge"``, ``"logistic"``, ``"triplet"`` and ``"cosine"``; for typed relations
            ``"distmult"``, ``"complex"`` or ``"transe"``.
        matryoshka_dims: Embedding sizes over which the loss is summed; the full size alone unless given.
        type_names: Names of the types of relations; of a typed loss.
        dim: Length of an embedding; of a typed loss.
        **settings: ``score``, ``temperature``, ``margin`` and ``pairing``, and ``objective`` and ``distance`` of
            typed losses. None takes the loss's default; a loss ignores those that it does not have.

    Raises:
        ConfigError: A name is unknown, or a value breaks its rule.
    """
    check_choice("loss", name, (*LOSSES, *TYPED_LOSSES), error=ConfigError)
    for setting in settings:
        check_name(setting, _SETTINGS, "a setting of a loss", error=ConfigError)
    loss: Loss
    if name in _TYPED:
        names = (*_OF_TYPED, "distance") if name == "transe" else _OF_TYPED
        given = _given(settings, names)
        if settings.get("score") is not None:
            given["normalize"] = settings["score"] == "cosine"
        loss = make_typed_loss(name, type_names=type_names, dim=dim, **given)
    else:
        kind = _CLASSES[name]
        loss = kind(**_given(settings, [field.name for field in fields(kind)]))
    return loss if matryoshka_dims is None else MatryoshkaLoss(loss, matryoshka_dims)


def make_typed_loss(
    name: str, *, type_names: Sequence[str], dim: Any, **settings: Any
) -> TypedLoss:
    """Return the typed loss of a name; settings are those of its class."""
    kind = _TYPED[check_choice("loss", name, TYPED_LOSSES, error=ConfigError)]
    return kind(type_names, dim, **settings)


def _given(settings: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the settings with one of the names that are not None."""
    return {key: value for key, value in settings.items() if key in names and value is not None}
