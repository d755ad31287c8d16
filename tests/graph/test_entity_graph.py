"""The graph itself: what it holds, hands out and refuses."""

import dataclasses
import pickle
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.record import GraphRecord

TEXTS = ["anna", "bob", "carl", "dora"]


def small(**changes: object) -> EntityGraph:
    values: dict[str, object] = {"text": TEXTS} | changes
    return EntityGraph.from_lists(
        ["a", "b", "c", "d"], [("a", "b"), ("c", "a"), ("d", "a")], **values
    )  # type: ignore[arg-type]


def test_sizes_ids_text_and_relations() -> None:
    graph = small()
    assert (graph.num_entities, graph.num_relations) == (4, 3)
    assert graph.ids.to_pylist() == ["a", "b", "c", "d"]
    assert graph.relations.tolist() == [[0, 1], [2, 0], [3, 0]]
    assert graph.text() == TEXTS
    assert graph.text(np.array([3, 0, 3])) == ["dora", "anna", "dora"]
    assert graph.text([]) == []
    assert list(graph.text_batches(3)) == [TEXTS[:3], TEXTS[3:]]
    assert graph.degrees.tolist() == [3, 1, 1, 1]
    assert graph.features is None


def test_features_are_float32_and_stand_for_text() -> None:
    graph = small(text=None, features=[[1, 2], [3, 4], [5, 6], [7, 8.5]])
    assert graph.features is not None
    assert graph.features.dtype == np.float32
    assert graph.features.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8.5]]
    with pytest.raises(GraphError, match="must have a column 'text', got none"):
        graph.text([0])


def test_everyone_is_protected_unless_the_data_say_otherwise() -> None:
    assert small().protected.tolist() == [True] * 4
    assert small(protected=[True, False, True, False]).protected.tolist() == [True, False] * 2


def test_nothing_can_be_changed() -> None:
    graph = small(features=np.zeros((4, 2)))
    for array in (graph.relations, graph.protected, graph.degrees, graph.features):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.record = GraphRecord()  # type: ignore[misc]
    capped = graph.cap_degrees(1, seed=0)
    with pytest.raises(ValueError, match="read-only"):
        capped.relations[0] = 1


def test_the_callers_array_is_left_alone() -> None:
    relations = np.array([[0, 1]])
    graph = small().replace(relations=relations, record=GraphRecord())
    relations[0] = [2, 3]
    assert graph.relations.tolist() == [[0, 1]]


def test_further_columns_are_kept() -> None:
    table = pa.table(
        {"id": [1, 2], "text": ["x", "y"], "domain": ["p", None], "year": [1999, 2001]}
    )
    graph = EntityGraph.from_arrow(table, pa.table({"source": [1], "target": [2]}))
    assert graph.columns == ["id", "text", "domain", "year"]
    assert graph.column("domain") == ["p", None]
    assert graph.column("year", [1]) == [2001]
    with pytest.raises(GraphError, match="`name` must be one of the graph's columns, got 'size'"):
        graph.column("size")


@pytest.mark.parametrize("indices", [[4], [-1], [0, 17]])
def test_indices_that_are_no_entities_are_refused(indices: list[int]) -> None:
    with pytest.raises(GraphError, match=r"`indices` must lie in 0\.\.3"):
        small().text(indices)


def test_equal_content_is_an_equal_graph_and_the_record_does_not_count() -> None:
    assert small() == small(record=GraphRecord(source="elsewhere"))
    assert hash(small()) == hash(small())
    assert small() != small(text=["anna", "bob", "carl", "DORA"])
    assert small() != "a graph"


def test_capping_reports_and_remembers() -> None:
    capped = small().cap_degrees(2, seed=1)
    assert (capped.num_relations, capped.degree_bound, capped.max_degree) == (2, "capped", 2)
    assert capped.report.num_over == 1
    assert capped.report.largest_degree_before == 3
    assert capped.relations.tolist() == [
        r for r in small().relations.tolist() if r in capped.relations.tolist()
    ]


def test_a_promise_is_checked() -> None:
    promised = small().promise_degrees(3)
    assert (promised.degree_bound, promised.num_relations) == ("promised", 3)
    with pytest.raises(
        GraphError, match=r"got 2 and 1 entities with more \(row 1 with 3\)\. Use cap_deg"
    ):
        small().promise_degrees(2)


def test_a_promise_does_not_hold_for_unprotected_entities() -> None:
    graph = small(protected=[False, True, True, True])
    assert graph.promise_degrees(1).num_relations == 3
    assert graph.cap_degrees(1, seed=3).num_relations == 3


def test_a_graph_that_was_capped_cannot_promise_again() -> None:
    """Its bound came about by dropping, and the guarantee says so."""
    capped = small().cap_degrees(2, seed=1).to_graph()
    assert capped.record.capped_at == 2
    assert capped.promise_degrees(2).degree_bound == "capped"


@pytest.mark.parametrize("max_degree", [0, -1, 1.5, True, "5", None])
def test_a_bound_is_a_positive_integer(max_degree: object) -> None:
    with pytest.raises(GraphError, match="`max_degree` must be an integer of at least 1 "):
        small().cap_degrees(max_degree, seed=0)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="`max_degree` must be an integer of at least 1 "):
        small().promise_degrees(max_degree)  # type: ignore[arg-type]


def test_selected_entities_are_counted_anew() -> None:
    graph = small().select_entities(np.array([True, False, True, True]))
    assert graph.text() == ["anna", "carl", "dora"]
    assert graph.relations.tolist() == [[1, 0], [2, 0]]
    assert graph.record.drops == {"relations_across_parts": 1}


@pytest.mark.parametrize("mask", [np.zeros(4, bool), np.ones(3, bool), np.ones(4, int)])
def test_a_mask_selects_someone(mask: np.ndarray) -> None:
    with pytest.raises(GraphError, match="`mask` must"):
        small().select_entities(mask)


@pytest.mark.parametrize("relations", [np.zeros((2, 3), np.int64), np.zeros((2, 2), np.int32)])
def test_relations_are_pairs_of_indices(relations: np.ndarray) -> None:
    with pytest.raises(GraphError, match=r"`relations` must be an \(m, 2\) int64 array"):
        small().replace(relations=relations, record=GraphRecord())


@pytest.mark.parametrize("row", [[0, 4], [-1, 0]])
def test_relations_stay_inside_the_graph(row: list[int]) -> None:
    with pytest.raises(GraphError, match=r"`relations` must hold entity indices in 0\.\.3"):
        small().replace(relations=np.array([row]), record=GraphRecord())


def test_a_graph_can_be_sent_to_another_process() -> None:
    graph = small(features=np.eye(4))
    again = pickle.loads(pickle.dumps(graph))  # noqa: S301  # our own bytes
    assert again == graph
    assert again.record == graph.record


def test_a_graph_without_relations_is_a_graph() -> None:
    graph = EntityGraph.from_lists([1, 2], [], text=["x", "y"])
    assert graph.num_relations == 0
    assert graph.cap_degrees(1, seed=0).num_relations == 0


def test_graphs_need_no_torch() -> None:
    code = (
        "import sys; from reldp.graph import EntityGraph; "
        "EntityGraph.from_lists([1, 2], [(1, 2)], text=['x', 'y']).cap_degrees(1, seed=0).fingerprint; "
        "print([m for m in ('torch', 'networkx', 'transformers', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_relation_of_more_than_two_ids_is_refused_without_showing_them():
    """A third id was left out without a word."""
    for relation in (("a", "bob@example.com", "b"), ("bob@example.com",)):
        with pytest.raises(GraphError, match="`relations` must be pairs of ids") as caught:
            EntityGraph.from_lists(["a", "bob@example.com"], [relation], text=["x", "y"])
        assert "bob" not in str(caught.value)


def test_a_graph_keeps_its_features_when_the_array_changes():
    features = np.ones((3, 2), np.float32)
    graph = EntityGraph.from_lists([0, 1, 2], [(0, 1)], features=features)
    features[:] = 7
    assert (graph.features == 1).all()
