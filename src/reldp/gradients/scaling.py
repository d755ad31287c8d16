"""Clip factors: by how much each unit's gradient is multiplied before it enters the sum.

Guarantee: factor times norm is at most the threshold whatever the rounding, because the threshold
is first multiplied by 1 - 1e-6. Norms, factors and products are float64: the relative error of a
norm of d numbers is at most (d + 2) 2^-53, of a factor and of a product 2^-52, together less than
1e-6 up to d = 8e9 (theory.md 6). A unit whose norm is not finite gets the factor 0, and so
does one whose factor would be subnormal. Private to the package.

>>> clip_factors(torch.tensor([1.0, 4.0, float("nan")]), torch.ones(3) * 2, torch.zeros(3))
tensor([1.0000, 0.5000, 0.0000], dtype=torch.float64)
"""

import torch
from torch import Tensor

__all__ = ["MARGIN", "clip_factors"]

MARGIN = 1.0 - 1e-6


def clip_factors(norms: Tensor, thresholds: Tensor, spreads: Tensor) -> Tensor:
    """Return the factor of each unit, in [0, 1].

    Args:
        norms: Gradient norm of each unit, (U,).
        thresholds: Largest norm each unit may keep, (U,), positive.
        spreads: Another length that must stay within the threshold, (U,): see
            `reldp.gradients.ghost`; zeros without large parameters.
    """
    length = torch.maximum(norms.double(), spreads.double())  # not a number if either is not
    room = thresholds.double() * MARGIN
    # A zero gradient divides by zero to infinity, which the minimum turns into 1.
    factors = torch.clamp_max(room / length, 1.0)
    fine = torch.isfinite(length) & (factors > torch.finfo(torch.float64).tiny)
    return torch.where(fine, factors, 0.0)
