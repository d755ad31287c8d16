"""The loss of a run: by name, from the learning settings, or as it is given.

A typed loss must have the types of the graph and the length of the encoder's embeddings; by name it takes both from
there. An untyped loss works on relations with types as on any others: it ignores them.

Public inside the package: `fitting_loss`, `relation_loss`, `resolve_loss`, `default_pairing`, `with_defaults`,
`recorded_settings`, `refuse_loss_settings`.

>>> from reldp.training.config import LearningSettings
>>> relation_loss(LearningSettings(loss="hinge"), negatives="entities").pairing
'one'
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any, NoReturn

from reldp._validate import TYPED_LOSSES
from reldp.clipping import get_rule
from reldp.errors import ConfigError
from reldp.losses import Loss, TypedLoss, make_loss
from reldp.losses.matryoshka import MatryoshkaLoss
from reldp.losses.saved import typed_part
from reldp.losses.settings import LossSettings
from reldp.training.negative_pool import check_pairing

if TYPE_CHECKING:
    from reldp.encoders import Encoder
    from reldp.graph import CappedGraph
    from reldp.plan import PrivacyPlan
    from reldp.training.config import LearningSettings

__all__ = [
    "default_pairing",
    "fitting_loss",
    "recorded_settings",
    "refuse_loss_settings",
    "relation_loss",
    "resolve_loss",
    "with_defaults",
]

# Settings of the included losses; another loss has settings of its own.
_LOSS_SETTINGS = tuple(field.name for field in fields(LossSettings))
# Those that few losses have: the ledger names them where they are set.
_RARE_SETTINGS = ("matryoshka_dims", "objective", "distance")


def relation_loss(
    learning: "LearningSettings",
    *,
    negatives: str,
    type_names: Sequence[str] = (),
    dim: int | None = None,
) -> Any:
    """Return the loss that the learning settings ask for.

    Args:
        learning: The learning settings.
        negatives: Where negatives are drawn from, as in the plan.
        type_names: Names of the types of relations; for typed losses.
        dim: Length of an embedding; for typed losses.

    Raises:
        ConfigError: The loss is typed, and relations have no types.
    """
    settings = asdict(learning.loss_settings(default_pairing(learning.loss, negatives)))
    return _named_loss(settings.pop("loss"), type_names, dim, **settings)


def fitting_loss(
    learning: "LearningSettings",
    clipping: str,
    negatives: str,
    type_names: Sequence[str],
    encoder: "Encoder",
) -> Any:
    """Return the loss that the learning settings ask for, if relations, encoder and clipping rule fit it.

    Raises:
        ConfigError: They do not, whatever the sizes of the graph are.
    """
    if get_rule(clipping).splits_tuples and learning.loss == "infonce":
        raise ConfigError(
            "`loss` must be a sum over negatives with `clipping` pair, got infonce. Use the hinge or logistic loss, or "
            "tuple clipping."
        )
    return relation_loss(learning, negatives=negatives, type_names=type_names, dim=encoder.dim)


def _named_loss(name: str, type_names: Sequence[str], dim: int | None, **settings: Any) -> Loss:
    """Return an included loss; refuse a typed one for relations without types."""
    if name in TYPED_LOSSES and not type_names:
        _refuse_typed(name)
    return make_loss(name, type_names=type_names, dim=dim, **settings)


def _refuse_typed(name: str) -> NoReturn:
    """Raise the error that a typed loss needs relations with types."""
    raise ConfigError(
        f"`loss` must be untyped for relations without a type, got {name}. Add a column `type` to the "
        "relations, or use another loss, such as infonce."
    )


def default_pairing(loss: str, negatives: str) -> str:
    """Return the pairs that a loss compares unless they are given.

    InfoNCE compares all pairs of a tuple, except where negatives are public texts that nobody will
    search; the sums over negatives compare each negative with one endpoint, as in the paper. Typed
    losses let a negative stand in for both endpoints. Where negatives are other relations, InfoNCE learns
    from those too.
    """
    if loss in TYPED_LOSSES:
        return "both"
    if loss == "infonce" and negatives == "relations":
        return "relations"
    return "all" if loss == "infonce" and negatives != "public" else "one"


def with_defaults(learning: "LearningSettings", negatives: str) -> "LearningSettings":
    """Return the settings with those of the loss that are used: the ledger and a resumed run see them."""
    pairing = learning.pairing or default_pairing(learning.loss, negatives)
    check_pairing(pairing, negatives)
    plain = replace(learning, pairing=pairing, matryoshka_dims=None)
    # Defaults depend neither on the types nor on the length of embeddings: any will do that is even.
    loss = relation_loss(plain, negatives=negatives, type_names=("any",), dim=2)
    used: dict[str, Any] = {
        "pairing": pairing,
        "margin": learning.margin or getattr(loss, "margin", 1.0),
    }
    if isinstance(loss, TypedLoss):
        used |= {name: loss.describe().get(name) for name in ("objective", "distance")}
    return replace(learning, **used)


def recorded_settings(learning: "LearningSettings", *, is_named: bool) -> dict[str, Any]:
    """Return how a run learns, for its ledger; a loss that is not named there is described apart."""
    values = asdict(learning)
    for name in _RARE_SETTINGS:
        if values[name] is None:
            del values[name]
    if is_named:
        return values
    return {name: value for name, value in values.items() if name not in _LOSS_SETTINGS}


def refuse_loss_settings(settings: Mapping[str, Any]) -> None:
    """Refuse settings of the included losses beside another loss, which would not see them."""
    for name in _LOSS_SETTINGS:
        if name in settings:
            raise ConfigError(
                f"`{name}` must be a setting of the loss itself, got it beside a loss object. Give it to "
                "the loss, or name one of the included losses."
            )


def resolve_loss(
    loss: "str | Loss | None", plan: "PrivacyPlan", capped: "CappedGraph", encoder: "Encoder"
) -> Loss:
    """Return the loss of a name, InfoNCE if there is none, or the loss as it is given.

    Args:
        loss: The loss or its name.
        plan: The plan.
        capped: The training graph, whose types a typed loss must have.
        encoder: The encoder, whose embeddings a typed loss must fit.

    Raises:
        ConfigError: The name is unknown, the loss is not callable, or its types are not the graph's.
    """
    if loss is None or isinstance(loss, str):
        name = LossSettings.loss if loss is None else loss
        pairing = default_pairing(name, plan.negatives)
        return _named_loss(name, capped.type_names, encoder.dim, pairing=pairing)
    if isinstance(loss, type) or not callable(loss):
        got = f"the class {loss.__name__}" if isinstance(loss, type) else type(loss).__name__
        raise ConfigError(
            "`loss` must be a name or a callable loss(embeddings, batch), such as a "
            f"reldp.losses.InfoNCELoss(), got {got}."
        )
    check_pairing(_pairing_of(loss), plan.negatives)
    _check_types(loss, capped, encoder)
    return loss


def _pairing_of(loss: Any) -> str | None:
    """Return the pairing of a loss, or of the one inside a Matryoshka loss; None where it has none."""
    while isinstance(loss, MatryoshkaLoss):
        loss = loss.loss
    return getattr(loss, "pairing", None)


def _check_types(loss: Loss, capped: "CappedGraph", encoder: "Encoder") -> None:
    """Refuse a typed loss whose types are not the graph's, or whose vectors have another length."""
    typed = typed_part(loss)
    if typed is None:  # an untyped loss ignores types
        return
    if not capped.type_names:
        _refuse_typed(type(typed).__name__)
    if typed.type_names != capped.type_names:
        count = len(capped.type_names)
        got = "others" if typed.num_types == count else typed.num_types
        raise ConfigError(
            f"`loss` must have the graph's {count} types of relations, got {got}. Make it with graph.type_names."
        )
    if typed.dim != encoder.dim:
        raise ConfigError(
            f"`dim` of the loss must be the encoder's {encoder.dim}, got {typed.dim}. Make it with encoder.dim."
        )
