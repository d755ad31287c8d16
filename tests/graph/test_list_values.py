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
        ([1, 2], [(1, 2)], {"owner": ["x"]}, "`owner` must have .* 2 ids, got 1"),
        ([1, 2], [(1, 2)], {"types": ["x", "y"]}, "`types` must have .* 1 relations, got 2"),
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


def refusal(*given, **more):
    with pytest.raises(GraphError) as error:
        EntityGraph.from_lists(*given, **more)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_entities_without_content_are_told_which_argument_to_give():
    said = refusal(["a", "b"], [("a", "b")])
    assert said == (
        "`text` or `features` must be given, with one value for each of the 2 ids, got neither. Pass text=[...], or "
        "features= an (n, d) matrix."
    )
    assert "column" not in said


def test_all_that_is_wrong_with_ids_is_said_at_once_what_helps_most_first():
    said = refusal(["a", "a", "secret"], [("a", "c"), ("a", "secret"), ("d", "a")])
    content, repeated, unknown = said.split(" Also: ")
    assert content.startswith("`text` or `features` must be given")
    assert repeated.startswith("`ids` must not repeat an id, got 1 repeated ids (place 2).")
    assert unknown.startswith(
        "`relations` must hold ids that are in `ids`, got 2 pairs with others (pair 1, pair 3)."
    )
    assert "secret" not in said
    with_text = refusal(["a", "a"], [("a", "c")], text=TEXT)
    assert with_text.startswith("`ids` must not repeat an id")
    assert "`relations` must hold ids" in with_text


def test_one_problem_is_described_by_the_checks_of_the_tables():
    assert "got 1 unknown target ids (row 1)" in refusal(["a", "b"], [("a", "c")], text=TEXT)
    assert "got 1 missing target ids (row 1)" in refusal(["a", "b"], [("a", None)], text=TEXT)
    assert "got 1 repeated ids (row 2)" in refusal(["a", "a"], [], text=TEXT)


def test_what_is_dropped_is_no_problem():
    both = {"drop": {"duplicate_ids", "unknown_ids"}}
    graph = EntityGraph.from_lists(["a", "b", "b"], [("a", "c"), ("a", "b")], text="xyz", **both)
    assert graph.num_relations == 1
    assert "Also" not in refusal(["a", "a"], [("a", "c")], **both)
