"""The only graph that a sampler takes."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from reldp.errors import GraphError
from reldp.graph import CappedGraph, EntityGraph


def star(**changes: object) -> EntityGraph:
    pairs = [("hub", f"leaf {i}") for i in range(6)]
    ids = ["hub", *(p[1] for p in pairs)]
    return EntityGraph.from_lists(ids, pairs, text=ids, **changes)  # type: ignore[arg-type]


def test_it_hands_out_what_a_sampler_needs() -> None:
    capped = star().cap_degrees(2, seed=0)
    assert (capped.num_entities, capped.num_relations, capped.max_degree) == (7, 2, 2)
    assert capped.relations.dtype == np.int64
    assert capped.protected.all()
    assert capped.graph.text([0]) == ["hub"]
    assert repr(capped) == "CappedGraph(7 entities, 2 relations, max_degree=2, capped)"


def test_nobody_can_make_one_that_breaks_its_bound() -> None:
    graph = star()
    with pytest.raises(GraphError, match=r"got 5 and a degree of 6\. Use EntityGraph"):
        CappedGraph(
            graph=graph,
            relations=graph.relations,
            max_degree=5,
            degree_bound="capped",
            report=graph.cap_degrees(5, seed=0).report,
        )


def test_the_bound_has_one_of_two_origins() -> None:
    graph = star()
    report = graph.promise_degrees(6).report
    with pytest.raises(
        GraphError, match="`degree_bound` must be 'capped' or 'promised', got 'hoped'"
    ):
        CappedGraph(
            graph=graph,
            relations=graph.relations,
            max_degree=6,
            degree_bound="hoped",
            report=report,
        )


def test_the_fingerprint_tells_relations_bound_and_origin_apart() -> None:
    graph = star()
    one = graph.cap_degrees(2, seed=0)
    assert one.fingerprint == star().cap_degrees(2, seed=0).fingerprint
    others = [
        graph.cap_degrees(2, seed=1),
        graph.cap_degrees(3, seed=0),
        graph.cap_degrees(6, seed=0),
        graph.promise_degrees(6),
        star(protected=[False] + [True] * 6).cap_degrees(2, seed=0),
    ]
    assert len({one.fingerprint, *(other.fingerprint for other in others)}) == 6


def test_the_report_counts() -> None:
    report = star().cap_degrees(2, seed=0).report
    assert report.to_dict() == {
        "max_degree": 2,
        "num_protected": 7,
        "num_relations_before": 6,
        "num_relations": 2,
        "num_over": 1,
        "largest_degree_before": 6,
        "num_dropped": 4,
        "kept_share": 2 / 6,
    }
    assert str(report) == (
        "kept 2 of 6 relations (33.3%) at max_degree 2; 1 of 7 protected entities had more, the largest 6"
    )


def test_what_is_left_remembers_what_was_dropped() -> None:
    left = star().cap_degrees(2, seed=0).to_graph()
    assert left.record.drops == {"over_max_degree": 4}
    assert left.record.capped_at == 2
    promised = star().promise_degrees(6).to_graph()
    assert promised.record.capped_at is None
    assert promised == star()


def test_a_capped_graph_can_be_sent_to_another_process() -> None:
    capped = star().cap_degrees(2, seed=0)
    again = pickle.loads(pickle.dumps(capped))  # noqa: S301  # our own bytes
    assert again.fingerprint == capped.fingerprint
    assert not again.relations.flags.writeable


def test_a_written_graph_reads_back_as_capped(tmp_path: Path) -> None:
    capped = star().cap_degrees(2, seed=0)
    capped.write(tmp_path / "capped")
    again = EntityGraph.read(tmp_path / "capped").promise_degrees(2)
    assert again.degree_bound == "capped"
    assert np.array_equal(again.relations, capped.relations)
