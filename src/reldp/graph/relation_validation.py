"""From a table of relations as it was read to entity indices and types, or one error with what is wrong.

Relations have known endpoints, and no entity is related to itself. Without types a relation has no
direction: negatives are paired with either endpoint (theory.md 1), so (a, b) and (b, a) are one relation, and
two copies would count twice against a degree bound. With a column `type` the key is (source, type,
target): (b, type, a) is another relation, and each one counts toward the degree of both endpoints.

Public: `checked_relations`, `Relations`.

>>> import pyarrow as pa
>>> from reldp.graph.validation import checked_entities
>>> entities = SourceTable(table=pa.table({"id": ["a", "b"], "text": ["x", "y"]}), name="entities")
>>> relations = SourceTable(table=pa.table({"source": ["a"], "target": ["b"]}), name="relations")
>>> checked_relations(relations, checked_entities(entities, frozenset()), frozenset()).pairs.tolist()
[[0, 1]]
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reldp.errors import GraphError
from reldp.graph.columns import id_column, is_text
from reldp.graph.disclosure import column_words, type_words
from reldp.graph.relation_types import coded_types, type_column
from reldp.graph.sources import Checklist, SourceTable
from reldp.graph.validation import Entities, blank_rows, check_plain, require_columns, shown

__all__ = ["Relations", "checked_relations"]

_COLUMNS = ("source", "target", "type")
_SLICE = 1 << 24  # relations looked up at a time: each time costs a hash table of all ids


@dataclass(frozen=True, kw_only=True)
class Relations:
    """Checked relations.

    Attributes:
        pairs: (m, 2) int64 entity indices.
        types: (m,) int32 codes into `type_names`, or None without types.
        type_names: Names of the types, sorted.
        drops: Count by kind of what was dropped on request.
    """

    pairs: npt.NDArray[np.int64] = field(repr=False)
    types: npt.NDArray[np.int32] | None = field(default=None, repr=False)
    type_names: tuple[str, ...] = ()
    drops: dict[str, int]


def checked_relations(
    source: SourceTable,
    entities: Entities,
    drop: frozenset[str],
    declared: tuple[str, ...] = (),
) -> Relations:
    """Return the relations of a graph as entity indices, with their types where they have some.

    Args:
        source: The table that was read.
        entities: The entities of the graph.
        drop: Kinds of damage to drop and count.
        declared: Names of types that the graph's record declares.

    Raises:
        GraphError: Something is wrong that the caller did not ask to drop.
    """
    required = ("source", "target", "type") if declared else ("source", "target")
    require_columns(source, required=required)
    checks = Checklist(source, drop)
    _check_relation_columns(checks)
    columns = {
        name: id_column(source.table.column(name), source.name, name)
        for name in ("source", "target")
    }
    codes = [_lookup(column, entities, source) for column in columns.values()]  # (rows,) each
    unknown = {name: np.flatnonzero(code < 0) for name, code in zip(columns, codes, strict=True)}
    for name, column in columns.items():
        _check_missing(checks, column, name, unknown[name])
    for name, column in columns.items():
        checks.check(
            "unknown_ids",
            unknown[name],
            "must name entities that are there",
            f"unknown {name} ids",
            "Add these entities",
            partial(shown, column),
        )
    # Rows with an unknown endpoint are dropped or a problem by now: their -1 is never looked at.
    endpoints = [code if entities.whole else entities.index[code] for code in codes]
    gone = np.flatnonzero(checks.alive & (np.minimum(*endpoints) < 0))
    if len(gone):  # a relation of an entity that was dropped on request goes with it
        checks.drops["relations_of_dropped_entities"] = len(gone)
        checks.alive[gone] = False
    names, types = _types(checks, declared)
    _check_pairs(checks, endpoints, columns, types)
    checks.finish()
    alive = slice(None) if checks.alive.all() else checks.alive
    pairs = np.stack([end[alive] for end in endpoints], axis=1)
    if types is None:
        return Relations(pairs=pairs, drops=checks.drops)
    names, types = _names_in_use(names, types[alive], declared)
    return Relations(pairs=pairs, types=types, type_names=names, drops=checks.drops)


def _types(
    checks: Checklist, declared: tuple[str, ...]
) -> tuple[tuple[str, ...], npt.NDArray[np.int32] | None]:
    """Return names and codes of the types of all rows, or no codes without a column `type`."""
    table = checks.source.table
    if "type" not in table.column_names:
        return (), None
    types = type_column(table.column("type"), checks.source.name)
    check_plain(checks, types, "column 'type'")
    checks.check(
        "missing_types",
        blank_rows(types),
        "must give every relation a type if there is a column 'type'",
        "relations without one",
        "Fill them in",
    )
    # Rows without a type are dropped or a problem by now: their code is never looked at.
    names, codes = coded_types(pc.fill_null(types, declared[0] if declared else ""), declared)
    checks.refuse(
        np.flatnonzero(checks.alive & (codes < 0)),
        "must have only the types that the graph's record declares",
        "relations of other types",
        "Correct them, or declare these types with with_types",
        partial(shown, types),
    )
    return names, codes


def _names_in_use(
    names: tuple[str, ...], types: npt.NDArray[np.int32], declared: tuple[str, ...]
) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    """Return names and codes without the names that only dropped rows had; all declared ones stay."""
    if declared:
        return names, types
    used, codes = np.unique(types, return_inverse=True)
    return tuple(names[code] for code in used), codes.astype(np.int32).reshape(-1)


def _check_missing(
    checks: Checklist, column: Any, name: str, unknown: npt.NDArray[np.intp]
) -> None:
    """Null and blank ids, which are among the unknown ones: no entity has such an id."""
    checks.check(
        "missing_ids",
        unknown[blank_rows(column.take(pa.array(unknown)))],
        "must name two entities",
        f"missing {name} ids",
        "Fill them in",
    )


def _check_relation_columns(checks: Checklist) -> None:
    extra = [name for name in checks.source.table.column_names if name not in _COLUMNS]
    if not extra:
        return
    if "relation_columns" not in checks.drop:
        names, show = checks.source.table.column_names, checks.source.show_ids
        raise GraphError(
            f"{checks.source.name} must have columns 'source', 'target' and 'type' only, got "
            f"{column_words(extra[0], names, show_ids=show)} too. Remove "
            "it, or drop such columns with drop={'relation_columns'}."
        )
    checks.drops["relation_columns"] = len(extra)


def _check_pairs(
    checks: Checklist,
    endpoints: list[npt.NDArray[np.int64]],
    columns: dict[str, Any],
    types: npt.NDArray[np.int32] | None,
) -> None:
    """Self-relations and repeated relations among the rows that are still in."""

    def show(row: int) -> str:
        return " ".join(shown(column, row) for column in columns.values())

    checks.check(
        "self_relations",
        np.flatnonzero(endpoints[0] == endpoints[1]),
        "must relate two different entities",
        "self-relations",
        "Remove them",
        show,
    )
    rows = np.flatnonzero(checks.alive)
    if types is None:
        rule = "must name a pair of entities once (in either direction)"
        one, other = np.minimum(*endpoints)[rows], np.maximum(*endpoints)[rows]
        repeats = _repeats(
            one * (other.max(initial=0) + 1) + other
        )  # int64 up to 3 billion entities
    else:
        rule = "must name a source, type and target once"
        repeats = _repeated_rows(types[rows], *(end[rows] for end in endpoints))
    checks.check(
        "duplicate_relations", rows[repeats], rule, "repeated relations", "Remove them", show
    )


def _repeats(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Rows whose key an earlier row has."""
    ordered = np.sort(keys)
    if not bool(np.any(ordered[1:] == ordered[:-1])):
        return np.empty(0, dtype=np.intp)
    order = np.argsort(keys, kind="stable")
    again = keys[order[1:]] == keys[order[:-1]]
    return np.sort(order[1:][again])


def _repeated_rows(*keys: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.intp]:
    """Rows that agree in all keys with an earlier row."""
    order = np.lexsort(keys)  # stable: the first of equal rows comes first
    again = np.ones(max(len(order) - 1, 0), dtype=bool)
    for key in keys:
        again &= key[order[1:]] == key[order[:-1]]
    return np.sort(order[1:][again])


def _lookup(column: Any, entities: Entities, source: SourceTable) -> npt.NDArray[np.int64]:
    """Return the code (position in `entities.names`) of every id, -1 where unknown or missing."""
    names = entities.names
    if is_text(column.type) != is_text(names.type):
        if source.typed and entities.typed:
            raise GraphError(
                f"{source.name} must name entities by ids of the same type as the entities', got "
                f"{type_words(column.type)} and {type_words(names.type)}. Convert one of them."
            )
        # The side without a type is compared as written: the integer 7 is "7", and "07" is unknown.
        column, names = (part.cast(pa.large_string()) for part in (column, names))
    if column.type != names.type:
        column, names = column.cast(pa.large_string()), names.cast(pa.large_string())
    codes = np.empty(len(column), dtype=np.int64)
    for start in range(0, len(column), _SLICE):
        matches = pc.index_in(column.slice(start, _SLICE), value_set=names, skip_nulls=True)
        codes[start : start + _SLICE] = pc.fill_null(matches, -1).to_numpy(zero_copy_only=False)
    return codes
