"""Checks of plain Python values before they become a table: Arrow's words about them help nobody.

Errors give places and kinds, never ids.

Private to the package: `checked_pairs`, `refuse_incomplete`.

>>> checked_pairs(["1", "2"], [(1, 2)])
Traceback (most recent call last):
reldp.errors.GraphError: `relations` must hold ids of the same type as `ids`, strings, got integers in pair 1. ...
"""

from collections.abc import Collection, Iterable, Sequence
from numbers import Integral
from typing import Any

from reldp.errors import GraphError
from reldp.graph.sources import problem_words

__all__ = ["checked_pairs", "refuse_incomplete"]

_LARGEST = 2**63
_EXAMPLES = 5


def checked_pairs(
    ids: Iterable[Any],
    relations: Iterable[Any],
    *,
    types: Sequence[Any] | None = None,
    **columns: Sequence[Any] | None,
) -> list[tuple[Any, Any]]:
    """Return relations as pairs, if they are pairs of ids of one type and columns have as many values as there are ids.

    Args:
        ids: Ids of the entities.
        relations: Pairs of ids.
        types: One value for each relation, or None.
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
        _check_length(name, values, len(kinds), "ids")
    pairs = list(relations)
    _check_length("types", types, len(pairs), "relations")
    for place, pair in enumerate(pairs, 1):
        _check_pair(place, pair, known)
    return [(one, other) for one, other in pairs]


def refuse_incomplete(
    ids: Iterable[Any],
    pairs: Iterable[tuple[Any, Any]],
    drop: Collection[str],
    *,
    has_content: bool,
) -> None:
    """Refuse lists without content of the entities, or with several problems of ids; say all of them.

    A single problem of ids is left to the checks of the tables.

    Args:
        ids: Ids of the entities.
        pairs: Relations, checked by `checked_pairs`.
        drop: Kinds of damage that are dropped.
        has_content: Whether entities have texts or features.

    Raises:
        GraphError: One sentence for each problem: what is missing, then ids that repeat, then unknown ones.
    """
    known, repeated, count = set[Any](), list[int](), 0
    for count, value in enumerate(ids, 1):
        if not _kind(value):  # described by the checks of the tables
            continue
        if value in known:
            repeated.append(count)
        known.add(value)
    unknown = [
        place
        for place, pair in enumerate(pairs, 1)
        if any(_kind(value) and value not in known for value in pair)
    ]
    problems = []
    if not has_content:
        problems.append(
            f"`text` or `features` must be given, with one value for each of the {count:,} ids, got neither. Pass "
            "text=[...], or features= an (n, d) matrix."
        )
    kinds = (
        ("duplicate_ids", "`ids`", repeated, "must not repeat an id", "repeated ids", "place"),
        (
            "unknown_ids",
            "`relations`",
            unknown,
            "must hold ids that are in `ids`",
            "pairs with others",
            "pair",
        ),
    )
    for kind, name, places, rule, offenders, word in kinds:
        if places and kind not in drop:
            where = [f"{word} {place}" for place in places[:_EXAMPLES]]
            fix = f"Correct them, or drop them with drop={{{kind!r}}}"
            more = len(places) > _EXAMPLES
            problems.append(
                problem_words(name, rule, len(places), offenders, where, fix, more=more)
            )
    if not has_content or len(problems) > 1:
        raise GraphError(" Also: ".join(problems))


def _check_length(name: str, values: Any, size: int, what: str) -> None:
    if values is not None and hasattr(values, "__len__") and len(values) != size:
        raise GraphError(
            f"`{name}` must have one value for each of the {size:,} {what}, got {len(values):,}."
        )


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
