"""One number per unit that changes when any bit of the unit's gradient does.

The bits of a unit's values, 16 at a time, times fixed random whole numbers, summed: exact in
float64, in whatever order, because every partial sum is a whole number below 2^53. Two units with
different bits have the same witness with a probability of about 2^-15, and never if they differ in 16
bits of one number only. It serves the comparison of units to the bit (`reldp.training.locality`)
without a copy of their gradients.

Private to the package: `witness`.

>>> values = torch.tensor([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0000002]])
>>> first, second, third = witness([values]).tolist()
>>> first == second, first == third
(True, False)
"""

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

__all__ = ["witness"]

_BLOCK = 1 << 16  # columns at a time: sums stay below 2^15 * 2^15 * 2^16 = 2^46
_MODULUS = 2.0**46
_TURN = 37.0  # another multiple of what came before for every block: 37 * 2^46 < 2^52


def witness(values: Sequence[Tensor]) -> Tensor:
    """Return the witness of each unit, (U,) float64, of values that all have units first."""
    units, device = values[0].shape[0], values[0].device
    total = torch.zeros(units, dtype=torch.float64, device=device)
    for value in values:
        if not value.numel():
            continue
        bits = value.detach().contiguous().flatten(1).view(torch.int16).to(device)  # (U, columns)
        for start in range(0, bits.shape[1], _BLOCK):
            block = bits[:, start : start + _BLOCK].double()
            sums = block @ _multipliers(device)[: block.shape[1]]
            total = (total * _TURN + sums).remainder(_MODULUS)
    return total


@cache
def _multipliers(device: torch.device) -> Tensor:
    """Public random whole numbers; made once, since a CUDA graph that is captured cannot make them."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(-(1 << 15), 1 << 15, (_BLOCK,), generator=generator)
    # Odd, so that none is zero: a change in a single place always shows.
    return (drawn | 1).double().to(device)
