"""The inputs of some clip units, on the device that computes with them.

Private to the package: `unit_inputs`.

>>> unit_inputs.__name__
'unit_inputs'
"""

from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import torch
from torch import Tensor

from reldp.gradients.microbatches import UnitInputs

if TYPE_CHECKING:
    from reldp.clipping import ClipUnits
    from reldp.training.unit_rows import UnitRows

__all__ = ["unit_inputs"]


def unit_inputs(
    units: "ClipUnits", part: slice, rows: "UnitRows", thresholds: Tensor, grid: float | None
) -> UnitInputs:
    """Return the inputs of consecutive units of a batch. Sensitive.

    Args:
        units: All units of the batch.
        part: Which of them.
        rows: The encoder's rows.
        thresholds: Largest norm that each unit of the batch may keep, on the device.
        grid: Spacing of the noise's grid; None without noise.
    """

    def on_device(values: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(values[part]).to(rows.encoder.device)

    return UnitInputs(
        rows=rows.of(units.entities[part]),
        endpoints=on_device(units.endpoints).long(),
        mask=on_device(units.mask),
        thresholds=thresholds[part],
        grid=grid,
        types=None if units.types is None else on_device(units.types),
    )
