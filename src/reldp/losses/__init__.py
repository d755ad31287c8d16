"""Losses of clip units: the `Loss` protocol, and InfoNCE, hinge and logistic losses.

Names are imported on first use, so that `reldp.losses.settings` can be read without torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reldp.losses.loss import Loss
    from reldp.losses.relation_loss import RelationLoss

__all__ = ["Loss", "RelationLoss"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from reldp.losses import loss, relation_loss

    return getattr(loss if name == "Loss" else relation_loss, name)
