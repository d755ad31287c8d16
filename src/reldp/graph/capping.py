"""Random greedy degree capping: which relations of a graph stay.

Relations are taken in the order of a keyed hash of their two ids (and of type and direction where
they have a type) and kept while both endpoints have room. A relation therefore keeps its priority
whatever else is in the graph and in whatever order rows come, and the result is maximal: no dropped
relation could be put back. Unprotected entities always have room. Where entities have owners, it is
owners that have room, and a relation between two entities of one owner takes one place.

`Greedy` *is* the sequential greedy algorithm. It is fast because numpy removes beforehand the relations
that no cap can touch, and decides block by block on those whose order does not matter.

Public: `kept_relations`, `degrees`, `unit_degrees`, `read_only`. See theory.md 2.2.

>>> import numpy as np, pyarrow as pa
>>> star, everyone = np.array([[0, 1], [0, 2], [0, 3]]), np.ones(4, dtype=bool)
>>> kept_relations(pa.array(["hub", "a", "b", "c"]), star, everyone, 2, seed=1).sum()
np.int64(2)
"""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from reldp.graph.greedy import Greedy, room_of
from reldp.graph.keyed_hash import entity_digests, priority_order

__all__ = ["degrees", "kept_relations", "read_only", "unit_degrees"]

_Scalar = TypeVar("_Scalar", bound=np.generic)


def degrees(relations: npt.NDArray[np.int64], num_entities: int) -> npt.NDArray[np.int64]:
    """Return how many relations each entity has.

    Args:
        relations: (m, 2) entity indices.
        num_entities: n.

    Returns:
        (n,) int64.
    """
    counts = np.zeros(num_entities, dtype=np.int64)
    size = max(
        1 << 20, num_entities
    )  # relations at a time: each time costs a count of all entities
    for start in range(0, len(relations), size):
        endpoints = relations[start : start + size].reshape(-1)
        counts += np.bincount(endpoints, minlength=num_entities)
    return counts


def unit_degrees(
    relations: npt.NDArray[np.int64], index: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return how many relations touch each owner, (owners,) int64.

    Args:
        relations: (m, 2) entity indices.
        index: (n,) number of each entity's owner.
    """
    num = int(index.max(initial=-1)) + 1
    one, other = index[relations[:, 0]], index[relations[:, 1]]
    apart = one != other
    counts = np.bincount(one, minlength=num) + np.bincount(other[apart], minlength=num)
    return counts.astype(np.int64, copy=False)


def read_only(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    """Return the array itself if it is read-only already, else a read-only copy."""
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


def kept_relations(
    ids: Any,
    relations: npt.NDArray[np.int64],
    protected: npt.NDArray[np.bool_],
    max_degree: int,
    seed: int | bytes,
    *,
    types: npt.NDArray[np.int32] | None = None,
    type_names: tuple[str, ...] = (),
    owners: npt.NDArray[np.int64] | None = None,
) -> npt.NDArray[np.bool_]:
    """Return which relations the sequential greedy algorithm keeps.

    Args:
        ids: Arrow array of the n entities' ids.
        relations: (m, 2) entity indices.
        protected: (n,) bool: the entities, or the owners where there are some, whose degree is bounded.
        max_degree: The bound, at least 1.
        seed: Key of the hash that orders relations.
        types: (m,) codes of the relations' types, if they have some.
        type_names: The names that the codes stand for.
        owners: (n,) number of each entity's owner, if entities have owners.

    Returns:
        (m,) bool.
    """
    units = relations if owners is None else owners[relations]  # (m, 2)
    counts = degrees(units, len(protected)) if owners is None else unit_degrees(relations, owners)
    over = protected & (counts > max_degree)
    contested = np.flatnonzero(over[units[:, 0]] | over[units[:, 1]])
    pairs = relations[contested]
    kinds = None if types is None else _type_digests(type_names, types[contested], seed)
    order = priority_order(_digests_of(ids, pairs, seed), pairs, kinds)
    # A unit at or below the bound never runs out of room, so only the others are counted.
    rows = contested[order]
    endpoints = units[rows]
    mask = np.ones(len(relations), dtype=bool)
    mask[rows[~Greedy(room_of(over, max_degree)).accept(endpoints[:, 0], endpoints[:, 1])]] = False
    return mask


def _digests_of(
    ids: Any, pairs: npt.NDArray[np.int64], seed: int | bytes
) -> npt.NDArray[np.uint64]:
    """Return (2, n) digests of the entities in these pairs; those of other entities are zero and never used."""
    import pyarrow as pa

    involved = np.zeros(len(ids), dtype=bool)
    involved[pairs] = True
    rows = np.flatnonzero(involved)
    digests = np.zeros((2, len(ids)), dtype=np.uint64)
    digests[:, rows] = entity_digests(ids.take(pa.array(rows)), seed, "cap_degrees")
    return digests


def _type_digests(
    names: tuple[str, ...], types: npt.NDArray[np.int32], seed: int | bytes
) -> npt.NDArray[np.uint64]:
    """Return (2, m) digests of types, by their names: another list of names changes nothing."""
    import pyarrow as pa

    digests = entity_digests(pa.array(names, pa.string()), seed, "cap_degrees/types")
    return digests[:, types]
