r"""The list of what is wrong with a table, for tables that are checked some rows at a time.

The same checks in the same order for every chunk give the same error as one check of all rows: counts are
added up, the first offenders are those of the first chunks that have some, and problems stand in the order
of their checks.

Public: `ChunkedChecklist`, `LazyColumn`.

>>> import numpy as np, pyarrow as pa, tempfile, pathlib
>>> from reldp.graph.store.source_files import find_files
>>> with tempfile.TemporaryDirectory() as folder:
...     _ = (pathlib.Path(folder) / "entities.csv").write_text("id,text\na,x\na,y\n")
...     files = find_files(folder, "entities")
...     checks = ChunkedChecklist(files, frozenset(), np.ones(2, dtype=bool))
...     checks.begin(1, pa.table({"id": ["a"]}))
...     checks.check("duplicate_ids", np.array([0]), "must not repeat an id", "repeats", "Rename")
...     checks.finish()
Traceback (most recent call last):
reldp.errors.GraphError: entities.csv must not repeat an id, got 1 repeats (line 3). Rename, or drop ...
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from reldp.graph.columns import id_column
from reldp.graph.sources import Checklist, SourceTable, problem_words
from reldp.graph.store.source_files import SourceFiles

__all__ = ["ChunkedChecklist", "LazyColumn"]


_SECOND_PASS = 1000  # more than the checks of a pass


@dataclass(kw_only=True)
class _Problem:
    """One rule that rows break, in all chunks so far."""

    rule: str
    offenders: str
    fix: str
    count: int = 0
    examples: list[str] = field(default_factory=list)


class ChunkedChecklist(Checklist):
    """Collect what is wrong with the rows of one table, chunk by chunk.

    Attributes:
        source: The rows of the current chunk.
        alive: (rows of the chunk,) a view: which of them are still in.
        has_problems: Whether `finish` will raise.
    """

    def __init__(
        self,
        files: SourceFiles,
        drop: frozenset[str],
        alive: npt.NDArray[np.bool_],
        *,
        show_ids: bool = False,
    ) -> None:
        """Begin a list.

        Args:
            files: The table.
            drop: Kinds of damage to drop and count.
            alive: (rows,) which rows of the table are still in; changed in place.
            show_ids: Whether errors may show ids.
        """
        self._files = files
        self._show_ids = show_ids
        empty = SourceTable(
            table=files.empty_table(), name=files.name, drops=files.drops, show_ids=show_ids
        )
        super().__init__(empty, drop)
        self._all_alive = alive
        self._noted: dict[int, _Problem] = {}
        self._number = 0
        self._checking = False

    @property
    def has_problems(self) -> bool:
        """Whether `finish` will raise."""
        return bool(self._noted)

    def follow(self, alive: npt.NDArray[np.bool_]) -> None:
        """Set which rows of the table are still in, once their number is known; changed in place."""
        self._all_alive = alive

    def begin(
        self, start: int, table: Any, num_rows: int | None = None, *, after: bool = False
    ) -> None:
        """Go on to the next chunk.

        Args:
            start: Number of its first row.
            table: Arrow table of what the checks need of it.
            num_rows: Number of rows (default: the table's).
            after: Whether its checks come after all checks of an earlier pass.
        """
        count = table.num_rows if num_rows is None else num_rows

        def locate(rows: Sequence[int]) -> list[str]:
            return self._files.locate([start + row for row in rows])

        self.source = SourceTable(
            table=table,
            name=self._files.name,
            typed=self._files.typed,
            locate=locate,
            show_ids=self._show_ids,
        )
        self.alive = self._all_alive[start : start + count]
        self._number = _SECOND_PASS if after else 0

    def check(
        self,
        kind: str,
        rows: npt.NDArray[np.integer[Any]],
        rule: str,
        offenders: str,
        fix: str,
        describe: Callable[[int], str] | None = None,
    ) -> None:
        """Note rows of the chunk that break a rule, as `Checklist.check` does."""
        self._number += 1
        self._checking = True  # what it refuses has the number of this check
        super().check(kind, rows, rule, offenders, fix, describe)
        self._checking = False

    def refuse(
        self,
        rows: npt.NDArray[np.integer[Any]],
        rule: str,
        offenders: str,
        fix: str,
        describe: Callable[[int], str] | None = None,
    ) -> None:
        """Note rows of the chunk that break a rule and that nobody may ask to drop."""
        self._number += not self._checking
        if not len(rows):
            return
        problem = self._noted.setdefault(
            self._number, _Problem(rule=rule, offenders=offenders, fix=fix)
        )
        problem.count += len(rows)
        wanted = self.max_examples - len(problem.examples)
        problem.examples += self.examples(rows, describe, wanted)

    def finish(self) -> None:
        """Raise one error with every problem found, if any was."""
        for _, problem in sorted(self._noted.items()):
            self._problems.append(
                problem_words(
                    self._files.name,
                    problem.rule,
                    problem.count,
                    problem.offenders,
                    problem.examples,
                    problem.fix,
                    more=problem.count > len(problem.examples),
                )
            )
        super().finish()


class LazyColumn:
    """Ids that are read again for the few rows that an error shows."""

    def __init__(self, files: SourceFiles, name: str, start: int) -> None:
        self._files = files
        self._name = name
        self._start = start

    def __getitem__(self, row: int) -> Any:
        column = self._files.value(self._start + row, self._name)
        return id_column(column, self._files.name, self._name)[0]
