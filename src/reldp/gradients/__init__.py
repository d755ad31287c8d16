"""Per-unit gradients of a torch module, clipped and summed in one backward pass."""

from reldp._optional import text_packages

with text_packages():
    from reldp.gradients.clipped_sum import ClippedSum
    from reldp.gradients.engine import GradientSettings, PerUnitGradients
    from reldp.gradients.ghost import sum_error

__all__ = ["ClippedSum", "GradientSettings", "PerUnitGradients", "sum_error"]
