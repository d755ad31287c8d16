"""Distinct uniform choices: a random sequence without repeats, in time that ignores the pool.

Serves both halves of a batch: the positives, once their number is known, and the negatives
(theory.md 1, steps 1 and 2).

Guarantee: every sequence of ``count`` distinct numbers out of ``size`` has exactly the same
probability, given uniform stream bits. Up to half of the pool: numbers are drawn independently and
repeats of earlier ones skipped, which leaves the rest uniform in every order. Beyond half: the
pool is ordered by independent 64-bit keys; should two keys be equal, all are drawn again, so
the order is exactly uniform.

Public: ``distinct``.

>>> from reldp.noise.streams import Streams
>>> distinct(Streams(bytes(32)).stream("doctest", 0, 0), size=10**12, count=3).tolist()
[716352231096, 411196519429, 425173869291]
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reldp.errors import PlanError

if TYPE_CHECKING:
    from reldp.noise.streams import Stream

__all__ = ["distinct"]


def distinct(stream: "Stream", size: int, count: int) -> NDArray[np.int64]:
    """Return ``count`` different integers from 0 .. size-1 in uniformly random order; shape (count,)."""
    if not 0 <= count <= size:
        raise PlanError(f"`count` must be between 0 and the size {size}, got {count}.")
    if 2 * count > size:
        return _shuffled(stream, size)[:count]
    # A few more than will be needed, so that one check for repeats is usually enough.
    drawn = stream.integers(max(size, 1), count + count * count // max(size, 1) + 8)
    numbers = _without_repeats(drawn)
    while numbers.size < count:
        numbers = _without_repeats(np.concatenate([numbers, stream.integers(size, count)]))
    return numbers[:count]


def _without_repeats(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers in their order, each at its first place only."""
    _, first_places = np.unique(numbers, return_index=True)
    if first_places.size == numbers.size:
        return numbers
    first_places.sort()
    return numbers[first_places]


def _shuffled(stream: "Stream", size: int) -> NDArray[np.int64]:
    """0 .. size-1 in uniformly random order; (size,)."""
    while True:
        keys = stream.uint64(size)
        order = np.argsort(keys)
        ranked = keys[order]
        if (ranked[1:] != ranked[:-1]).all():
            return order.astype(np.int64)
