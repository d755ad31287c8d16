"""Per-unit gradients of a torch module, clipped and summed in one backward."""

from reldp.gradients.engine import ClippedSum, GradientSettings, PerUnitGradients

__all__ = ["ClippedSum", "GradientSettings", "PerUnitGradients"]
