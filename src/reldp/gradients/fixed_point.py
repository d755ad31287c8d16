"""Clipped gradients as whole numbers on the noise's grid, so that their sum is exact.

Noise is drawn on a grid (`reldp.noise`), and the sum must lie on it. If every unit's clipped
gradient is put there by itself, the sum is an addition of whole numbers: exact in float64 up to
2^53, hence the same in whatever order, microbatches or processes it is taken, and one unit's part of it
does not depend on any other unit (theory.md 6). Numbers are rounded toward zero, so no
coordinate grows, and a unit that is within its threshold stays within it: the grid costs nothing.

Without a grid (a run without noise) the sum is plain float64.

Private to the package: `clipped_units`, `unit_sum`.

>>> values = torch.tensor([[3.0, -3.0], [1.0, 1.0]])
>>> unit_sum(values, torch.tensor([0.5, 1.0]), torch.tensor(1.0))  # 1 - 1 and 1 + 1, whole numbers
tensor([2., 0.], dtype=torch.float64)
"""

import torch
from torch import Tensor

__all__ = ["clipped_units", "unit_sum"]

# Elements of a temporary in float64: what fits a CPU's caches, and little on a GPU.
_BLOCK = {"cpu": 1 << 18, "cuda": 1 << 24}


def clipped_units(values: Tensor, factors: Tensor, grid: Tensor | None) -> Tensor:
    """Every unit's values times its factor, in whole numbers of grid steps.

    Args:
        values: (U, elements), float32 or better.
        factors: (U,) float64, in [0, 1]; 0 gives zeros, also where values are not finite.
        grid: The grid's step, a float64 tensor without dimensions; None gives plain products.

    Returns:
        (U, elements) float64.
    """
    scale = factors if grid is None else factors / grid
    scaled = values.double() * scale[:, None]
    scaled = torch.where((factors > 0)[:, None], scaled, 0.0)
    return scaled if grid is None else scaled.trunc_()


def unit_sum(values: Tensor, factors: Tensor, grid: Tensor | None) -> Tensor:
    """Return the sum of `clipped_units` over units, (elements,) float64."""
    units, size = values.shape
    if not units or not size:
        return torch.zeros(size, dtype=torch.float64, device=values.device)
    step = max(1, _BLOCK["cpu" if values.device.type == "cpu" else "cuda"] // units)
    parts = [
        clipped_units(values[:, start : start + step], factors, grid).sum(0)
        for start in range(0, size, step)
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts)
