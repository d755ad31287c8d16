import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reldp.graph import EntityGraph
from reldp.graph.inspection import inspect_graph

# a is a hub of degree 5; e and f share a text; g is alone.
HUB = EntityGraph.from_lists(
    list("abcdefg"),
    [("a", "b"), ("a", "c"), ("a", "d"), ("a", "e"), ("a", "f"), ("b", "c")],
    text=["one", "one two", "three", "four", "same words here", "same words here", "seven"],
)


def test_sizes_degrees_and_texts_are_those_counted_by_hand() -> None:
    report = inspect_graph(HUB)
    assert (report.num_entities, report.num_relations, report.num_protected) == (7, 6, 7)
    assert (report.degrees.largest, report.degrees.median, report.degrees.num_isolated) == (5, 1, 1)
    assert report.degrees.mean == pytest.approx(12 / 7)
    assert [(bar.label, bar.num_entities) for bar in report.degrees.bars] == [
        ("0", 1),
        ("1", 3),
        ("2", 2),
        ("3-4", 0),
        ("5-8", 1),
    ]
    assert report.texts is not None
    assert (report.texts.num_distinct, report.texts.num_sharing) == (6, 2)
    assert (report.texts.largest_group, report.texts.longest_words) == (2, 3)
    assert report.texts.median_words == 1


def test_caps_say_what_each_bound_keeps_and_whom_it_leaves_alone() -> None:
    report = inspect_graph(HUB)
    assert [cap.max_degree for cap in report.caps] == [1, 2, 5, 10, 20]
    two, five = report.caps[1:3]
    assert two.num_relations == HUB.cap_degrees(2, seed=0).num_relations
    assert two.share == pytest.approx(two.num_relations / 6)
    assert two.num_over == 1
    assert two.num_left_alone in (2, 3)
    assert (five.num_relations, five.num_over, five.num_left_alone) == (6, 0, 0)


def test_unprotected_entities_do_not_count_towards_the_bound() -> None:
    protected = [False] + [True] * 6
    graph = EntityGraph.from_lists(
        list("abcdefg"),
        [("a", x) for x in "bcdefg"],
        text=["t"] * 7,
        protected=protected,
    )
    report = inspect_graph(graph, caps=(2,))
    assert (report.degrees.largest, report.degrees.largest_protected) == (6, 1)
    assert report.num_protected == 6
    assert report.caps[0].num_relations == 6


def test_a_graph_of_features_has_no_texts_to_count() -> None:
    graph = EntityGraph.from_lists([1, 2], [(1, 2)], features=np.ones((2, 3)))
    report = inspect_graph(graph)
    assert report.texts is None
    assert report.feature_size == 3


def test_no_text_and_no_id_leaves_the_inspection() -> None:
    words = json.dumps(inspect_graph(HUB).to_json())
    assert "same words here" not in words
    assert "seven" not in words
    assert json.loads(words)["sensitive"] is True


def test_an_empty_graph_is_refused() -> None:
    graph = EntityGraph.from_lists(["a", "b"], [("a", "b")], text=["x", "y"])
    empty = graph.replace(relations=graph.relations[:0].copy(), record=graph.record)
    assert inspect_graph(empty).degrees.num_isolated == 2


@given(
    edges=st.sets(st.tuples(st.integers(0, 30), st.integers(0, 30)).filter(lambda e: e[0] < e[1])),
    texts=st.lists(st.sampled_from(["a", "b b", "c\u00a0c", "d"]), min_size=31, max_size=31),
)
@settings(max_examples=50, deadline=None)
def test_counts_equal_those_of_a_slow_program(
    edges: set[tuple[int, int]], texts: list[str]
) -> None:
    graph = EntityGraph.from_lists(list(range(31)), sorted(edges), text=texts)
    report = inspect_graph(graph)
    degree = Counter(end for edge in edges for end in edge)
    for bar in report.degrees.bars:
        assert bar.num_entities == sum(bar.low <= degree[i] <= bar.high for i in range(31))
    assert sum(bar.num_entities for bar in report.degrees.bars) == 31
    assert report.texts is not None
    assert report.texts.num_sharing == sum(texts.count(text) > 1 for text in texts)
    assert report.texts.longest_words == max(len(text.split()) for text in texts)
    shares = [cap.share for cap in report.caps]
    assert shares == sorted(shares)


def test_what_speaks_against_own_texts_and_features_becomes_a_warning() -> None:
    ring = [(f"node-{i}", f"node-{(i + 1) % 60}") for i in range(60)]
    ids = [f"node-{i}" for i in range(60)]
    texts = ["about trees"] * 60
    quiet = inspect_graph(EntityGraph.from_lists(ids, ring, text=texts))
    assert quiet.warnings == ()
    texts[7] = "friend of node-8"
    own = np.random.default_rng(0).normal(size=(60, 4))
    averaged = (own + np.roll(own, 1, axis=0) + np.roll(own, -1, axis=0)) / 3
    graph = EntityGraph.from_lists(ids, ring, text=texts, features=averaged)
    report = inspect_graph(graph)
    assert len(report.warnings) == 2
    assert report.warnings[0].startswith("1 text contains the id of another entity (row 8).")
    assert "alike among related entities" in report.warnings[1]
    assert "node-8" not in json.dumps(report.to_json())
    assert "'node-7' mentions 'node-8'" in inspect_graph(graph, show_ids=True).warnings[0]
    assert report.to_json()["warnings"] == list(report.warnings)
