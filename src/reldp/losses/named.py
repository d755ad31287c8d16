"""The included losses by name, as settings, recipes and the command line give them.

Public: `make_loss`.

>>> make_loss("triplet", margin=2.0)
TripletMarginLoss(pairing='one', margin=2.0)
>>> make_loss("tripplet")
Traceback (most recent call last):
reldp.errors.ConfigError: `loss` must be one of infonce, hinge, logistic, triplet, cosine, \
got 'tripplet'. Did you mean triplet?
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from reldp._validate import LOSSES, check_choice, check_name
from reldp.errors import ConfigError
from reldp.losses.infonce import InfoNCELoss
from reldp.losses.loss import Loss
from reldp.losses.matryoshka import MatryoshkaLoss
from reldp.losses.sums import CosineMarginLoss, HingeLoss, LogisticLoss, TripletMarginLoss

__all__ = ["make_loss"]

_CLASSES: Mapping[str, type[Any]] = dict(
    zip(
        LOSSES,
        (InfoNCELoss, HingeLoss, LogisticLoss, TripletMarginLoss, CosineMarginLoss),
        strict=True,
    )
)
_SETTINGS = sorted({field.name for kind in _CLASSES.values() for field in fields(kind)})


def make_loss(name: str, *, matryoshka_dims: Sequence[int] | None = None, **settings: Any) -> Loss:
    """Return an included loss.

    Args:
        name: One of ``"infonce"``, ``"hinge"``, ``"logistic"``, ``"triplet"`` and ``"cosine"``.
        matryoshka_dims: Embedding sizes over which the loss is summed; the full size alone unless given.
        **settings: ``score``, ``temperature``, ``margin`` and ``pairing``. None takes the loss's default;
            a loss ignores those that it does not have.

    Raises:
        ConfigError: A name is unknown, or a value breaks its rule.
    """
    kind = _CLASSES[check_choice("loss", name, LOSSES, error=ConfigError)]
    for setting in settings:
        check_name(setting, _SETTINGS, "a setting of a loss", error=ConfigError)
    names = {field.name for field in fields(kind)}
    given = {key: value for key, value in settings.items() if key in names and value is not None}
    loss: Loss = kind(**given)
    return loss if matryoshka_dims is None else MatryoshkaLoss(loss, matryoshka_dims)
