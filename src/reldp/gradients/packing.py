"""Units of similar length into one chunk, so that padding is not computed.

Rows of one forward are padded to the longest among them. Sorting units by their longest row and
cutting the batch where lengths jump saves those positions; each further chunk costs a fixed amount.
`pack_units` finds the cuts of least total cost exactly, by dynamic programming over lengths. The
order of units does not change the clipped sum beyond rounding, and thresholds travel with their
units (`reldp.clipping.ClipUnits.take`). Rounding then depends on what else is in the
batch, which would break locality: private training uses microbatches of fixed shapes
(`reldp.training.frames`).

Public: `Packing`, `pack_units`. Needs numpy only.

>>> packing = pack_units([[3, 9], [30, 4], [2, 8]], chunk_cost=10)
>>> packing.order.tolist(), packing.sizes
([2, 0, 1], [2, 1])
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reldp.errors import InputError

__all__ = ["Packing", "pack_units"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Packing:
    """An order of units and the chunks it is cut into.

    Attributes:
        order: Unit numbers in the order in which they are run, (units,) int64.
        sizes: Units of each chunk, in that order: ``chunk_units`` of `PerUnitGradients`.
        positions: Positions computed, with padding.
    """

    order: npt.NDArray[np.int64]
    sizes: list[int]
    positions: int


def pack_units(
    lengths: npt.ArrayLike, *, chunk_cost: int = 4096, max_positions: int | None = None
) -> Packing:
    """Sorts units by length and cuts them where that pays.

    Args:
        lengths: Length of every row, (units, rows).
        chunk_cost: What one more chunk costs, in positions. The default suits a GPU; on a CPU a few
            hundred are enough.
        max_positions: Most positions in one chunk, with padding; no limit unless given. A unit that
            is larger by itself still gets a chunk.
    """
    found = np.asarray(lengths)
    if found.ndim != 2 or not np.issubdtype(found.dtype, np.integer) or (found < 0).any():
        raise InputError(
            f"`lengths` must be whole numbers of shape (units, rows), got {found.shape} "
            f"of {found.dtype}."
        )
    if chunk_cost < 0 or (max_positions is not None and max_positions < 1):
        raise InputError(
            f"`chunk_cost` must be at least 0 and `max_positions` at least 1, "
            f"got {chunk_cost} and {max_positions}."
        )
    units, rows = found.shape
    if units == 0:
        return Packing(order=np.zeros(0, np.int64), sizes=[], positions=0)
    longest = found.max(axis=1)
    order = np.argsort(longest, kind="stable")
    per_unit = rows * longest[order]  # (units,) positions of a unit padded to its own length
    sizes: list[int] = []
    start = 0
    for stop in _cuts(per_unit, chunk_cost):
        most = stop - start
        if max_positions is not None:
            most = max(1, max_positions // max(1, int(per_unit[stop - 1])))
        parts = -(-(stop - start) // most)
        sizes += [len(p) for p in np.array_split(np.arange(start, stop), parts)]
        start = stop
    endpoints = np.cumsum(sizes)
    total = int(sum(n * int(per_unit[end - 1]) for n, end in zip(sizes, endpoints, strict=True)))
    return Packing(order=order.astype(np.int64), sizes=sizes, positions=total)


def _cuts(per_unit: npt.NDArray[np.int64], chunk_cost: int) -> list[int]:
    """Where each chunk ends: the cheapest way to cut units sorted by size."""
    values, firsts = np.unique(per_unit, return_index=True)
    endpoints = np.append(firsts[1:], len(per_unit))  # a cut inside equal lengths never pays
    best = np.zeros(len(values) + 1)
    back = np.zeros(len(values) + 1, dtype=np.int64)
    starts = np.append(0, endpoints)
    for i in range(1, len(values) + 1):
        costs = best[:i] + (starts[i] - starts[:i]) * values[i - 1] + chunk_cost
        back[i] = int(np.argmin(costs))
        best[i] = costs[back[i]]
    cuts: list[int] = []
    i = len(values)
    while i > 0:
        cuts.append(int(starts[i]))
        i = int(back[i])
    return cuts[::-1]
