"""Losses of tuples: the `Loss` protocol, the `LossBatch` that a loss sees, and the included losses.

Names are imported on first use, so that `reldp.losses.settings` can be read without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from reldp._optional import text_packages

if TYPE_CHECKING:
    from reldp.losses.infonce import InfoNCELoss
    from reldp.losses.loss import Loss, LossBatch
    from reldp.losses.matryoshka import MatryoshkaLoss
    from reldp.losses.named import make_loss
    from reldp.losses.saved import load
    from reldp.losses.sums import CosineMarginLoss, HingeLoss, LogisticLoss, TripletMarginLoss
    from reldp.losses.typed import TypedLoss
    from reldp.losses.typed_scores import ComplExLoss, DistMultLoss, TransELoss

# Public name: the module that has it.
_HOMES = {
    "ComplExLoss": "typed_scores",
    "CosineMarginLoss": "sums",
    "DistMultLoss": "typed_scores",
    "HingeLoss": "sums",
    "InfoNCELoss": "infonce",
    "LogisticLoss": "sums",
    "Loss": "loss",
    "LossBatch": "loss",
    "MatryoshkaLoss": "matryoshka",
    "TransELoss": "typed_scores",
    "TripletMarginLoss": "sums",
    "TypedLoss": "typed",
    "load": "saved",
    "make_loss": "named",
}

__all__ = [
    "ComplExLoss",
    "CosineMarginLoss",
    "DistMultLoss",
    "HingeLoss",
    "InfoNCELoss",
    "LogisticLoss",
    "Loss",
    "LossBatch",
    "MatryoshkaLoss",
    "TransELoss",
    "TripletMarginLoss",
    "TypedLoss",
    "load",
    "make_loss",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with text_packages():
        return getattr(import_module(f"reldp.losses.{_HOMES[name]}"), name)
