"""The loss of a run: from its name, from the learning settings, or as it is given.

Public inside the package: `relation_loss`, `checked_loss`.

>>> from reldp.training.config import LearningSettings
>>> relation_loss(LearningSettings(loss="hinge"), negatives="entities").pairing
'one'
"""

from dataclasses import asdict
from typing import TYPE_CHECKING

from reldp.errors import ConfigError
from reldp.losses import Loss, RelationLoss
from reldp.losses.settings import LossSettings

if TYPE_CHECKING:
    from reldp.plan import PrivacyPlan
    from reldp.training.config import LearningSettings

__all__ = ["checked_loss", "relation_loss"]


def relation_loss(learning: "LearningSettings", *, negatives: str) -> RelationLoss:
    """Return the loss that the learning settings ask for."""
    settings = learning.loss_settings(default_pairing(learning.loss, negatives))
    return RelationLoss(**asdict(settings))


def default_pairing(loss: str, negatives: str) -> str:
    """Return the pairs that a loss compares unless they are given.

    InfoNCE compares all pairs of a tuple, except where negatives are public texts that nobody will
    search; the sums over negatives compare each negative with one endpoint, as in the paper.
    """
    return "all" if loss == "infonce" and negatives != "public" else "one"


def checked_loss(loss: "str | Loss | None", plan: "PrivacyPlan") -> Loss:
    """Return the loss, InfoNCE unless given, if the plan's clipping rule can clip it.

    Args:
        loss: The loss, its name, or None.
        plan: The plan, whose rule may split a tuple's loss into one term per negative.

    Raises:
        ConfigError: The loss does not follow the protocol, or cannot be split as the rule does.
    """
    if loss is None or isinstance(loss, str):
        name = LossSettings.loss if loss is None else loss
        loss = RelationLoss(loss=name, pairing=default_pairing(name, plan.negatives))
    if not isinstance(loss, Loss):
        raise ConfigError(
            f"`loss` must be a name or follow reldp.losses.Loss, got {type(loss).__name__}."
        )
    if plan.clipping.splits_tuples:
        loss.check_pairwise()
    return loss
