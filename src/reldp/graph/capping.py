"""Random greedy degree capping: which relations of a graph stay.

Relations are taken in the order of a keyed hash of their two ids and kept while both ends have
room. A relation therefore keeps its priority whatever else is in the graph and in whatever order
rows come, and the result is maximal: no dropped relation could be put back. Unprotected entities
are promised nothing and always have room.

The loop below *is* the sequential greedy. It is fast because numpy takes away beforehand the
relations that no cap can touch, and block by block those that have already lost an end.

Public: `greedy_cap`, `degrees`. Theory: section 2.2.

>>> import numpy as np
>>> star = np.array([[0, 1], [0, 2], [0, 3]])
>>> everyone = np.ones(4, dtype=bool)
>>> greedy_cap(star, everyone, 2, np.array([9, 4, 5], dtype=np.uint64)).tolist()
[False, True, True]
"""

import numpy as np
import numpy.typing as npt

__all__ = ["degrees", "greedy_cap"]

_BLOCK = 1 << 17  # relations per block: bounds the Python integers alive at once


def degrees(relations: npt.NDArray[np.int64], num_entities: int) -> npt.NDArray[np.int64]:
    """How many relations each entity has.

    Args:
        relations: (m, 2) entity indices.
        num_entities: n.

    Returns:
        (n,) int64.
    """
    counts = np.bincount(relations[:, 0], minlength=num_entities)
    counts += np.bincount(relations[:, 1], minlength=num_entities)
    return counts.astype(np.int64, copy=False)


def greedy_cap(
    relations: npt.NDArray[np.int64],
    protected: npt.NDArray[np.bool_],
    max_degree: int,
    hashes: npt.NDArray[np.uint64],
    ties: npt.NDArray[np.uint64] | None = None,
) -> npt.NDArray[np.bool_]:
    """Which relations the sequential greedy keeps.

    Args:
        relations: (m, 2) entity indices.
        protected: (n,) whose degree is bounded.
        max_degree: The bound, at least 1.
        hashes: (m,) priorities; the smallest comes first.
        ties: (m, w) further words that order relations of equal hash; without them, rows do.

    Returns:
        (m,) bool.
    """
    over = protected & (degrees(relations, len(protected)) > max_degree)
    kept = np.ones(len(relations), dtype=bool)
    contested = np.flatnonzero(over[relations[:, 0]] | over[relations[:, 1]])
    kept[contested] = False
    # An entity at or below the bound never runs out of room, so only the others are counted.
    room = np.where(over, max_degree, np.iinfo(np.int64).max)
    rows = contested[_order(hashes[contested], None if ties is None else ties[contested])]
    kept[rows[_fill(relations[rows], room)]] = True
    return kept


def _order(
    hashes: npt.NDArray[np.uint64], ties: npt.NDArray[np.uint64] | None
) -> npt.NDArray[np.intp]:
    """The order of the hashes; equal ones by the tie words."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    if ties is not None and bool(np.any(ordered[1:] == ordered[:-1])):
        order = np.lexsort((*ties.T[::-1], hashes))
    return order


def _fill(relations: npt.NDArray[np.int64], room: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """The rows, of relations in order of priority, that find room at both ends."""
    left = room.tolist()
    full = bytearray(len(left))
    is_full = np.frombuffer(full, dtype=np.bool_)  # (n,) a view: sees what the loop writes
    kept: list[npt.NDArray[np.intp]] = [np.empty(0, dtype=np.intp)]
    for start in range(0, len(relations), _BLOCK):
        block = relations[start : start + _BLOCK]
        open_rows = np.flatnonzero(~(is_full[block[:, 0]] | is_full[block[:, 1]]))
        accepted = []
        for row, (one, other) in zip(open_rows.tolist(), block[open_rows].tolist(), strict=True):
            if full[one] or full[other]:
                continue
            accepted.append(row)
            left[one] -= 1
            left[other] -= 1
            full[one] = left[one] == 0
            full[other] = left[other] == 0
        kept.append(start + np.array(accepted, dtype=np.intp))
    return np.concatenate(kept)
