"""The loop that executes a privacy plan: steps, ledger, checkpoints, resuming, certificate.

    result = Trainer(encoder, capped, plan, learning_rate=2e-3).fit("run")
    result.certificate.epsilon

>>> TrainingConfig().optimizer
'adam'
"""

from reldp.training.config import TrainingConfig
from reldp.training.trainer import Trainer, TrainResult

__all__ = ["TrainResult", "Trainer", "TrainingConfig"]
