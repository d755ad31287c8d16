"""One entity of each drawn owner: negatives where entities have owners (theory.md 2.3).

Negatives are then drawn in two stages. Distinct owners are drawn without replacement, so that every
owner is a negative of at most one tuple; then one entity of each drawn owner, uniformly, from a
stream of its own. Which owners are drawn does not depend on how many entities they have.

Inside the package: ``OwnedEntities``.

>>> from reldp.noise.streams import Streams
>>> owned = OwnedEntities(np.array([0, 1, 0, 2]), owners=np.array([0, 2]))
>>> owned.num_owners, owned.pick(np.array([[1]]), Streams(bytes(32)).stream("doctest", 0, 0)).tolist()
(2, [[3]])
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from reldp.noise.streams import Stream

__all__ = ["OwnedEntities"]


class OwnedEntities:
    """The entities of some owners, as a pool of negatives.

    Args:
        index: Number of each entity's owner; (n,) int64.
        owners: Numbers of the owners in the pool; (pool,) int64.
    """

    def __init__(self, index: NDArray[np.int64], owners: NDArray[np.int64]) -> None:
        self._entities = np.argsort(index, kind="stable")  # (n,) owner by owner
        counts = np.bincount(index)
        self._sizes = counts[owners].astype(np.uint64)  # (pool,)
        self._starts = (np.cumsum(counts) - counts)[owners]  # (pool,)

    @property
    def num_owners(self) -> int:
        """Number of owners in the pool."""
        return int(self._sizes.size)

    def pick(self, places: NDArray[np.int64], stream: "Stream") -> NDArray[np.int64]:
        """Return one entity of each owner, exactly uniform among its entities and independent.

        Args:
            places: Places of owners in the pool, of any shape.
            stream: Stream of these draws alone.

        Returns:
            Entity indices of the same shape.
        """
        sizes = self._sizes[places].ravel()
        words = stream.uint64(sizes.size)
        # The largest word below a multiple of the size: words above are rejected, so that no entity
        # is favored. 2^64 mod size is computed without leaving 64 bits.
        top = np.uint64(2**64 - 1)
        last = top - (top % sizes + np.uint64(1)) % sizes
        while (rejected := words > last).any():
            words[rejected] = stream.uint64(int(rejected.sum()))
        chosen = (words % sizes).astype(np.int64).reshape(places.shape)
        entities: NDArray[np.int64] = self._entities[self._starts[places] + chosen]
        return entities
