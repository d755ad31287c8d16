"""Graphs from one table of pairs: two columns of texts, and two columns that say whose they are.

A guarantee is about entities, so the table must say which texts belong to the same one. Ids say it:
equal ids, on either side, are one entity. Without ids the caller can choose that equal texts are one
entity (`ids="text"`); then an entity that is spelled in two ways is two, and each is protected on
its own only. Nothing is guessed. Where the table speaks against what the caller chose, an
`AmbiguousEntityWarning` says so.

Inside the package: `pair_files`. Public: `AmbiguousEntityWarning`.

>>> table = pa.table({"a": ["tent"], "b": ["mat"], "a_id": [1], "b_id": [2]})
>>> pair_files(table, left="a", right="b", left_id="a_id", right_id="b_id").entities.table.to_pylist()
[{'id': 1, 'text': 'tent'}, {'id': 2, 'text': 'mat'}]
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reldp._validate import check_choice, shown
from reldp.errors import GraphError
from reldp.graph.columns import extra_column, id_column, is_text, single
from reldp.graph.disclosure import type_words
from reldp.graph.owners import owner_column
from reldp.graph.reading import GraphFiles
from reldp.graph.record import GraphRecord
from reldp.graph.sources import Checklist, SourceTable

__all__ = ["PROTECTED_SIDES", "AmbiguousEntityWarning", "pair_columns", "pair_files"]

PROTECTED_SIDES = ("both", "left", "right")


class AmbiguousEntityWarning(UserWarning):
    """The table leaves open which of its rows are about the same entity."""


@dataclass(frozen=True, kw_only=True)
class _Mentions:
    """Every mention of an entity: left and right of the first row, of the second row, ...

    Attributes:
        names: Distinct ids, in the order of their first mention.
        codes: (2 m,) position of each mention's id in `names`, -1 where it has none.
        texts: (2 m,) Arrow array of texts, null where there is none.
    """

    names: Any
    codes: npt.NDArray[np.int64]
    texts: Any


def pair_columns(
    left: str,
    right: str,
    left_id: str | None,
    right_id: str | None,
    ids: str | None,
    **optional_columns: str | None,
) -> list[str]:
    """Return the columns that are needed, after checking that the caller says what an entity is.

    `optional_columns` are the columns `type`, `left_owner` and `right_owner`, where they are given.
    """
    if ids is not None and not (isinstance(ids, str) and ids == "text"):
        raise GraphError(f"`ids` must be 'text' or left out, got {shown(ids)}.")
    if (left_id is None) != (right_id is None):
        name = "left_id" if left_id is None else "right_id"
        raise GraphError(f"`{name}` must be given too, got only the other side's. Name its column.")
    if left_id is None and ids is None:
        raise GraphError(
            "`left_id` and `right_id` must name the columns of the entities' ids, got none. Ids are "
            "never guessed: pass ids='text' if equal texts are one entity."
        )
    if left_id is not None and ids is not None:
        raise GraphError("`ids` must be left out if `left_id` and `right_id` are given, got both.")
    named = {
        "left": left,
        "right": right,
        "left_id": left_id,
        "right_id": right_id,
        **optional_columns,
    }
    for name, column in named.items():
        if column is not None and not isinstance(column, str):
            raise GraphError(f"`{name}` must be the name of a column, got {type(column).__name__}.")
    if left == right or (left_id is not None and left_id == right_id):
        name, same = ("right", right) if left == right else ("right_id", right_id)
        raise GraphError(f"`{name}` must name another column than the left one, got {same!r}.")
    return list(dict.fromkeys(column for column in named.values() if column is not None))


def pair_files(
    table: Any,
    *,
    left: str,
    right: str,
    left_id: str | None = None,
    right_id: str | None = None,
    ids: str | None = None,
    prefixes: tuple[str, str] | None = None,
    optional_columns: Mapping[str, str | None] = MappingProxyType({}),
    protected: str = "both",
    drop: frozenset[str] = frozenset(),
    record: GraphRecord | None = None,
    show_ids: bool = False,
) -> GraphFiles:
    """Return the entities and relations of a table of pairs; see `EntityGraph.from_pairs`.

    `optional_columns` are the columns `type`, `left_owner` and `right_owner`, where they are given.
    """
    pair_columns(left, right, left_id, right_id, ids, **optional_columns)
    check_choice("protected", protected, PROTECTED_SIDES, error=GraphError)
    texts = [_text(table, column) for column in (left, right)]
    if left_id is None or right_id is None:
        sides = texts
    else:
        sides = [_ids(table, column) for column in (left_id, right_id)]
    sides = _one_type(sides, prefixes)
    pairs = SourceTable(table=table, name="pairs", show_ids=show_ids)
    mentions = _mentions(sides, texts)
    columns, first, drops = _entities(mentions, Checklist(pairs, drop))
    names = (optional_columns.get("left_owner"), optional_columns.get("right_owner"))
    if any(name is not None for name in names):
        columns["owner"] = _owners(mentions, table, names, Checklist(pairs, frozenset()))
    if protected != "both":
        side = mentions.codes[PROTECTED_SIDES.index(protected) - 1 :: 2]
        columns["protected"] = np.isin(np.arange(len(mentions.names)), side)
    if ids == "text":
        _warn_of_spellings(mentions.names)
        identity = "Equal texts are one entity, and each spelling is another."
    else:
        _warn_of_single_mentions(mentions)
        identity = f"An entity is what the columns {left_id} and {right_id} name."
    endpoints = {"source": sides[0], "target": sides[1]}
    type_name = optional_columns.get("type")
    if type_name is not None:
        endpoints["type"] = table.column(type_name)
    return GraphFiles(
        entities=SourceTable(
            table=pa.table(columns),
            name="pairs",
            locate=partial(_rows_of_entities, first // 2),
            drops=tuple(drops.items()),
            show_ids=show_ids,
        ),
        relations=SourceTable(table=pa.table(endpoints), name="pairs", show_ids=show_ids),
        record=(record or GraphRecord()).with_note(identity),
    )


def _text(table: Any, column: str) -> Any:
    """Return a column of texts."""
    text = extra_column(table.column(column), "pairs", f"column {column!r}")
    if text is None or not is_text(text.type):
        kind = type_words(table.column(column).type)
        raise GraphError(f"pairs must hold strings in column {column!r}, got {kind}.")
    return text


def _ids(table: Any, column: str) -> Any:
    """Return a column of ids."""
    return id_column(table.column(column), "pairs", column)


def _one_type(sides: list[Any], prefixes: tuple[str, str] | None) -> list[Any]:
    """Return the ids of both sides in one type, with their prefixes."""
    if prefixes is not None:
        pair = isinstance(prefixes, list | tuple) and len(prefixes) == 2
        if not pair or not all(isinstance(p, str) for p in prefixes) or prefixes[0] == prefixes[1]:
            raise GraphError("`prefixes` must be two different strings, left and right.")
        large = [side.cast(pa.large_string()) for side in sides]
        return [
            pc.binary_join_element_wise(_large(prefix), ids, _large(""))
            for prefix, ids in zip(prefixes, large, strict=True)
        ]
    if is_text(sides[0].type) != is_text(sides[1].type):
        kinds = " and ".join(type_words(side.type) for side in sides)
        raise GraphError(f"pairs must have ids of one type on both sides, got {kinds}.")
    if sides[0].type != sides[1].type:
        return [side.cast(pa.large_string()) for side in sides]
    return sides


def _large(text: str) -> Any:
    """Return a string of the type that the ids have."""
    return pa.scalar(text, pa.large_string())


def _mentions(sides: list[Any], texts: list[Any]) -> _Mentions:
    """Return the mentions of both sides, row by row."""
    rows = len(sides[0])
    order = pa.array(np.arange(2 * rows).reshape(2, rows).T.reshape(-1))
    ids = single(pa.chunked_array(sides)).take(order)
    both = [text.cast(pa.large_string()) for text in texts]
    text = _without_blanks(single(pa.chunked_array(both)).take(order))
    if is_text(ids.type):
        ids = _without_blanks(ids)
    encoded = ids.dictionary_encode()
    codes = pc.fill_null(encoded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    return _Mentions(names=encoded.dictionary, codes=codes, texts=text)


def _without_blanks(texts: Any) -> Any:
    """Return strings with null for those that are empty or hold only spaces."""
    blank = pc.or_(pc.equal(pc.binary_length(texts), 0), pc.utf8_is_space(texts))
    return pc.if_else(blank, pa.scalar(None, texts.type), texts)


def _entities(
    mentions: _Mentions, checks: Checklist
) -> tuple[dict[str, Any], npt.NDArray[np.int64], dict[str, int]]:
    """Return the columns of the entities, the first mention of each, and what was dropped.

    Raises:
        GraphError: An id has several texts, and the caller did not ask to keep the first.
    """
    num, codes = len(mentions.names), mentions.codes
    first = _first(codes, np.flatnonzero(codes >= 0), num)
    has_text = pc.is_valid(mentions.texts).to_numpy(zero_copy_only=False)
    texted = np.flatnonzero((codes >= 0) & has_text)
    source = _first(codes, texted, num)  # where an entity's text comes from, -1 if nowhere
    spelled = mentions.texts.dictionary_encode().indices
    words = pc.fill_null(spelled.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    differing = texted[words[texted] != words[source[codes[texted]]]]
    across = bool(np.any(differing % 2 != source[codes[differing]] % 2))
    fix = "Correct them"
    if across:
        fix += ", set `prefixes` if the ids of left and right are about different entities"
    rows = np.unique(differing // 2)
    show = partial(_show_id, mentions, {int(o) // 2: int(codes[o]) for o in differing[::-1][-100:]})
    checks.check("other_texts", rows, "must give an id one text", "rows with another", fix, show)
    checks.finish()
    texts = mentions.texts.take(pa.array(source, mask=source < 0))
    return {"id": mentions.names, "text": texts}, first, checks.drops


def _owners(
    mentions: _Mentions, table: Any, names: tuple[str | None, str | None], checks: Checklist
) -> Any:
    """Return the owner of each entity: that of its first mention with one, null if there is none.

    Raises:
        GraphError: An id has several owners.
    """
    rows = table.num_rows
    sides = [
        pa.nulls(rows, pa.large_string())
        if name is None
        else owner_column(table.column(name), "pairs").cast(pa.large_string())
        for name in names
    ]
    order = pa.array(np.arange(2 * rows).reshape(2, rows).T.reshape(-1))
    owners = single(pa.chunked_array(sides)).take(order)  # (2 m,) mention by mention
    encoded = pc.fill_null(owners.dictionary_encode().indices.cast(pa.int64()), -1)
    values, codes = encoded.to_numpy(zero_copy_only=False), mentions.codes
    owned = np.flatnonzero((codes >= 0) & (values >= 0))
    source = _first(codes, owned, len(mentions.names))
    differing = owned[values[owned] != values[source[codes[owned]]]]
    checks.refuse(
        np.unique(differing // 2), "must give an id one owner", "rows with another", "Correct them"
    )
    checks.finish()
    return owners.take(pa.array(source, mask=source < 0))


def _first(
    codes: npt.NDArray[np.int64], places: npt.NDArray[np.integer[Any]], num: int
) -> npt.NDArray[np.int64]:
    """Return the first of some places that has each code, -1 where none has."""
    first = np.full(num, -1, dtype=np.int64)
    first[codes[places[::-1]]] = places[::-1]  # the last write, the first place, wins
    return first


def _show_id(mentions: _Mentions, codes: dict[int, int], row: int) -> str:
    """Return the id of a row for an error message."""
    return repr(mentions.names[codes[row]].as_py()) if row in codes else "..."


def _rows_of_entities(rows: npt.NDArray[np.int64], entities: Sequence[int]) -> list[str]:
    """Return the rows of the table that mention entities first."""
    return [f"row {rows[entity] + 1}" for entity in entities]


def _warn_of_spellings(texts: Any) -> None:
    """Warn of texts that are probably the same entity, and are two."""
    plain = pc.utf8_lower(pc.utf8_normalize(texts, "NFKC"))
    plain = pc.utf8_trim_whitespace(pc.replace_substring_regex(plain, r"\s+", " "))
    num_alike = len(texts) - pc.count_distinct(plain).as_py()
    if num_alike:
        _warn(
            f"{num_alike} texts differ from another one in case, spaces or the form of characters "
            "only, and count as other entities. An entity that is spelled in two ways is protected "
            "as two: make its texts equal, or pass ids."
        )


def _warn_of_single_mentions(mentions: _Mentions) -> None:
    """Warn if no id comes twice although texts do: the ids may number rows and not entities."""
    mentioned = mentions.codes[mentions.codes >= 0]
    texts = mentions.texts.drop_null()
    if len(mentioned) == len(mentions.names) and pc.count_distinct(texts).as_py() < len(texts):
        _warn(
            "No id occurs twice, although texts do. If the ids number rows and not entities, every "
            "row is protected on its own only: pass the entities' ids, or ids='text'."
        )


def _warn(message: str) -> None:
    """Warn at the line that calls `EntityGraph.from_pairs`."""
    warnings.warn(message, AmbiguousEntityWarning, stacklevel=5)
