"""The sequential greedy choice of relations, most of it in numpy.

Relations come in order of priority, a block at a time, and are accepted while both endpoints have room. Within
a block, an endpoint with at least as much room as it has candidates never runs out; a relation between two such
endpoints is accepted in any order. Only the others are looked at one after the other, so the result is that of
the sequential algorithm.

Inside the package: `Greedy`, `room_of`.

>>> greedy = Greedy(np.array([2, 1, 1, 1], dtype=np.int32))
>>> greedy.accept(np.array([0, 0, 0]), np.array([1, 2, 3])).tolist()
[True, True, False]
"""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Greedy", "room_of"]

UNLIMITED = int(np.iinfo(np.int32).max)  # room that never runs out: there are fewer relations
_BLOCK = 1 << 17  # relations looked at together
_Indices = npt.NDArray[np.integer[Any]]


def room_of(over: npt.NDArray[np.bool_], max_degree: int) -> npt.NDArray[np.int32]:
    """Return the room of every endpoint: the bound for those above it, and all for the right."""
    return np.where(over, min(max_degree, UNLIMITED), UNLIMITED).astype(np.int32)


class Greedy:
    """Room of every endpoint, and the choice that uses it up.

    Args:
        room: (n,) int32: how many relations each endpoint may have; changed in place.
    """

    def __init__(self, room: npt.NDArray[np.int32]) -> None:
        self._room = room
        self._candidates = np.zeros(len(room), dtype=np.int32)

    def accept(self, left: _Indices, right: _Indices) -> npt.NDArray[np.bool_]:
        """Return which relations are accepted, the next ones in order of priority.

        Args:
            left: (relations,) one endpoint of each.
            right: (relations,) the other endpoint; if it is the same one, it takes one place.
        """
        accepted = np.zeros(len(left), dtype=bool)
        for start in range(0, len(left), _BLOCK):
            stop = start + _BLOCK
            self._accept_block(left[start:stop], right[start:stop], accepted[start:stop])
        return accepted

    def _accept_block(
        self, left: _Indices, right: _Indices, accepted: npt.NDArray[np.bool_]
    ) -> None:
        room, candidates = self._room, self._candidates
        rows = np.flatnonzero((room[left] > 0) & (room[right] > 0))
        one, other = left[rows], right[rows]
        np.add.at(candidates, one, 1)
        np.add.at(candidates, other, 1)
        safe = (candidates[one] <= room[one]) & (candidates[other] <= room[other])
        candidates[one] = 0
        candidates[other] = 0
        accepted[rows[safe]] = True
        rest = rows[~safe]
        accepted[self._one_by_one(rest, left[rest], right[rest])] = True
        one, other = one[safe], other[safe]
        np.subtract.at(room, one, 1)
        np.subtract.at(room, other[one != other], 1)

    def _one_by_one(self, rows: _Indices, left: _Indices, right: _Indices) -> list[int]:
        """Return the rows that are accepted. Endpoints of safe relations have room for those too."""
        room: Any = self._room.data  # a memory view: faster than the array, one number at a time
        chosen = []
        for row, one, other in zip(rows.tolist(), left.tolist(), right.tolist(), strict=True):
            if room[one] and room[other]:
                chosen.append(row)
                room[one] -= 1
                if one != other:
                    room[other] -= 1
        return chosen
