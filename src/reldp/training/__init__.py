"""The loop that executes a privacy plan: steps, ledger, checkpoints, resuming, certificate.

    result = Trainer(encoder, capped, plan, learning_rate=2e-3).fit("run")
    result.certificate.epsilon

Names are imported on first use, so that settings can be read without torch.

>>> TrainingConfig().learning.optimizer
'adam'
"""

from typing import TYPE_CHECKING, Any

from reldp._optional import text_packages
from reldp.training.config import TrainingConfig

if TYPE_CHECKING:
    from reldp.training.step import PrivateStep
    from reldp.training.trainer import Trainer, TrainResult

__all__ = ["PrivateStep", "TrainResult", "Trainer", "TrainingConfig"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with text_packages():
        from reldp.training import step, trainer

    return getattr(step if name == "PrivateStep" else trainer, name)
