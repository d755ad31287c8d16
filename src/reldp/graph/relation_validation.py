"""From a table of relations as it was read to entity indices and types, or one error with what is wrong.

Relations have known endpoints, and no entity is related to itself. Without types a relation has no
direction: negatives are paired with either endpoint (theory.md 1), so (a, b) and (b, a) are one relation, and
two copies would count twice against a degree bound. With a column `type` the key is (source, type,
target): (b, type, a) is another relation, and each one counts toward the degree of both endpoints.

Public: `checked_relations`, `Relations`. `store` uses the single checks for some rows at a time.

>>> import pyarrow as pa
>>> from reldp.graph.validation import checked_entities
>>> entities = SourceTable(table=pa.table({"id": ["a", "b"], "text": ["x", "y"]}), name="entities")
>>> relations = SourceTable(table=pa.table({"source": ["a"], "target": ["b"]}), name="relations")
>>> checked_relations(relations, checked_entities(entities, frozenset()), frozenset()).pairs.tolist()
[[0, 1]]
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reldp.errors import GraphError
from reldp.graph.columns import id_chunks, is_text
from reldp.graph.disclosure import column_words, type_words
from reldp.graph.float_ids import FLOAT_FIX, are_float_ids
from reldp.graph.relation_types import coded_types, type_column
from reldp.graph.sources import Checklist, SourceTable
from reldp.graph.validation import Entities, blank_rows, check_plain, require_columns, shown

__all__ = [
    "Relations",
    "check_endpoints",
    "check_relation_columns",
    "check_repeats",
    "check_self_relations",
    "checked_relations",
    "common_type",
    "drop_with_entities",
    "names_in_use",
    "repeated_rows",
    "repeats",
    "types_of_rows",
]

_COLUMNS = ("source", "target", "type")
_CHUNK = 1 << 18  # rows compared at a time
_COMPARED = 100  # unknown ids that are looked at for their reason
_SLICE = 1 << 24  # relations looked up at a time: each time costs a hash table of all ids


@dataclass(frozen=True, kw_only=True)
class Relations:
    """Checked relations.

    Attributes:
        pairs: (m, 2) int64 entity indices, read-only.
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
    check_relation_columns(checks)
    columns = {
        name: id_chunks(source.table.column(name), source.name, name)
        for name in ("source", "target")
    }
    # One array, filled in place: a table of relations is as large as memory allows.
    pairs = np.empty((source.table.num_rows, 2), dtype=np.int64)
    codes = [pairs[:, 0], pairs[:, 1]]
    with ThreadPoolExecutor(2) as threads:  # Arrow compares without Python's lock
        find = partial(_look_up, entities=entities, source=source)
        list(threads.map(find, columns.values(), codes))
    pa.default_memory_pool().release_unused()  # the hash tables of ids
    check_endpoints(
        checks,
        codes,
        columns,
        [_blank_among(*pair) for pair in zip(columns.values(), codes, strict=True)],
        entities.names,
    )
    # Rows with an unknown endpoint are dropped or a problem by now: their -1 is never looked at.
    if not entities.whole:
        for code in codes:
            code[:] = entities.index[code]
    drop_with_entities(checks, codes)
    names, types = types_of_rows(checks, declared)
    check_self_relations(checks, codes, columns)
    check_repeats(checks, _repeated(checks, codes, types), columns, typed=types is not None)
    checks.finish()
    alive = slice(None) if checks.alive.all() else checks.alive
    pairs = pairs[alive]
    pairs.flags.writeable = False  # a graph takes it as it is
    if types is None:
        return Relations(pairs=pairs, drops=checks.drops)
    names, types = names_in_use(names, types[alive], declared)
    return Relations(pairs=pairs, types=types, type_names=names, drops=checks.drops)


def types_of_rows(
    checks: Checklist, declared: tuple[str, ...]
) -> tuple[tuple[str, ...], npt.NDArray[np.int32] | None]:
    """Return names and codes of the types of the list's rows, or no codes without a column `type`."""
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


def names_in_use(
    names: tuple[str, ...], types: npt.NDArray[np.int32], declared: tuple[str, ...]
) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    """Return names and codes without the names that only dropped rows had; all declared ones stay."""
    if declared:
        return names, types
    used, codes = np.unique(types, return_inverse=True)
    return tuple(names[code] for code in used), codes.astype(np.int32).reshape(-1)


def check_endpoints(
    checks: Checklist,
    codes: Sequence[npt.NDArray[np.int64]],
    columns: Mapping[str, Any],
    blank: Sequence[npt.NDArray[np.integer[Any]]],
    names: Any | None = None,
) -> None:
    """Check that both ids of every row are there and known.

    Args:
        checks: The list for the rows.
        codes: (rows,) for source and target: the entity of each id, -1 where it is unknown.
        columns: The ids, by name.
        blank: Rows whose id is null or blank, among the unknown ones: no entity has such an id.
        names: All ids of entities, if they are at hand; they say why others are unknown.
    """
    for name, rows in zip(columns, blank, strict=True):
        checks.check(
            "missing_ids", rows, "must name two entities", f"missing {name} ids", "Fill them in"
        )
    for (name, column), code in zip(columns.items(), codes, strict=True):
        rows = np.flatnonzero((code < 0) & checks.alive)
        some = [] if "unknown_ids" in checks.drop else [column[int(r)] for r in rows[:_COMPARED]]
        unknown = pa.array([scalar.as_py() for scalar in some])
        checks.check(
            "unknown_ids",
            rows,
            "must name entities that are there",
            f"unknown {name} ids",
            FLOAT_FIX if are_float_ids(unknown, names) else "Add these entities",
            partial(shown, column),
        )


def drop_with_entities(checks: Checklist, endpoints: Sequence[npt.NDArray[np.int64]]) -> None:
    """Drop and count the relations of entities that were dropped on request: they go with them."""
    gone = np.flatnonzero(checks.alive & (np.minimum(*endpoints) < 0))
    if len(gone):
        kind = "relations_of_dropped_entities"
        checks.drops[kind] = checks.drops.get(kind, 0) + len(gone)
        checks.alive[gone] = False


def _blank_among(column: Any, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Return the rows with an unknown id that is null or blank."""
    unknown = np.flatnonzero(codes < 0)
    return unknown[blank_rows(column.take(pa.array(unknown)))]


def check_relation_columns(checks: Checklist) -> None:
    """Refuse columns that relations do not have, or count them where they may be dropped."""
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


def check_self_relations(
    checks: Checklist, endpoints: Sequence[npt.NDArray[np.int64]], columns: Mapping[str, Any]
) -> None:
    """Check that no row relates an entity to itself."""
    checks.check(
        "self_relations",
        np.flatnonzero(endpoints[0] == endpoints[1]),
        "must relate two different entities",
        "self-relations",
        "Remove them",
        partial(_shown_pair, columns),
    )


def check_repeats(
    checks: Checklist,
    repeated: npt.NDArray[np.integer[Any]],
    columns: Mapping[str, Any],
    *,
    typed: bool,
) -> None:
    """Note the rows that repeat an earlier relation."""
    rule = (
        "must name a source, type and target once"
        if typed
        else "must name a pair of entities once (in either direction)"
    )
    checks.check(
        "duplicate_relations",
        repeated,
        rule,
        "repeated relations",
        "Remove them",
        partial(_shown_pair, columns),
    )


def _shown_pair(columns: Mapping[str, Any], row: int) -> str:
    return " ".join(shown(column, row) for column in columns.values())


def _repeated(
    checks: Checklist,
    endpoints: Sequence[npt.NDArray[np.int64]],
    types: npt.NDArray[np.int32] | None,
) -> npt.NDArray[np.intp]:
    """Return the rows, of those that are still in, whose relation an earlier row has."""
    if types is not None:
        rows = np.flatnonzero(checks.alive)
        return rows[repeated_rows(types[rows], *(end[rows] for end in endpoints))]
    # In place: a table of relations is as large as memory allows.
    keys = np.minimum(*endpoints)
    keys *= max(int(end.max(initial=0)) for end in endpoints) + 1  # int64 up to 3 billion entities
    keys += np.maximum(*endpoints)
    gone = np.flatnonzero(~checks.alive)
    keys[gone] = -1 - gone  # a key of its own, which repeats nothing
    return repeats(keys)


def repeats(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Return the rows whose key an earlier row has."""
    ordered = np.sort(keys)
    several = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])  # keys of more than one row
    del ordered
    if not len(several):
        return np.empty(0, dtype=np.intp)
    parts = []
    for start in range(0, len(keys), _CHUNK):  # what is computed on the way stays small
        some = keys[start : start + _CHUNK]
        place = np.minimum(np.searchsorted(several, some), len(several) - 1)
        parts.append(start + np.flatnonzero(several[place] == some))
    rows = np.concatenate(parts)
    order = np.argsort(keys[rows], kind="stable")
    again = keys[rows[order[1:]]] == keys[rows[order[:-1]]]
    return np.sort(rows[order[1:][again]])


def repeated_rows(*keys: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.intp]:
    """Return the rows that agree in all keys with an earlier row."""
    order = np.lexsort(keys)  # stable: the first of equal rows comes first
    again = np.ones(max(len(order) - 1, 0), dtype=bool)
    for key in keys:
        again &= key[order[1:]] == key[order[:-1]]
    return np.sort(order[1:][again])


def common_type(name: str, one: Any, other: Any, *, typed: bool) -> Any:
    """Return the Arrow type in which ids of relations and of entities are compared.

    Args:
        name: What errors call the relations.
        one: Type of the relations' ids.
        other: Type of the entities' ids.
        typed: Whether both tables have types of their own.

    Raises:
        GraphError: One is text, the other integer, and both were written as such.
    """
    if is_text(one) != is_text(other) and typed:
        raise GraphError(
            f"{name} must name entities by ids of the same type as the entities', got "
            f"{type_words(one)} and {type_words(other)}. Convert one of them."
        )
    # The side without a type is compared as written: the integer 7 is "7", and "07" is unknown.
    return one if one == other else pa.large_string()


def _look_up(
    column: Any, codes: npt.NDArray[np.int64], *, entities: Entities, source: SourceTable
) -> None:
    """Write the code (position in `entities.names`) of every id, -1 where unknown or missing."""
    names = entities.names
    kind = common_type(source.name, column.type, names.type, typed=source.typed and entities.typed)
    column, names = column.cast(kind), names.cast(kind)
    for start in range(0, len(column), _SLICE):
        matches = pc.index_in(column.slice(start, _SLICE), value_set=names, skip_nulls=True)
        codes[start : start + _SLICE] = pc.fill_null(matches, -1).to_numpy(zero_copy_only=False)
