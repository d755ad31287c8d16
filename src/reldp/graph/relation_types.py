"""Types of relations: names from a public list, one per relation (theory.md 2.3).

A relation with a type keeps its direction: the key is (source, type, target). Types are codes into a
sorted list of names. The list is public and its length is a setting of the plan, so it should be
fixed without looking at the data (`EntityGraph.with_types`): a list that is taken from the data is
public by assumption only.

Inside the package: `type_column`, `coded_types`, `check_types`, `declared_names`, `recoded`.

>>> coded_types(pa.array(["likes", "knows", "likes"]))
(('knows', 'likes'), array([1, 0, 1], dtype=int32))
>>> declared_names(["likes", "knows"])
('knows', 'likes')
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reldp.errors import GraphError
from reldp.graph.columns import id_column

__all__ = ["check_types", "coded_types", "declared_names", "recoded", "type_column"]

Codes = npt.NDArray[np.int32]


def type_column(column: Any, table: str) -> Any:
    """Return types as strings, with nulls preserved; the integer 7 becomes "7".

    Raises:
        GraphError: The column holds neither strings nor integers.
    """
    return id_column(column, table, "type").cast(pa.large_string())


def coded_types(types: Any, declared: tuple[str, ...] = ()) -> tuple[tuple[str, ...], Codes]:
    """Return the names of types, sorted, and the code of each relation.

    Args:
        types: Arrow array of strings without nulls, one per relation.
        declared: The list of names; those in the data by default.

    Returns:
        The names, and (m,) int32: -1 where a type is not in the declared list.
    """
    names = declared or tuple(sorted(types.unique().to_pylist()))
    matches = pc.index_in(types, value_set=pa.array(names, types.type))
    codes = pc.fill_null(matches, -1).to_numpy(zero_copy_only=False)
    return names, codes.astype(np.int32, copy=False)


def declared_names(names: Iterable[str], name: str = "names") -> tuple[str, ...]:
    """Return a declared list of types, sorted and checked.

    Args:
        names: The types.
        name: What an error calls them.

    Raises:
        GraphError: There is no type, one is repeated, or one is not a text.
    """
    if isinstance(names, str | bytes):
        raise GraphError(f"`{name}` must be a list of type names, got one text. Put it in a list.")
    listed = list(names)
    if not listed:
        raise GraphError(
            f"`{name}` must name at least one type, got none. Leave the column 'type' out of "
            "relations that have none."
        )
    wrong = sum(not isinstance(item, str) or not item.strip() or "\x00" in item for item in listed)
    if wrong:
        raise GraphError(f"`{name}` must be texts that are not blank, got {wrong} others.")
    ordered = sorted(listed)
    repeated = [one for one, other in pairwise(ordered) if one == other]
    if repeated:
        raise GraphError(f"`{name}` must name each type once, got {repeated[0]!r} twice.")
    return tuple(ordered)


def check_types(types: Codes | None, names: tuple[str, ...], num_relations: int) -> None:
    """Refuse codes that do not fit the relations or the names."""
    if types is None:
        if names:
            raise GraphError("`type_names` must be empty without `relation_types`, got names.")
        return
    if types.dtype != np.int32 or types.shape != (num_relations,):
        raise GraphError(
            f"`relation_types` must be one int32 for each of {num_relations} relations, got "
            f"{types.dtype} {types.shape}."
        )
    if not isinstance(names, tuple) or (names and names != declared_names(names, "type_names")):
        raise GraphError("`type_names` must be a sorted tuple, got names in another order.")
    if len(types) and not 0 <= types.min() <= types.max() < len(names):
        raise GraphError(
            f"`relation_types` must lie in 0..{len(names) - 1}, got {types.min()}..{types.max()}."
        )


def recoded(
    types: Codes, names: tuple[str, ...], declared: tuple[str, ...], *, show_names: bool = False
) -> Codes:
    """Return codes into a declared list instead of the names at hand.

    Raises:
        GraphError: A relation has a type that is not in the list.
    """
    place = {name: code for code, name in enumerate(declared)}
    table = np.array([place.get(name, -1) for name in names], dtype=np.int32)
    codes = table[types] if len(names) else types
    unknown = np.unique(types[codes < 0])
    if len(unknown):
        shown = f" ({', '.join(repr(names[code]) for code in unknown[:3])})" if show_names else ""
        raise GraphError(
            "`names` must hold the type of every relation, got "
            f"{int(np.count_nonzero(codes < 0))} relations of {len(unknown)} other types{shown}. "
            "Add these types to the list, or remove their relations."
        )
    return codes
