"""Counts for an inspection."""

import numpy as np

from reldp.graph import EntityGraph
from reldp.graph.capping import degrees


def graph() -> EntityGraph:
    star = [("hub", f"leaf{i}") for i in range(9)]
    names = ["hub", *[f"leaf{i}" for i in range(9)], "alone"]
    return EntityGraph.from_lists(names, star, text=["one two", "x", "x", *["y z w"] * 8])


def test_caps_are_counted_as_they_cap() -> None:
    counts = graph().count_caps((1, 4, 20), seed=3)
    assert {bound: count.num_relations for bound, count in counts.items()} == {1: 1, 4: 4, 20: 9}
    for bound, count in counts.items():
        after = degrees(graph().cap_degrees(bound, 3).relations, 11)
        assert count.num_left_alone == int(np.count_nonzero((graph().degrees > 0) & (after == 0)))
    assert counts[1].num_left_alone == 8


def test_texts_are_counted_with_their_groups() -> None:
    words, groups = graph().count_texts()
    assert words.tolist() == [2, 1, 1, *[3] * 8]
    assert (groups.num_distinct, groups.num_sharing, groups.largest) == (3, 10, 8)


def test_mentions_are_looked_for_in_memory() -> None:
    assert graph().search_mentions() is None
