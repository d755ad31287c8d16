"""Plain values that do not fit together are named before they become a table."""

import numpy as np
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph

TEXT = ["x", "y"]


@pytest.mark.parametrize(
    ("ids", "relations", "more", "words"),
    [
        (["1", "2"], [("1", "2"), (1, 2)], {}, r"type as `ids`, strings, got integers in pair 2\."),
        ([1, 2], [("1", "2")], {}, r"type as `ids`, integers, got strings in pair 1\."),
        (
            [1, "2"],
            [(1, "2")],
            {},
            "`ids` must be all strings or all integers, got integers and, in row 2",
        ),
        ([1 << 70, 2], [(2, 2)], {}, "integers beyond 64 bits"),
        ([1, 2], [(1, 2, 3)], {}, "pairs of ids, got 3 values in place 1"),
        ([1, 2], [(1, 2), (1,)], {}, "pairs of ids, got 1 values in place 2"),
        (["a", "b"], ["ab"], {}, "pairs of ids, got text in place 1"),
        ([1, 2], [1], {}, "pairs of ids, got 0 values in place 1"),
        (
            [1, 2],
            [(1, 2)],
            {"text": ["x"]},
            "`text` must have one value for each of the 2 ids, got 1",
        ),
        ([1, 2], [(1, 2)], {"features": np.zeros((3, 2))}, "`features` must have .* 2 ids, got 3"),
        ([1, 2], [(1, 2)], {"protected": [True]}, "`protected` must have .* 2 ids, got 1"),
    ],
)
def test_the_argument_the_rule_and_the_place_are_named(ids, relations, more, words):
    with pytest.raises(GraphError, match=words) as error:
        EntityGraph.from_lists(ids, relations, **({"text": TEXT} | more))
    assert "\n" not in str(error.value)


def test_arrays_and_generators_are_taken():
    graph = EntityGraph.from_lists(np.arange(2), np.array([[0, 1]]), text=TEXT)
    assert graph.num_relations == 1
    pairs = (pair for pair in [("a", "b")])
    assert EntityGraph.from_lists(["a", "b"], pairs, text=TEXT).num_relations == 1
