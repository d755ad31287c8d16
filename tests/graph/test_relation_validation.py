"""Tables of relations with types, and those that are refused."""

import numpy as np
import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph, relation_validation
from reldp.graph.record import GraphRecord
from reldp.graph.relation_validation import Relations, checked_relations, repeats
from reldp.graph.sources import SourceTable
from reldp.graph.validation import checked_entities

ENTITIES = checked_entities(
    SourceTable(table=pa.table({"id": ["a", "b", "c"], "text": ["x", "y", "z"]}), name="entities"),
    frozenset(),
)


def checked(
    rows: list[tuple[str, object, str]], *drop: str, declared: tuple[str, ...] = ()
) -> Relations:
    columns = {
        "source": [row[0] for row in rows],
        "type": [row[1] for row in rows],
        "target": [row[2] for row in rows],
    }
    table = SourceTable(table=pa.table(columns), name="relations")
    return checked_relations(table, ENTITIES, frozenset(drop), declared)


def test_the_key_is_source_type_and_target() -> None:
    found = checked([("a", "t", "b"), ("b", "t", "a"), ("a", "s", "b")])
    assert found.pairs.tolist() == [[0, 1], [1, 0], [0, 1]]
    assert found.type_names == ("s", "t")
    assert found.types.tolist() == [1, 1, 0]


def test_exact_repeats_are_duplicates() -> None:
    rows = [("a", "t", "b"), ("b", "t", "a"), ("a", "t", "b"), ("a", "t", "b")]
    with pytest.raises(GraphError, match=r"a source, type and target once, got 2 .*rows? 3, row 4"):
        checked(rows)
    found = checked(rows, "duplicate_relations")
    assert found.pairs.tolist() == [[0, 1], [1, 0]]
    assert found.drops == {"duplicate_relations": 2}


@pytest.mark.parametrize("blank", [None, "", "  "])
def test_relations_without_a_type_among_others_are_refused_or_dropped(blank) -> None:
    rows = [("a", "t", "b"), ("b", blank, "c")]
    with pytest.raises(GraphError, match=r"every relation a type .*got 1 .*\(row 2\)"):
        checked(rows)
    found = checked(rows, "missing_types")
    assert found.type_names == ("t",)
    assert found.drops == {"missing_types": 1}


def test_self_relations_are_refused_whatever_their_type() -> None:
    with pytest.raises(GraphError, match="must relate two different entities"):
        checked([("a", "t", "a")])


def test_types_of_dropped_relations_are_no_types() -> None:
    found = checked([("a", "t", "b"), ("a", "secret", "q")], "unknown_ids")
    assert found.type_names == ("t",)
    assert found.types.tolist() == [0]


def test_declared_types_are_the_only_ones() -> None:
    rows = [("a", "t", "b")]
    assert checked(rows, declared=("s", "t")).type_names == ("s", "t")
    assert checked(rows, declared=("s", "t")).types.tolist() == [1]
    with pytest.raises(GraphError, match=r"only the types that the graph's record declares, got 1"):
        checked(rows, declared=("s",))
    bare = SourceTable(table=pa.table({"source": ["a"], "target": ["b"]}), name="relations")
    with pytest.raises(GraphError, match="must have a column 'type'"):
        checked_relations(bare, ENTITIES, frozenset(), ("s",))


def test_other_columns_beside_a_type_are_refused_or_dropped() -> None:
    relations = {"source": ["a"], "target": ["b"], "type": ["t"], "weight": [1.5]}
    entities = {"id": ["a", "b"], "text": ["x", "y"]}
    with pytest.raises(GraphError, match="'source', 'target' and 'type' only"):
        EntityGraph.from_arrow(entities, relations)
    graph = EntityGraph.from_arrow(entities, relations, drop={"relation_columns"})
    assert graph.type_names == ("t",)
    assert graph.record.drops == {"relation_columns": 1}


def test_no_rows_with_a_column_of_types_is_a_graph_without_a_type() -> None:
    empty = pa.array([], pa.string())
    table = pa.table({"source": empty, "target": empty, "type": empty})
    graph = EntityGraph.from_arrow({"id": ["a"], "text": ["x"]}, table)
    assert graph.type_names == ()
    assert graph.relation_types.tolist() == []


def test_damaged_declarations_are_refused() -> None:
    entities, relations = {"id": ["a"], "text": ["x"]}, {"source": [], "target": [], "type": []}
    for names, words in ((("t", "t"), "each type once"), (("",), "not blank")):
        with pytest.raises(GraphError, match=words):
            EntityGraph.from_arrow(entities, relations, record=GraphRecord(relation_types=names))


@pytest.mark.parametrize("high", [1, 3, 40, 10**12])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 300])
def test_repeats_are_all_rows_but_the_first_of_each_key(count, high, monkeypatch) -> None:
    monkeypatch.setattr(relation_validation, "_CHUNK", 7)
    keys = np.random.default_rng(count).integers(-high, high, count)
    seen: set[int] = set()
    expected = [row for row, key in enumerate(keys.tolist()) if key in seen or seen.add(key)]
    assert repeats(keys).tolist() == expected


def test_a_table_in_chunks_gives_the_same_relations_and_counts() -> None:
    rng = np.random.default_rng(5)
    ends = rng.choice(["a", "b", "c", "q", ""], (2, 60)).tolist()
    whole = pa.table({"source": ends[0], "target": ends[1]})
    chunked = pa.concat_tables([whole.slice(0, 7), whole.slice(7, 0), whole.slice(7)])
    drop = frozenset({"duplicate_relations", "missing_ids", "self_relations", "unknown_ids"})
    one, other = (
        checked_relations(SourceTable(table=table, name="relations"), ENTITIES, drop)
        for table in (whole, chunked)
    )
    assert one.pairs.tolist() == other.pairs.tolist()
    assert one.drops == other.drops
    assert {frozenset(pair) for pair in one.pairs.tolist()} == {
        frozenset(pair) for pair in ((0, 1), (0, 2), (1, 2))
    }
    assert one.drops["duplicate_relations"] + sum(
        one.drops[kind] for kind in drop - {"duplicate_relations"}
    ) == 60 - len(one.pairs)


def test_rows_that_are_out_repeat_nothing_and_are_repeated_by_nothing() -> None:
    """An unknown id has code -1: without a key of its own, q-a and q-b would look like other pairs."""
    rows = {"source": ["q", "q", "a", "a", "q", "b"], "target": ["a", "a", "b", "a", "b", "a"]}
    drop = frozenset({"duplicate_relations", "self_relations", "unknown_ids"})
    found = checked_relations(SourceTable(table=pa.table(rows), name="relations"), ENTITIES, drop)
    assert found.pairs.tolist() == [[0, 1]]
    assert found.drops == {"unknown_ids": 3, "self_relations": 1, "duplicate_relations": 1}


def test_a_graph_takes_the_checked_pairs_without_a_copy() -> None:
    table = SourceTable(table=pa.table({"source": ["a"], "target": ["b"]}), name="relations")
    pairs = checked_relations(table, ENTITIES, frozenset()).pairs
    assert not pairs.flags.writeable
    assert EntityGraph(entities=ENTITIES.table, relations=pairs).relations is pairs
