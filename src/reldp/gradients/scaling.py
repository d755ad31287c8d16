"""Clip factors: by how much each unit's gradient is multiplied before it enters the sum.

Guarantee: factor times norm is at most the threshold whatever the rounding, because the threshold
is first multiplied by 1 - 1e-6 and any slack of the norm is added to the norm (theory.md section
6). A unit whose norm is not finite gets the factor 0, and so does one whose factor float32 could
not hold to that precision. Factors are computed in float64. Private to the package.

>>> clip_factors(torch.tensor([1.0, 4.0, float("nan")]), torch.zeros(3), torch.ones(3) * 2)
tensor([1.0000, 0.5000, 0.0000], dtype=torch.float64)
"""

import torch
from torch import Tensor

__all__ = ["MARGIN", "clip_factors"]

# Cheaper than an argument about every rounding step.
MARGIN = 1.0 - 1e-6


def clip_factors(norms: Tensor, slack: Tensor, thresholds: Tensor) -> Tensor:
    """The factor of each unit, in [0, 1].

    Args:
        norms: Gradient norm of each unit, (U,).
        slack: By how much rounding may make the summed gradient longer than its norm, (U,).
        thresholds: Largest norm each unit may keep, (U,), positive.
    """
    length = norms.double() + slack.double()
    room = thresholds.double() * MARGIN
    # A zero gradient divides by zero to infinity, which the minimum turns into 1.
    factors = torch.clamp_max(room / length, 1.0)
    fine = torch.isfinite(length) & (factors > torch.finfo(torch.float32).tiny)
    return torch.where(fine, factors, 0.0)
