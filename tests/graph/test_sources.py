"""Complaints: one per row, with examples, and nothing dropped unasked."""

import numpy as np
import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph.sources import DROPPABLE, Checklist, SourceTable, drop_kinds


def checklist(*drop: str, rows: int = 6) -> Checklist:
    source = SourceTable(table=pa.table({"id": list(range(rows))}), name="things.csv")
    return Checklist(source, drop_kinds(drop))


def complain(checks: Checklist, kind: str, rows: list[int]) -> None:
    checks.check(kind, np.array(rows, dtype=int), "must be good", "bad rows", "Mend them")


def test_a_problem_says_what_how_many_where_and_what_to_do() -> None:
    checks = checklist()
    complain(checks, "unknown_ids", [0, 1, 2, 3, 4, 5])
    with pytest.raises(GraphError) as caught:
        checks.finish()
    assert str(caught.value) == (
        "things.csv must be good, got 6 bad rows (row 1, row 2, row 3, row 4, row 5, ...). "
        "Mend them, or drop them with drop={'unknown_ids'}."
    )


def test_what_may_be_dropped_is_dropped_and_counted() -> None:
    checks = checklist("unknown_ids")
    complain(checks, "unknown_ids", [1, 2])
    checks.finish()
    assert checks.drops == {"unknown_ids": 2}
    assert checks.alive.tolist() == [True, False, False, True, True, True]


def test_a_row_is_complained_about_once() -> None:
    checks = checklist("unknown_ids")
    complain(checks, "unknown_ids", [1, 2])
    complain(checks, "self_relations", [2])
    checks.finish()
    complain(checks, "self_relations", [2, 3])
    with pytest.raises(GraphError, match=r"got 1 bad rows \(row 4\)"):
        checks.finish()


def test_problems_are_told_together() -> None:
    checks = checklist()
    complain(checks, "unknown_ids", [1])
    checks.refuse(
        np.array([3]), "must be clear", "unclear rows", "Say it", lambda row: f"no. {row}"
    )
    with pytest.raises(
        GraphError, match=r"bad rows.* Also: .* unclear rows \(row 4\)\. Say it\. Set `show_ids`"
    ):
        checks.finish()


def test_no_problem_is_no_error() -> None:
    checks = checklist()
    complain(checks, "unknown_ids", [])
    checks.refuse(np.array([], dtype=int), "must be clear", "unclear rows", "Say it")
    checks.finish()
    assert checks.drops == {}


def test_kinds_to_drop_are_known_ones() -> None:
    assert drop_kinds(DROPPABLE) == set(DROPPABLE)
    assert drop_kinds("unknown_ids") == {"unknown_ids"}
    with pytest.raises(GraphError, match="got 'unknown'"):
        drop_kinds(["unknown_ids", "unknown"])


def test_kinds_that_are_no_words_are_refused():
    for kinds in ([["unknown_ids"]], [3], ["unknown_ids", None]):
        with pytest.raises(GraphError, match="`drop` must name kinds among"):
            drop_kinds(kinds)
