"""TrainResult: what `Trainer.fit` returns.

Public: `TrainResult`.

>>> TrainResult.__dataclass_fields__["holdout"].default is None
True
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reldp.encoders import Encoder
    from reldp.losses import Loss
    from reldp.runs.certificate import Certificate

__all__ = ["TrainResult"]


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """The result of a complete run.

    Attributes:
        certificate: The privacy guarantee, made from the ledger.
        encoder: The trained encoder.
        loss: The loss; trained if it has parameters.
        folder: The run folder.
        metrics: Lines of metrics.jsonl.
        holdout: Evaluations on held-out entities, ``"before"`` and ``"after"`` training, as lines of
            evaluations.jsonl; None without a holdout. Sensitive: no epsilon covers them.
    """

    certificate: "Certificate"
    encoder: "Encoder"
    loss: "Loss"
    folder: Path
    metrics: list[dict[str, Any]]
    holdout: Mapping[str, Mapping[str, Any]] | None = None
