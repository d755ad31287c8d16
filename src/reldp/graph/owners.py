"""Owners of entities: people who are several entities, and are protected as one (theory.md 2.3).

Where the entities of a graph have a column `owner`, the unit of privacy is the owner: neighbors differ in
one owner with all of its entities and all relations that touch one of them. An entity without a value
is its own owner; if its id is the owner of others, it must say so. The degree of an owner is the
number of relations that touch an entity of it; a relation between two entities of one owner counts once.

Inside the package: `owner_column`, `owner_index`, `mixed_protection`, `unnamed_owners`.

>>> owner_index(pa.array(["ann", None, "bob", "ann"])).tolist()
[0, 1, 2, 0]
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reldp.errors import GraphError
from reldp.graph.columns import id_column, is_text

__all__ = ["mixed_protection", "owner_column", "owner_index", "unnamed_owners"]

Index = npt.NDArray[np.int64]


def owner_column(column: Any, table: str) -> Any:
    """Return owners as strings or 64-bit integers, null where an entity has none.

    Empty cells are null. Whole numbers that an empty cell turned into floats are integers again.

    Raises:
        GraphError: The column holds something else.
    """
    if pa.types.is_floating(column.type):
        try:
            column = column.cast(pa.int64())
        except pa.ArrowInvalid:
            raise GraphError(
                f"{table} must hold strings or integers in column 'owner', got {column.type}."
            ) from None
    owners = id_column(column, table, "owner")
    if not is_text(owners.type):
        return owners
    blank = pc.or_(pc.equal(pc.binary_length(owners), 0), pc.utf8_is_space(owners))
    return pc.if_else(pc.fill_null(blank, True), pa.scalar(None, owners.type), owners)


def owner_index(owners: Any) -> Index:
    """Return the number of each entity's owner, (n,), in the order of first appearance.

    Args:
        owners: Arrow array of n values, null where an entity is its own owner.
    """
    encoded = owners.dictionary_encode()
    codes = pc.fill_null(encoded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    alone = np.flatnonzero(codes < 0)
    codes = codes.copy()
    codes[alone] = len(encoded.dictionary) + np.arange(len(alone))
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[inverse.reshape(-1)]


def mixed_protection(index: Index, protected: npt.NDArray[np.bool_]) -> Index:
    """Return the entities that are protected unlike the first entity of their owner."""
    _, first = np.unique(index, return_index=True)
    return np.flatnonzero(protected != protected[first[index]])


def unnamed_owners(owners: Any, ids: Any) -> Index:
    """Return the entities without an owner whose id is the owner of others: are they its own or not?"""
    texts = owners.cast(pa.large_string())
    is_owner = pc.is_in(ids.cast(pa.large_string()), value_set=texts.drop_null())
    return np.flatnonzero(pc.and_(is_owner, owners.is_null()).to_numpy(zero_copy_only=False))
