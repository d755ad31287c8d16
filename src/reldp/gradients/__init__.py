"""Per-unit gradients of a torch module, clipped and summed in one backward."""

from reldp.gradients.engine import ClippedSum, GradientSettings, PerUnitGradients
from reldp.gradients.ghost import sum_error
from reldp.gradients.packing import Packing, pack_units

__all__ = [
    "ClippedSum",
    "GradientSettings",
    "Packing",
    "PerUnitGradients",
    "pack_units",
    "sum_error",
]
