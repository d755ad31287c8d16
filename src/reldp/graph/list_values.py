"""Checks of plain Python values before they become a table: Arrow's words about them help nobody.

Errors give places and kinds, never ids.

Private to the package: `checked_pairs`.

>>> checked_pairs(["1", "2"], [(1, 2)])
Traceback (most recent call last):
reldp.errors.GraphError: `relations` must hold ids of the same type as `ids`, strings, got integers in pair 1. ...
"""

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

from reldp.errors import GraphError

__all__ = ["checked_pairs"]

_LARGEST = 2**63


def checked_pairs(
    ids: Iterable[Any], relations: Iterable[Any], **columns: Sequence[Any] | None
) -> list[tuple[Any, Any]]:
    """Return relations as pairs, if they are pairs of ids of one type and columns have as many values as there are ids.

    Args:
        ids: Ids of the entities.
        relations: Pairs of ids.
        **columns: Further values of the entities by name, one for each id; None where there are none.

    Raises:
        GraphError: The message names the argument and the first place.
    """
    kinds = [_kind(value) for value in ids]
    known = next((kind for kind in kinds if kind), "")
    for place, kind in enumerate(kinds, 1):
        if known and kind and kind != known:
            raise GraphError(
                f"`ids` must be all strings or all integers, got {known} and, in row {place}, {kind}. "
                "Write each as str(id)."
            )
    for name, values in columns.items():
        if values is not None and hasattr(values, "__len__") and len(values) != len(kinds):
            raise GraphError(
                f"`{name}` must have one value for each of the {len(kinds):,} ids, got {len(values):,}."
            )
    pairs = list(relations)
    for place, pair in enumerate(pairs, 1):
        _check_pair(place, pair, known)
    return [(one, other) for one, other in pairs]


def _check_pair(place: int, pair: Any, known: str) -> None:
    size = len(pair) if hasattr(pair, "__len__") else 0
    if isinstance(pair, str) or size != 2:
        raise GraphError(
            f"`relations` must be pairs of ids, got {'text' if isinstance(pair, str) else f'{size} values'} in "
            f"place {place}. Give (id, id) for each."
        )
    for value in pair:
        kind = _kind(value)
        if known and kind and kind != known:
            raise GraphError(
                f"`relations` must hold ids of the same type as `ids`, {known}, got {kind} in pair "
                f"{place}. Write both as str(id)."
            )


def _kind(value: Any) -> str:
    """Return what an id is, in words; nothing for what the checks of a table describe better."""
    if isinstance(value, str):
        return "strings"
    if isinstance(value, bool):
        return ""
    if isinstance(value, Integral):
        return "integers" if -_LARGEST <= int(value) < _LARGEST else "integers beyond 64 bits"
    return ""
