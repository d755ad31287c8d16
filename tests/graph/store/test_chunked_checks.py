"""Checks of chunks add up to the check of the whole table."""

import numpy as np
import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph.sources import Checklist, SourceTable
from reldp.graph.store.chunked_checks import ChunkedChecklist, LazyColumn
from reldp.graph.store.source_files import find_files

ROWS = 40


@pytest.fixture
def files(tmp_path):
    lines = "".join(f"e{i},x\n" for i in range(ROWS))
    (tmp_path / "entities.csv").write_text("id,text\n" + lines)
    found = find_files(tmp_path, "entities")
    assert sum(chunk.table.num_rows for chunk in found.chunks()) == ROWS
    return found


def run(checks, rows_of, ids):
    checks.refuse(rows_of("a"), "must be a", "others", "Fix", ids)
    checks.check("empty_text", rows_of("b"), "must be b", "others", "Fix", ids)
    checks.check("missing_ids", rows_of("c"), "must be c", "others", "Fix")


@pytest.mark.parametrize("show_ids", [False, True])
@pytest.mark.parametrize("drop", [frozenset(), frozenset({"empty_text"})])
@pytest.mark.parametrize("size", [1, 3, 7, 40])
def test_counts_order_and_examples_are_those_of_one_check(files, size, drop, show_ids):
    rng = np.random.default_rng(size)
    bad = {name: np.flatnonzero(rng.random(ROWS) < 0.3) for name in "abc"}
    table = pa.table({"id": [f"e{i}" for i in range(ROWS)]})
    source = SourceTable(table=table, name="entities.csv", locate=files.locate, show_ids=show_ids)
    whole = Checklist(source, drop)
    run(whole, bad.__getitem__, lambda row: f"e{row}")
    alive = np.ones(ROWS, dtype=bool)
    parts = ChunkedChecklist(files, drop, alive, show_ids=show_ids)
    for start in range(0, ROWS, size):
        parts.begin(start, table.slice(start, size))
        run(
            parts,
            lambda name, start=start: (
                bad[name][(bad[name] >= start) & (bad[name] < start + size)] - start
            ),
            lambda row, start=start: f"e{start + row}",
        )
    assert np.array_equal(alive, whole.alive)
    assert parts.drops == whole.drops
    assert parts.has_problems
    with pytest.raises(GraphError) as expected:
        whole.finish()
    with pytest.raises(GraphError) as got:
        parts.finish()
    assert str(got.value) == str(expected.value)


def test_nothing_wrong_is_no_error(files):
    checks = ChunkedChecklist(files, frozenset(), np.ones(ROWS, dtype=bool))
    checks.begin(0, pa.table({"id": ["a"]}))
    checks.refuse(np.array([], dtype=int), "rule", "others", "fix")
    assert not checks.has_problems
    checks.finish()


def test_a_lazy_column_reads_the_row_again(files):
    assert LazyColumn(files, "id", 30)[5].as_py() == "e35"
