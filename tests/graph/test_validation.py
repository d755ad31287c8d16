"""Tables that form a graph, and those that do not."""

import gc
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reldp.errors import GraphError
from reldp.graph import relation_validation
from reldp.graph.relation_validation import checked_relations
from reldp.graph.sources import DROPPABLE, SourceTable
from reldp.graph.validation import Entities, checked_entities


def source(name: str, typed: bool = True, **columns: object) -> SourceTable:
    return SourceTable(table=pa.table(columns), name=name, typed=typed)


def checked_pairs(
    table: SourceTable, entities: Entities, drop: frozenset[str]
) -> tuple[np.ndarray, dict[str, int]]:
    found = checked_relations(table, entities, drop)
    assert found.types is None
    assert found.type_names == ()
    return found.pairs, found.drops


ENTITIES = source("entities", id=["a", "b", "c"], text=["x", "y", "z"])


def test_columns_come_in_one_order() -> None:
    given = source("entities", more=[1], protected=[True], text=["x"], features=[[1.0]], id=["a"])
    table = checked_entities(given, frozenset()).table
    assert table.column_names == ["id", "text", "features", "protected", "more"]


def test_dropped_entities_take_their_relations_with_them() -> None:
    given = source("entities", id=["a", "b", "b", "c", None], text=["x", "y", "again", " ", "q"])
    kinds = frozenset({"duplicate_ids", "empty_text", "missing_ids"})
    entities = checked_entities(given, kinds)
    assert entities.table.column("id").to_pylist() == ["a", "b"]
    assert entities.drops == {"duplicate_ids": 1, "empty_text": 1, "missing_ids": 1}
    endpoints = source("relations", source=["a", "b", "c"], target=["b", "c", "a"])
    relations, drops = checked_pairs(endpoints, entities, kinds)
    assert relations.tolist() == [[0, 1]]
    assert drops == {"relations_of_dropped_entities": 2}


def test_dropping_everyone_is_refused() -> None:
    given = source("entities", id=["a"], text=[""])
    with pytest.raises(GraphError, match="at least one entity, all were dropped"):
        checked_entities(given, frozenset({"empty_text"}))


def test_a_row_with_several_faults_is_dropped_once() -> None:
    entities = checked_entities(ENTITIES, frozenset())
    endpoints = source("relations", source=["a", None, "q", "q"], target=["b", "q", "q", None])
    kinds = frozenset({"missing_ids", "unknown_ids"})
    relations, drops = checked_pairs(endpoints, entities, kinds)
    assert relations.tolist() == [[0, 1]]
    assert drops == {"missing_ids": 2, "unknown_ids": 1}


def test_lookups_in_slices_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relation_validation, "_SLICE", 2)
    entities = checked_entities(ENTITIES, frozenset())
    endpoints = source("relations", source=["a", "b", "a"], target=["b", "c", "c"])
    assert checked_pairs(endpoints, entities, frozenset())[0].tolist() == [
        [0, 1],
        [1, 2],
        [0, 2],
    ]


@pytest.mark.parametrize("typed", [(True, False), (False, True), (False, False)])
def test_ids_without_a_type_are_compared_as_written(typed: tuple[bool, bool]) -> None:
    entities = checked_entities(source("e", typed[0], id=[7, 8], text=["x", "y"]), frozenset())
    endpoints = source("r", typed[1], source=["7"], target=["8"])
    assert checked_pairs(endpoints, entities, frozenset())[0].tolist() == [[0, 1]]


def naive(rows: list[tuple[str, str]], ids: list[str]) -> tuple[list[list[int]], dict[str, int]]:
    """Row by row, with sets."""
    seen, kept, drops = set(), [], dict[str, int]()

    def drop(kind: str) -> None:
        drops[kind] = drops.get(kind, 0) + 1

    for one, other in rows:
        if not one or not other:
            drop("missing_ids")
        elif one not in ids or other not in ids:
            drop("unknown_ids")
        elif one == other:
            drop("self_relations")
        elif frozenset((one, other)) in seen:
            drop("duplicate_relations")
        else:
            seen.add(frozenset((one, other)))
            kept.append([ids.index(one), ids.index(other)])
    return kept, drops


@given(rows=st.lists(st.tuples(*[st.sampled_from(["a", "b", "c", "d", "q", ""])] * 2), max_size=25))
@settings(max_examples=150, deadline=None)
def test_dropping_everything_wrong_agrees_with_a_plain_loop(rows: list[tuple[str, str]]) -> None:
    ids = ["a", "b", "c", "d"]
    entities = checked_entities(source("entities", id=ids, text=["x"] * 4), frozenset())
    endpoints = {
        name: pa.array([r[i] for r in rows], pa.string())
        for i, name in enumerate(("source", "target"))
    }
    relations, drops = checked_pairs(
        source("relations", **endpoints), entities, frozenset(DROPPABLE)
    )
    assert (relations.tolist(), drops) == naive(rows, ids)
    if drops:
        with pytest.raises(GraphError):
            checked_relations(source("relations", **endpoints), entities, frozenset())


def test_a_million_entities_are_no_million_python_objects() -> None:
    """What is left of checking 100,000 entities and relations is fewer than 1,000 objects."""
    ids = pa.array(np.arange(100_000)).cast(pa.string())
    text = pa.array(["some text"]).take(pa.array(np.zeros(100_000, dtype=np.int64)))
    endpoints = source("relations", source=ids.slice(0, 99_999), target=ids.slice(1))
    given = source("entities", id=ids, text=text)
    checked_entities(given, frozenset())
    gc.collect()
    before = sys.getallocatedblocks()
    entities = checked_entities(given, frozenset())
    relations, _ = checked_pairs(endpoints, entities, frozenset())
    assert sys.getallocatedblocks() - before < 1000
    assert len(relations) == 99_999
