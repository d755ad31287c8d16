"""A table together with where its rows stand, and the list of what is wrong with them.

Every check names a kind of damage. What the caller asked to drop is counted and left out;
everything else becomes one clear error that says how many, where the first ones stand, and what to
do. Nothing is dropped unasked, and no id is shown unasked: an error gives counts and places, and
ids only where the table says `show_ids`.

Public: `DROPPABLE`, `SourceTable`, `Checklist`, `drop_kinds`.

>>> import numpy as np, pyarrow as pa
>>> source = SourceTable(table=pa.table({"id": ["a", "a"]}), name="entities")
>>> checks = Checklist(source, frozenset())
>>> checks.check("duplicate_ids", np.array([1]), "must not repeat an id", "repeats", "Rename one")
>>> checks.finish()
Traceback (most recent call last):
reldp.errors.GraphError: entities must not repeat an id, got 1 repeats (row 2). ...
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from reldp._validate import shown
from reldp.errors import GraphError
from reldp.graph.disclosure import SHOW_HINT

__all__ = ["DROPPABLE", "Checklist", "SourceTable", "by_row", "drop_kinds", "problem_words"]

DROPPABLE: dict[str, str] = {
    "bad_features": "entities whose feature vector is missing or not finite",
    "duplicate_ids": "entities that repeat an earlier id",
    "duplicate_relations": "relations that repeat an earlier one, in either direction unless typed",
    "empty_text": "entities without text",
    "extra_columns": "entity columns of a type that a graph cannot keep",
    "malformed_lines": "lines of a text file with the wrong number of columns",
    "missing_ids": "entities and relations with a missing id",
    "missing_types": "relations without a type, in a table with a column type",
    "other_texts": "texts of an id after its first one, in a table of pairs",
    "relation_columns": "relation columns other than source, target and type",
    "self_relations": "relations of an entity with itself",
    "unknown_ids": "relations that name an entity that is not there",
}

_PLACES = 5
_WITH_IDS = 3  # ids may be long


def drop_kinds(drop: Iterable[str]) -> frozenset[str]:
    """Return the kinds to drop, each checked against those there are."""
    kinds = [drop] if isinstance(drop, str) else list(drop)
    unknown = [kind for kind in kinds if not isinstance(kind, str) or kind not in DROPPABLE]
    if unknown:
        names = ", ".join(DROPPABLE)
        each = " Name each kind by itself." if "," in str(unknown[0]) else ""
        # A column of a table may have been given for it, whose values stay out of messages.
        is_written = isinstance(drop, str | list | tuple | Set | Mapping)
        got = shown(unknown[0] if is_written else drop)
        raise GraphError(f"`drop` must name kinds among {names}, got {got}.{each}")
    return frozenset(kinds)


def by_row(rows: Sequence[int]) -> list[str]:
    """Return where rows of a table without lines stand; rows count from 0."""
    return [f"row {row + 1}" for row in rows]


@dataclass(frozen=True, kw_only=True)
class SourceTable:
    """A table as it was read, before any check.

    Attributes:
        table: Arrow table.
        name: What errors call it: a file's name, or "entities" and "relations" in memory.
        typed: False for text files, whose ids are written without a type.
        locate: Says where rows stand ("line 7"); rows count from 0.
        drops: What reading itself left out on request.
        show_ids: Whether errors may show ids and other content of rows.
    """

    table: Any = field(repr=False)
    name: str
    typed: bool = True
    locate: Callable[[Sequence[int]], list[str]] = by_row
    drops: tuple[tuple[str, int], ...] = ()
    show_ids: bool = False


def problem_words(
    name: str, rule: str, count: int, offenders: str, examples: list[str], fix: str, *, more: bool
) -> str:
    """Return one problem of a table as a sentence, with where the first offenders stand."""
    where = ", ".join(examples) + (", ..." if more else "")
    return f"{name} {rule}, got {count} {offenders} ({where}). {fix}."


class Checklist:
    """Collect what is wrong with the rows of one table.

    Attributes:
        drops: Count by kind of what was dropped on request.
        alive: (rows,) which rows are still in.
    """

    def __init__(self, source: SourceTable, drop: frozenset[str]) -> None:
        self.source = source
        self.drop = drop
        self.drops: dict[str, int] = dict(source.drops)
        self.alive: npt.NDArray[np.bool_] = np.ones(source.table.num_rows, dtype=bool)
        self._problems: list[str] = []
        self._hidden = False

    def check(
        self,
        kind: str,
        rows: npt.NDArray[np.integer[Any]],
        rule: str,
        offenders: str,
        fix: str,
        describe: Callable[[int], str] | None = None,
    ) -> None:
        """Note rows that break a rule: dropped where asked for, else a problem.

        Args:
            kind: One of `DROPPABLE`.
            rows: Offending rows.
            rule: "must not repeat an id".
            offenders: What the offending rows are called, in the plural.
            fix: What the caller can do besides dropping.
            describe: Words for one offender, such as its id; used only with `show_ids`.
        """
        rows = rows[self.alive[rows]]
        if not len(rows):
            return
        if kind in self.drop:
            self.drops[kind] = self.drops.get(kind, 0) + len(rows)
        else:
            self.refuse(
                rows, rule, offenders, f"{fix}, or drop them with drop={{{kind!r}}}", describe
            )
        self.alive[rows] = False  # later checks look at what is left: one row, one complaint

    def refuse(
        self,
        rows: npt.NDArray[np.integer[Any]],
        rule: str,
        offenders: str,
        fix: str,
        describe: Callable[[int], str] | None = None,
    ) -> None:
        """Note rows that break a rule and that nobody may ask to drop."""
        if len(rows):
            where = self.examples(rows, describe)
            more = len(rows) > len(where)
            self._problems.append(
                problem_words(self.source.name, rule, len(rows), offenders, where, fix, more=more)
            )

    def examples(
        self,
        rows: npt.NDArray[np.integer[Any]],
        describe: Callable[[int], str] | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """Return where the first few offenders stand, and what they are where that may be shown."""
        first = [int(row) for row in rows[: self.max_examples if limit is None else limit]]
        places = self.source.locate(first)
        if describe is not None and not self.source.show_ids:
            self._hidden = True
        elif describe is not None:
            places = [f"{place}: {describe(row)}" for place, row in zip(places, first, strict=True)]
        return places

    @property
    def max_examples(self) -> int:
        """How many offenders an error shows."""
        return _WITH_IDS if self.source.show_ids else _PLACES

    def finish(self) -> None:
        """Raise one error with every problem found, if any was."""
        if self._problems:
            hint = f" {SHOW_HINT}" if self._hidden else ""
            raise GraphError(" Also: ".join(self._problems) + hint)
