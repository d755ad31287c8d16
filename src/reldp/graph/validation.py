"""From tables as they were read to the parts of a graph, or one error that says what is wrong.

Entities: unique ids, text and/or finite features, a definite `protected`. Relations: known ends,
no entity related to itself, no pair twice in either direction. A relation has no direction here:
negatives are paired with either end (theory.md 1), so (a, b) and (b, a) are one relation,
and two copies would count twice against a degree bound.

Public: `checked_entities`, `checked_relations`, `Entities`.

>>> import pyarrow as pa
>>> entities = SourceTable(table=pa.table({"id": ["a", "b"], "text": ["x", "y"]}), name="entities")
>>> relations = SourceTable(table=pa.table({"source": ["a"], "target": ["b"]}), name="relations")
>>> found = checked_entities(entities, frozenset())
>>> checked_relations(relations, found, frozenset())[0].tolist()
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
from reldp.graph.columns import (
    extra_column,
    features_column,
    id_column,
    is_text,
    protected_column,
    text_column,
)
from reldp.graph.disclosure import KNOWN_COLUMNS, column_words, columns_words, type_words
from reldp.graph.sources import Checklist, SourceTable

__all__ = ["Entities", "checked_entities", "checked_relations"]

_KNOWN = KNOWN_COLUMNS[:4]
_SLICE = 1 << 24  # relations looked up at a time: each time costs a hash table of all ids


@dataclass(frozen=True, kw_only=True)
class Entities:
    """Checked entities.

    Attributes:
        table: The entities of the graph: `id`, then `text`, `features`, `protected` where given,
            then the rest.
        names: Every distinct id that was read, dropped or not.
        index: (names,) each name's row in `table`, -1 if its entity was dropped.
        typed: Whether the ids have a type of their own (a text file's do not).
        drops: Count by kind of what was dropped on request.
    """

    table: Any = field(repr=False)
    names: Any = field(repr=False)
    index: npt.NDArray[np.int64] = field(repr=False)
    typed: bool
    drops: dict[str, int]

    @property
    def whole(self) -> bool:
        """Whether every id that was read is in the table, at its own place."""
        return bool(len(self.names) == self.table.num_rows)


def checked_entities(source: SourceTable, drop: frozenset[str]) -> Entities:
    """Return the entities of a graph, from the table that was read.

    Raises:
        GraphError: Something is wrong that the caller did not ask to drop.
    """
    _require_columns(source, required=("id",), one_of=("text", "features"))
    if not source.table.num_rows:
        raise GraphError(f"{source.name} must name at least one entity, got none.")
    checks = Checklist(source, drop)
    ids = id_column(source.table.column("id"), source.name, "id")
    _check_plain(checks, ids, "column 'id'")
    missing = _blank(ids)
    checks.check(
        "missing_ids", missing, "must give every entity an id", "missing ids", "Fill them in"
    )
    names, codes = _distinct(ids)
    first = _is_first(codes)
    first[missing] = True  # missing ids are missing, not repeated
    repeated = np.flatnonzero(~first)
    checks.check(
        "duplicate_ids",
        repeated,
        "must not repeat an id",
        "repeated ids",
        "Give every entity one row",
        partial(_show, ids),
    )
    columns = {"id": ids, **_contents(source, checks, ids)}
    checks.finish()
    rows = np.flatnonzero(checks.alive)
    table = pa.table(columns)
    if len(rows) < len(ids):
        table = table.take(pa.array(rows)).combine_chunks()
    if not len(rows):
        raise GraphError(f"{source.name} must name at least one entity, all were dropped.")
    new_row = np.full(len(ids), -1, dtype=np.int64)
    new_row[rows] = np.arange(len(rows))
    first_row = np.zeros(len(names), dtype=np.int64)
    first_row[codes[::-1]] = np.arange(len(ids))[::-1]  # the last write, the first row, wins
    return Entities(
        table=table,
        names=names,
        index=new_row[first_row],
        typed=source.typed,
        drops=checks.drops,
    )


def checked_relations(
    source: SourceTable, entities: Entities, drop: frozenset[str]
) -> tuple[npt.NDArray[np.int64], dict[str, int]]:
    """Return the relations of a graph as entity indices, and what was dropped on request.

    Returns:
        (m, 2) int64, and count by kind.

    Raises:
        GraphError: Something is wrong that the caller did not ask to drop.
    """
    _require_columns(source, required=("source", "target"))
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
            partial(_show, column),
        )
    # Rows with an unknown end are dropped or a problem by now: their -1 is never looked at.
    endpoints = [code if entities.whole else entities.index[code] for code in codes]
    gone = np.flatnonzero(checks.alive & (np.minimum(*endpoints) < 0))
    if len(gone):  # a relation of an entity that was dropped on request goes with it
        checks.drops["relations_of_dropped_entities"] = len(gone)
        checks.alive[gone] = False
    _check_pairs(checks, endpoints, columns)
    checks.finish()
    alive = slice(None) if checks.alive.all() else checks.alive
    return np.stack([end[alive] for end in endpoints], axis=1), checks.drops


def _check_missing(
    checks: Checklist, column: Any, name: str, unknown: npt.NDArray[np.intp]
) -> None:
    """Null and blank ids, which are among the unknown ones: no entity has such an id."""
    checks.check(
        "missing_ids",
        unknown[_blank(column.take(pa.array(unknown)))],
        "must name two entities",
        f"missing {name} ids",
        "Fill them in",
    )


def _require_columns(
    source: SourceTable, required: tuple[str, ...], one_of: tuple[str, ...] = ()
) -> None:
    names = source.table.column_names
    shown = columns_words(names, show_ids=source.show_ids)
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        label = column_words(repeated[0], names, show_ids=source.show_ids)
        raise GraphError(f"{source.name} must not repeat a column, got {label} twice.")
    for name in required:
        if name not in names:
            raise GraphError(
                f"{source.name} must have a column {name!r}, got {shown}. Rename yours, or write "
                "the line with the names if the file has none."
            )
    if one_of and not set(one_of) & set(names):
        wanted = " or ".join(map(repr, one_of))
        raise GraphError(f"{source.name} must have a column {wanted}, got {shown}. Rename yours.")


def _contents(source: SourceTable, checks: Checklist, ids: Any) -> dict[str, Any]:
    """Return the columns besides the id, checked, in the order a graph keeps them."""
    table, columns = source.table, {}
    if "text" in table.column_names:
        columns["text"], empty = text_column(table.column("text"), source.name)
        _check_plain(checks, columns["text"], "column 'text'")
        checks.check(
            "empty_text",
            empty,
            "must give every entity a text",
            "empty texts",
            "Fill them in",
            partial(_show, ids),
        )
    if "features" in table.column_names:
        columns |= _features(source, checks, ids)
    if "protected" in table.column_names:
        columns["protected"], unclear = protected_column(table.column("protected"), source.name)
        checks.refuse(
            unclear,
            "must say true or false in column 'protected'",
            "other values",
            "Nobody but you can say whom to protect: fill them in",
            partial(_show, ids),
        )
    return columns | _extras(source, checks)


def _features(source: SourceTable, checks: Checklist, ids: Any) -> dict[str, Any]:
    features, bad, ragged = features_column(source.table.column("features"), source.name)
    checks.refuse(
        ragged,
        "must have features of one length",
        "vectors of another length than the first",
        "Pad or recompute them",
        partial(_show, ids),
    )
    checks.check(
        "bad_features",
        bad,
        "must have finite features",
        "vectors that are missing, infinite or no numbers",
        "Fill them in",
        partial(_show, ids),
    )
    return {} if features is None else {"features": features}


def _extras(source: SourceTable, checks: Checklist) -> dict[str, Any]:
    """Further columns, kept as they are where their type allows it."""
    columns = {}
    for name in source.table.column_names:
        if name in _KNOWN:
            continue
        label = column_words(name, source.table.column_names, show_ids=source.show_ids)
        extra = extra_column(source.table.column(name), source.name, label)
        if extra is not None:
            _check_plain(checks, extra, label)
            columns[name] = extra
        elif "extra_columns" in checks.drop:
            checks.drops["extra_columns"] = checks.drops.get("extra_columns", 0) + 1
        else:
            raise GraphError(
                f"{source.name} must hold text, numbers or booleans in {label}, got "
                f"{type_words(source.table.column(name).type)}. Convert it, or drop it with "
                "drop={'extra_columns'}."
            )
    return columns


def _check_relation_columns(checks: Checklist) -> None:
    extra = [n for n in checks.source.table.column_names if n not in ("source", "target")]
    if not extra:
        return
    if "relation_columns" not in checks.drop:
        names, show = checks.source.table.column_names, checks.source.show_ids
        raise GraphError(
            f"{checks.source.name} must have columns 'source' and 'target' only, got "
            f"{column_words(extra[0], names, show_ids=show)} too. Remove "
            "it, or drop such columns with drop={'relation_columns'}."
        )
    checks.drops["relation_columns"] = len(extra)


def _check_pairs(
    checks: Checklist, endpoints: list[npt.NDArray[np.int64]], columns: dict[str, Any]
) -> None:
    """Self-relations and repeated pairs among the rows that are still in."""

    def show(row: int) -> str:
        return " ".join(_show(column, row) for column in columns.values())

    checks.check(
        "self_relations",
        np.flatnonzero(endpoints[0] == endpoints[1]),
        "must relate two different entities",
        "self-relations",
        "Remove them",
        show,
    )
    rows = np.flatnonzero(checks.alive)
    low, high = np.minimum(*endpoints)[rows], np.maximum(*endpoints)[rows]
    checks.check(
        "duplicate_relations",
        rows[_repeats(low * (high.max(initial=0) + 1) + high)],  # int64 up to 3 billion entities
        "must name a pair of entities once (in either direction)",
        "repeated relations",
        "Remove them",
        show,
    )


def _repeats(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Rows whose key an earlier row has."""
    ordered = np.sort(keys)
    if not bool(np.any(ordered[1:] == ordered[:-1])):
        return np.empty(0, dtype=np.intp)
    order = np.argsort(keys, kind="stable")
    again = keys[order[1:]] == keys[order[:-1]]
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


def _distinct(ids: Any) -> tuple[Any, npt.NDArray[np.int64]]:
    """Return the distinct ids in order of first appearance, and each row's code among them."""
    encoded = ids.dictionary_encode(null_encoding="encode")
    return encoded.dictionary, encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _is_first(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which rows show their code for the first time; codes are numbered by first appearance."""
    seen = np.maximum.accumulate(codes)
    first = np.ones(len(codes), dtype=bool)
    first[1:] = codes[1:] > seen[:-1]
    return first


def _blank(ids: Any) -> npt.NDArray[np.int64]:
    """Rows whose id is null or nothing but spaces."""
    blank = pc.is_null(ids)
    if is_text(ids.type):
        empty = pc.or_(pc.equal(pc.binary_length(ids), 0), pc.utf8_is_space(ids))
        blank = pc.or_(blank, pc.fill_null(empty, True))
    return np.flatnonzero(blank.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)


def _check_plain(checks: Checklist, column: Any, label: str) -> None:
    """Strings hold no NUL character: no text does, and much software stops there."""
    if not is_text(column.type):
        return
    nul = pc.fill_null(pc.match_substring(column, "\x00"), False)
    checks.refuse(
        np.flatnonzero(nul.to_numpy(zero_copy_only=False)),
        f"must be plain text in {label}",
        "values with NUL characters",
        "The file may be binary, or UTF-16 that was not converted",
    )


def _show(ids: Any, row: int) -> str:
    """One id for an error message, shortened."""
    value = repr(ids[row].as_py())
    return value if len(value) <= 40 else value[:37] + "..."
