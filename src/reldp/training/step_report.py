"""Statistics of one step. Sensitive: computed from private data without noise.

Public inside the package: `StepReport`.

>>> report = StepReport(num_tuples=0, overflow=False, loss=math.nan, median_norm=math.nan,
...                     clipped_share=0.0, num_nonfinite=0)
>>> report.num_tuples
0
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from reldp.gradients import ClippedSum
    from reldp.sampling import TupleBatch

__all__ = ["StepReport"]


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """Statistics of one step. Sensitive: no guarantee covers them.

    Attributes:
        num_tuples: The realized batch size.
        overflow: Whether the batch could not be drawn and was empty.
        loss: Mean loss of the clip units.
        median_norm: Median gradient norm of the clip units before clipping.
        clipped_share: Share of clip units whose gradient was made shorter.
        num_nonfinite: Number of clip units left out because their gradient was not finite.
    """

    num_tuples: int
    overflow: bool
    loss: float
    median_norm: float
    clipped_share: float
    num_nonfinite: int

    @classmethod
    def of(cls, batch: "TupleBatch", clipped: "ClippedSum") -> "StepReport":
        """Return the statistics of a batch and its clipped sum, read from the device at once."""
        loss, median, num_clipped, num_nonfinite = math.nan, math.nan, 0.0, 0.0
        if clipped.num_units:
            norms, was_clipped = clipped.norms.double(), clipped.factors < 1.0
            loss, median, num_clipped, num_nonfinite = torch.stack(
                [
                    clipped.losses.double().mean(),
                    norms.median(),
                    was_clipped.double().sum(),
                    norms.isinf().double().sum() + (norms.isnan() & was_clipped).double().sum(),
                ]
            ).tolist()
        return cls(
            num_tuples=batch.num_tuples,
            overflow=batch.overflow,
            loss=loss,
            median_norm=median,
            clipped_share=num_clipped / max(clipped.num_units, 1),
            num_nonfinite=int(num_nonfinite),
        )
