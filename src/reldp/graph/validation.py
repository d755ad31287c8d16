"""From a table of entities as it was read to the entities of a graph, or one error with what is wrong.

Entities have unique ids, text and/or finite features, and a definite `protected`, the same for all
entities of an owner. Relations are
checked by `relation_validation`.

Public: `checked_entities`, `Entities`. Inside the package: `require_columns`,
`require_entity_columns`, `check_plain`, `blank_rows`, `shown`.

>>> entities = SourceTable(table=pa.table({"id": ["a", "b"], "text": ["x", "y"]}), name="entities")
>>> checked_entities(entities, frozenset()).table.column_names
['id', 'text']
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reldp.errors import GraphError
from reldp.graph.column_count import refuse_columns
from reldp.graph.columns import (
    extra_column,
    features_column,
    id_column,
    is_text,
    protected_column,
    single,
    text_column,
)
from reldp.graph.disclosure import KNOWN_COLUMNS, column_words, columns_words, type_words
from reldp.graph.owners import mixed_protection, owner_column, owner_index, unnamed_owners
from reldp.graph.sources import Checklist, SourceTable

__all__ = [
    "Entities",
    "blank_rows",
    "check_mask",
    "check_plain",
    "checked_entities",
    "entity_columns",
    "require_columns",
    "require_entity_columns",
    "shown",
]

_KNOWN = KNOWN_COLUMNS[:5]
# Columns that decide whom the guarantee is for, and what happens if one is overlooked.
_DECIDING = {
    "owner": "entities, not owners, would be protected.",
    "protected": "all entities would be protected.",
}


@dataclass(frozen=True, kw_only=True)
class Entities:
    """Checked entities.

    Attributes:
        table: The entities of the graph: `id`, then `text`, `features`, `protected`, `owner` where
            given, then the rest.
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
    require_entity_columns(source)
    if not source.table.num_rows:
        raise GraphError(f"{source.name} must name at least one entity, got none.")
    checks = Checklist(source, drop)
    ids = id_column(source.table.column("id"), source.name, "id")
    names, codes = _distinct(ids)
    columns = entity_columns(checks, ids, np.flatnonzero(~_is_first(codes)))
    checks.finish()
    rows = np.flatnonzero(checks.alive)
    table = pa.table(columns)
    if len(rows) < len(ids):
        table = table.take(pa.array(rows)).combine_chunks()
    if "owner" in columns:
        _check_owners(source, table, rows)
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


def entity_columns(
    checks: Checklist,
    ids: Any,
    repeated: npt.NDArray[np.integer[Any]],
    feature_length: int | None = None,
) -> dict[str, Any]:
    """Check the rows of an entities table, or of some of its rows.

    Args:
        checks: The list for the rows' table.
        ids: Their ids.
        repeated: Rows whose id an earlier row has.
        feature_length: Length of the feature vectors (default: of the first one here).

    Returns:
        The columns, by name, in the order a graph keeps them.
    """
    check_plain(checks, ids, "column 'id'")
    checks.check(
        "missing_ids",
        blank_rows(ids),
        "must give every entity an id",
        "missing ids",
        "Fill them in",
    )
    checks.check(  # missing ids are missing, not repeated
        "duplicate_ids",
        repeated,
        "must not repeat an id",
        "repeated ids",
        "Give every entity one row",
        partial(shown, ids),
    )
    return {"id": ids, **_contents(checks.source, checks, ids, feature_length)}


def require_columns(
    source: SourceTable, required: tuple[str, ...], one_of: tuple[str, ...] = ()
) -> None:
    """Refuse a table without some columns, or with one column twice."""
    names = source.table.column_names
    refuse_columns(source.name, len(names))
    there = columns_words(names, show_ids=source.show_ids)
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        label = column_words(repeated[0], names, show_ids=source.show_ids)
        raise GraphError(f"{source.name} must not repeat a column, got {label} twice.")
    for name in required:
        if name not in names:
            may_lack = any(kind in source.name for kind in (".csv", ".tsv"))
            header = ", or write the line with the names if the file has none" if may_lack else ""
            raise GraphError(
                f"{source.name} must have a column {name!r}, got {there}. Rename yours{header}."
            )
    if one_of and not set(one_of) & set(names):
        wanted = " or ".join(map(repr, one_of))
        raise GraphError(f"{source.name} must have a column {wanted}, got {there}. Rename yours.")


def require_entity_columns(source: SourceTable) -> None:
    """Refuse entities without ids or content, and a column that looks like one that decides who is protected."""
    require_columns(source, required=("id",), one_of=("text", "features"))
    names = source.table.column_names
    for name in names:
        plain = name.strip().lower()
        if name != plain and plain in _DECIDING and plain not in names:
            raise GraphError(
                f"{source.name} must name the column {plain!r} like this, got {name!r}, which would be read as any "
                f"other column, and {_DECIDING[plain]} Rename it to {plain!r}, or to a word of its own."
            )


def _contents(
    source: SourceTable, checks: Checklist, ids: Any, feature_length: int | None
) -> dict[str, Any]:
    """Return the columns besides the id, checked, in the order a graph keeps them."""
    table, columns = source.table, {}
    if "text" in table.column_names:
        columns["text"], empty = text_column(table.column("text"), source.name)
        check_plain(checks, columns["text"], "column 'text'")
        checks.check(
            "empty_text",
            empty,
            "must give every entity a text",
            "empty texts",
            "Fill them in",
            partial(shown, ids),
        )
    if "features" in table.column_names:
        columns |= _features(source, checks, ids, feature_length)
    if "protected" in table.column_names:
        columns["protected"], unclear = protected_column(table.column("protected"), source.name)
        checks.refuse(
            unclear,
            "must say true or false in column 'protected'",
            "other values",
            "Nobody but you can say whom to protect: fill them in",
            partial(shown, ids),
        )
    if "owner" in table.column_names:
        columns["owner"] = owner_column(table.column("owner"), source.name)
        check_plain(checks, columns["owner"], "column 'owner'")
    return columns | _extras(source, checks)


def _check_owners(source: SourceTable, table: Any, rows: npt.NDArray[np.intp]) -> None:
    """Refuse owners whose entities are not all known, or not all protected: the owner is the unit of privacy."""
    owners, ids = single(table.column("owner")), single(table.column("id"))
    describe = partial(shown, ids) if len(rows) == source.table.num_rows else None
    checks = Checklist(source, frozenset())
    checks.refuse(
        rows[unnamed_owners(owners, ids)],
        "must name the owner of entities whose own id is the owner of others",
        "such entities without one",
        "Repeat the id as owner if they are one unit, or rename the owner if they are not",
        describe,
    )
    if "protected" in table.column_names:
        protected = single(table.column("protected")).to_numpy(zero_copy_only=False)
        checks.refuse(
            rows[mixed_protection(owner_index(owners), protected)],
            "must protect all entities of an owner or none",
            "entities protected unlike the first one of their owner",
            "Protect them too, or give them another owner",
            describe,
        )
    checks.finish()


def _features(
    source: SourceTable, checks: Checklist, ids: Any, length: int | None
) -> dict[str, Any]:
    column = source.table.column("features")
    features, bad, ragged = features_column(column, source.name, length)
    checks.refuse(
        ragged,
        "must have features of one length",
        "vectors of another length than the first",
        "Pad or recompute them",
        partial(shown, ids),
    )
    checks.check(
        "bad_features",
        bad,
        "must have finite features",
        "vectors that are missing, infinite or no numbers",
        "Fill them in",
        partial(shown, ids),
    )
    return {} if features is None else {"features": features}


def _extras(source: SourceTable, checks: Checklist) -> dict[str, Any]:
    """Further columns, kept as they are where their type allows it."""
    columns, names = {}, source.table.column_names
    for name in names:
        if name in _KNOWN:
            continue
        label = column_words(name, names, show_ids=source.show_ids)
        extra = extra_column(source.table.column(name), source.name, label)
        if extra is not None:
            check_plain(checks, extra, label)
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


def blank_rows(ids: Any) -> npt.NDArray[np.int64]:
    """Rows whose id is null or nothing but spaces."""
    blank = pc.is_null(ids)
    if is_text(ids.type):
        empty = pc.or_(pc.equal(pc.binary_length(ids), 0), pc.utf8_is_space(ids))
        blank = pc.or_(blank, pc.fill_null(empty, True))
    return np.flatnonzero(blank.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)


def check_plain(checks: Checklist, column: Any, label: str) -> None:
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


def shown(ids: Any, row: int) -> str:
    """One id for an error message, shortened."""
    value = repr(ids[row].as_py())
    return value if len(value) <= 40 else value[:37] + "..."


def check_mask(mask: npt.NDArray[np.bool_], num_entities: int) -> None:
    """Refuse what does not select some of the entities.

    Args:
        mask: (n,) bool.
        num_entities: Number of entities.

    Raises:
        GraphError: It is another array, or selects none.
    """
    if mask.dtype != np.bool_ or mask.shape != (num_entities,):
        raise GraphError(f"`mask` must be {num_entities} booleans, got {mask.shape}.")
    if not mask.any():
        raise GraphError("`mask` must select at least one entity, got none.")
