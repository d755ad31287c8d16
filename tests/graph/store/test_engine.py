"""DuckDB as the builder uses it."""

import builtins
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph.store.engine import opened
from reldp.graph.store.settings import BuildSettings

TEXTS = ["a", "A", "a ", "é", "e\u0301", "", "7", "07", "\U0001f600", "a\x7f"]


@pytest.fixture
def engine(tmp_path):
    with opened(BuildSettings(memory_limit="200MB", threads=1), tmp_path) as made:
        yield made


def batch(ids, rows):
    return pa.record_batch([pa.array(ids, pa.large_string()), pa.array(rows)], names=["id", "row"])


def test_ids_are_compared_byte_by_byte(engine):
    engine.keep_ids(pa.large_string(), iter([batch(TEXTS, list(range(len(TEXTS))))]))
    assert engine.repeated_rows().tolist() == []
    asked = pa.record_batch(
        [pa.array(range(12)), pa.array([*TEXTS, "b", None], pa.large_string())],
        names=["place", "id"],
    )
    found = dict(
        pair
        for places, rows in engine.lookups(pa.large_string(), iter([asked]))
        for pair in zip(places.tolist(), rows.tolist(), strict=True)
    )
    assert found == {i: i for i in range(len(TEXTS))}


def test_repeats_are_all_rows_but_the_first_and_are_forgotten(engine):
    ids = np.random.default_rng(0).integers(0, 50, 300)
    engine.keep_ids(pa.large_string(), iter([batch([str(i) for i in ids], list(range(300)))]))
    first = {i: row for row, i in reversed(list(enumerate(ids.tolist())))}
    assert engine.repeated_rows().tolist() == sorted(set(range(300)) - set(first.values()))
    assert engine.repeated_rows().tolist() == []


def test_integers_become_their_text(engine):
    ids = pa.record_batch([pa.array([7, -3]), pa.array([0, 1])], names=["id", "row"])
    engine.keep_ids(pa.int64(), iter([ids]))
    engine.ids_as_text()
    asked = pa.record_batch(
        [pa.array([0, 1, 2]), pa.array(["-3", "7", "07"], pa.large_string())], names=["place", "id"]
    )
    found = [rows.tolist() for _, rows in engine.lookups(pa.large_string(), iter([asked]))]
    assert sorted(row for rows in found for row in rows) == [0, 1]


def test_groups_are_counted(engine):
    texts = ["x", "y", "x", "z", "x", "y"]
    sizes = Counter(texts)
    shared = sum(n for n in sizes.values() if n > 1)
    assert engine.group_sizes(iter([batch(texts, list(range(6)))])) == (3, shared, 3)


def test_an_error_in_the_source_is_raised_as_it_is(tmp_path):
    def broken():
        yield batch(["a"], [0])
        raise GraphError("the source is broken")

    with (
        pytest.raises(GraphError, match="the source is broken"),
        opened(BuildSettings(), tmp_path) as made,
    ):
        made.keep_ids(pa.large_string(), broken())


def test_ctrl_c_while_the_source_is_read_is_raised_as_it_is(tmp_path):
    def stopped():
        yield batch(["a"], [0])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), opened(BuildSettings(), tmp_path) as made:
        made.keep_ids(pa.large_string(), stopped())


def test_a_query_that_a_signal_interrupted_is_an_interruption(tmp_path):
    """DuckDB discards what the signal's handler raised and gives an error of its own."""
    with pytest.raises(KeyboardInterrupt), opened(BuildSettings(), tmp_path):
        raise RuntimeError("Query interrupted")


def test_other_errors_of_the_engine_stay(tmp_path):
    with pytest.raises(RuntimeError, match="other"), opened(BuildSettings(), tmp_path):
        raise RuntimeError("other")


def test_what_does_not_fit_into_memory_goes_to_files(tmp_path):
    """1.5 million ids of 60 characters are more than the engine's 100 MB."""
    settings = BuildSettings(memory_limit="200MB", threads=1)
    count, spilled = 1_500_000, []

    def ids(start, stop):
        numbers = pa.array(np.arange(start, stop) * 7_368_787 % 9_999_999_967)
        return pa.compute.utf8_lpad(numbers.cast(pa.large_string()), 60, "0")

    def kept():
        for start in range(0, count, 100_000):
            rows = pa.array(np.arange(start, start + 100_000))
            yield pa.record_batch([ids(start, start + 100_000), rows], names=["id", "row"])

    def asked():
        for start in range(0, count, 100_000):
            places = pa.array(np.arange(start, start + 100_000))
            yield pa.record_batch([places, ids(start, start + 100_000)], names=["place", "id"])
            spilled.append(any(path.stat().st_size for path in tmp_path.rglob("*")))

    with opened(settings, tmp_path) as made:
        made.keep_ids(pa.large_string(), kept())
        assert made.repeated_rows().tolist() == []
        right = 0
        for places, rows in made.lookups(pa.large_string(), asked()):
            right += int((places == rows).sum())
    assert right == count
    assert any(spilled)


def test_a_join_keeps_the_ids_in_memory_and_never_the_stream(engine):
    """The optimizer takes a stream for one row."""
    engine.keep_ids(pa.large_string(), iter([batch(["a"] * 1, [0])]))
    schema = pa.schema([("place", pa.int64()), ("id", pa.large_string())])
    with engine._given(schema, iter([])):
        query = "EXPLAIN SELECT place, row FROM given JOIN ids USING (id)"
        [(_, plan)] = engine._connection.sql(query).fetchall()
    assert plan.lower().index("arrow") < plan.index("main.ids")


def test_the_largest_memory_limit_is_one_that_the_engine_takes(tmp_path):
    with opened(BuildSettings(memory_limit=2**50, threads=1), tmp_path) as made:
        made.keep_ids(pa.large_string(), iter([batch(["a"], [0])]))
        assert made.repeated_rows().tolist() == []


def test_without_duckdb_the_error_says_what_to_install(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *more):
        if name == "duckdb":
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    with (
        pytest.raises(GraphError, match=r'pip install "reldp\[large\]"'),
        opened(BuildSettings(), tmp_path),
    ):
        pass
