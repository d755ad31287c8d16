"""A table of pairs says what an entity is, and nothing is guessed where it does not."""

import warnings
from collections import defaultdict
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reldp.encoders import TextEncoder
from reldp.errors import GraphError, ReldpError
from reldp.graph import EntityGraph
from reldp.graph.pairs import AmbiguousEntityWarning, pair_columns, pair_files
from reldp.reporting import verify

TEXTS = {"left": "a", "right": "b"}
IDS = {**TEXTS, "left_id": "i", "right_id": "j"}


def table(**columns: Any) -> Any:
    return {"a": ["w", "w"], "b": ["x", "y"], "i": [1, 1], "j": [2, 3], **columns}


def graph(columns: Any, **given: Any) -> EntityGraph:
    return EntityGraph.from_pairs(columns, **(given if "left" in given else {**IDS, **given}))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (TEXTS, "`left_id` and `right_id` must name the columns of the entities' ids, got none"),
        (TEXTS, "never guessed: pass ids='text' if equal texts are one entity"),
        ({**TEXTS, "left_id": "i"}, "`right_id` must be given too"),
        ({**TEXTS, "right_id": "j"}, "`left_id` must be given too"),
        ({**IDS, "ids": "text"}, "`ids` must be left out if `left_id` and `right_id` are given"),
        ({**TEXTS, "ids": "texts"}, "`ids` must be 'text' or left out, got 'texts'"),
        ({**IDS, "right": "a"}, "`right` must name another column than the left one, got 'a'"),
        ({**IDS, "right_id": "i"}, "`right_id` must name another column than the left one"),
        ({**IDS, "left": 0}, "`left` must be the name of a column, got int"),
        ({**IDS, "protected": "lef"}, "`protected` must be one of both, left, right"),
        ({**IDS, "prefixes": ("c", "c")}, "`prefixes` must be two different strings"),
        ({**IDS, "prefixes": "cp"}, "`prefixes` must be two different strings"),
    ],
)
def test_arguments_that_leave_something_open_are_one_line(given: Any, words: str) -> None:
    with pytest.raises(GraphError, match=words) as caught:
        EntityGraph.from_pairs(table(), **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (table(j=["2", "3"]), "ids of one type on both sides, got int64 and string"),
        (table(j=[2.0, 3.0]), "must hold strings or integers in column 'j', got double"),
        (table(a=[1, 2]), "must hold strings in column 'a', got int64"),
        (table(a=[["w"], ["w"]]), "must hold strings in column 'a', got lists of string"),
        (table(a=["w", "v"]), r"must give an id one text, got 1 rows with another \(row 2\)"),
        (table(j=[2, None]), r"got 1 missing target ids \(row 2\)"),
        (table(b=["x", " "]), r"must give every entity a text, got 1 empty texts \(row 2\)"),
        (table(j=[2, 2], b=["x", "x"]), r"got 1 repeated relations \(row 2\)"),
        (table(j=[2, 1], b=["x", "w"]), r"got 1 self-relations \(row 2\)"),
        ({name: [] for name in "abij"}, "must name at least one entity, got none"),
    ],
)
def test_tables_that_are_no_graph_are_one_line(columns: Any, words: str) -> None:
    with pytest.raises(GraphError, match=words) as caught:
        graph(columns)
    assert str(caught.value).startswith("pairs must ")
    assert "\n" not in str(caught.value)


def test_no_id_and_no_text_is_in_an_error_unasked() -> None:
    secret = table(i=["bob@example.com"] * 2, j=["c", "d"], a=["w", "likes tea"])
    with pytest.raises(GraphError) as caught:
        graph(secret)
    assert "bob" not in str(caught.value)
    assert "tea" not in str(caught.value)
    with pytest.raises(GraphError, match=r"row 2: 'bob@example\.com'"):
        graph(secret, show_ids=True)


def test_equal_ids_are_one_entity_on_either_side() -> None:
    one = graph(table(i=[1, 2], j=[2, 3], a=["w", "x"], b=["x", "y"]))
    assert one.ids.to_pylist() == [1, 2, 3]
    assert one.relations.tolist() == [[0, 1], [1, 2]]


def test_equal_texts_of_two_ids_are_two_entities() -> None:
    one = graph(table(i=[1, 2], j=[3, 3], a=["w", "w"], b=["x", "x"]))
    assert one.text() == ["w", "x", "w"]


def test_the_first_text_of_an_id_can_be_kept() -> None:
    one = graph(table(a=["w", "v"]), drop={"other_texts"})
    assert one.text() == ["w", "x", "y"]
    assert one.record.drops == {"other_texts": 1}


def test_a_text_may_be_missing_in_some_rows() -> None:
    assert graph(table(a=[None, "w"])).text() == ["w", "x", "y"]


def test_ids_that_mean_different_entities_on_both_sides_get_prefixes() -> None:
    columns = table(i=[7, 8], j=[8, 7], a=["ann", "bob"], b=["tent", "mat"])
    with pytest.raises(GraphError, match="set `prefixes` if the ids of left and right are about"):
        graph(columns)
    one = graph(columns, prefixes=("customer-", "product-"), protected="left")
    assert one.ids.to_pylist() == ["customer-7", "product-8", "customer-8", "product-7"]
    assert one.protected.tolist() == [True, False, True, False]


def test_who_is_on_both_sides_is_protected() -> None:
    columns = table(i=[1, 2], j=[2, 3], a=["w", "x"], b=["x", "y"])
    assert graph(columns, protected="left").protected.tolist() == [True, True, False]
    assert graph(columns, protected="right").protected.tolist() == [False, True, True]
    assert "protected" not in graph(columns).columns


def test_equal_texts_are_one_entity_if_the_caller_says_so() -> None:
    one = graph({"a": ["w", "x"], "b": ["x", "y"]}, **TEXTS, ids="text")
    assert one.ids.to_pylist() == one.text() == ["w", "x", "y"]
    assert one.record.notes == ("Equal texts are one entity, and each spelling is another.",)


@pytest.mark.parametrize("other", ["Ann Lee", "ann  lee", "ann lee\n", "ａnn lee"])
def test_two_spellings_are_two_entities_with_a_warning(other: str) -> None:
    columns = {"a": ["ann lee", other], "b": ["tent", "mat"]}
    with pytest.warns(AmbiguousEntityWarning, match="1 texts differ from another one") as caught:
        one = graph(columns, **TEXTS, ids="text")
    assert one.num_entities == 4
    assert "ann" not in str(caught[0].message).lower()


def test_row_numbers_as_ids_are_doubted() -> None:
    columns = table(i=[1, 2], j=[3, 4], a=["w", "w"], b=["x", "y"])
    with pytest.warns(AmbiguousEntityWarning, match="No id occurs twice, although texts do"):
        graph(columns)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph(table(i=[1, 2], a=["w", "v"], j=[3, 4]))  # nothing repeats at all


def test_the_warning_points_at_the_caller() -> None:
    with pytest.warns(AmbiguousEntityWarning) as caught:
        EntityGraph.from_pairs({"a": ["x", "X"], "b": ["y", "z"]}, **TEXTS, ids="text")
    assert caught[0].filename == __file__


def test_the_columns_that_are_read() -> None:
    assert pair_columns("a", "b", None, None, "text") == ["a", "b"]
    assert pair_columns("a", "b", "i", "j", None) == ["a", "b", "i", "j"]


@given(
    rows=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12),
    strings=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_entities_and_relations_equal_those_of_a_slow_program(
    rows: list[tuple[int, int]], strings: bool
) -> None:
    name = (lambda i: f"id {i}") if strings else (lambda i: i)
    columns = {
        "i": [name(i) for i, _ in rows],
        "j": [name(j) for _, j in rows],
        "a": [f"text {i % 3}" for i, _ in rows],
        "b": [f"text {j % 3}" for _, j in rows],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AmbiguousEntityWarning)
        files = pair_files(pa.table(columns), **IDS)
    texts = defaultdict(set)
    for i, j in rows:
        texts[name(i)].add(f"text {i % 3}")
        texts[name(j)].add(f"text {j % 3}")
    entities = files.entities.table.to_pylist()
    assert [row["id"] for row in entities] == list(texts)  # in order of appearance
    assert [{row["text"]} for row in entities] == list(texts.values())
    relations = files.relations.table.to_pylist()
    assert relations == [{"source": name(i), "target": name(j)} for i, j in rows]


def test_owners_of_pairs_and_back() -> None:
    columns = {
        "account": ["a1", "a2", "a1"],
        "product": ["p1", "p1", "p2"],
        "account_text": ["night runs", "night shifts", "night runs"],
        "product_text": ["shoes", "shoes", "lamp"],
        "person": ["ann", "ann", None],
    }
    names = {"left": "account_text", "right": "product_text"}
    ids = {"left_id": "account", "right_id": "product"}
    graph = EntityGraph.from_pairs(columns, **names, **ids, left_owner="person")
    assert graph.ids.to_pylist() == ["a1", "p1", "a2", "p2"]
    assert graph.owners.tolist() == [0, 1, 0, 2]
    again = EntityGraph.from_pairs(
        graph.to_pairs(**names, **ids, left_owner="o", right_owner="q"),
        **names,
        **ids,
        left_owner="o",
        right_owner="q",
    )
    assert again.owners.tolist() == graph.owners.tolist()
    wrong = columns | {"person": ["ann", "ann", "bob"]}
    with pytest.raises(GraphError, match=r"must give an id one owner, got 1 rows .*\(row 3\)"):
        EntityGraph.from_pairs(wrong, **names, **ids, left_owner="person")
    both = EntityGraph.from_pairs(
        columns, **names, **ids, left_owner="person", right_owner="person"
    )
    assert both.owners.tolist() == [0, 0, 0, 1]


def test_a_table_in_the_wrong_place_is_not_quoted():
    frame = pd.DataFrame({"about": ["a diagnosis", "x"], "customer": ["alice", "bob"]})
    graph = EntityGraph.from_pairs(frame, left="about", right="customer", ids="text")
    sides = {"left": "about", "right": "customer"}
    for refused in (
        lambda: EntityGraph.read(frame),
        lambda: EntityGraph.read(["alice", "bob"]),
        lambda: EntityGraph.from_pairs(frame, **sides, ids=frame),
        lambda: EntityGraph.from_pairs(frame, **sides, ids="text", protected=frame.customer),
        lambda: EntityGraph.from_pairs(frame, **sides, ids="text", drop=frame.customer),
        lambda: graph.cap_degrees(frame, seed=0),
        lambda: graph.column(("alice",)),
        lambda: verify(frame),
        lambda: TextEncoder.load(frame),
    ):
        with pytest.raises(ReldpError) as caught:
            refused()
        assert not any(word in str(caught.value) for word in ("alice", "bob", "diagnosis"))
    with pytest.raises(
        GraphError, match=r"got DataFrame\. A table of pairs goes to EntityGraph\.from_pairs"
    ):
        EntityGraph.read(frame)
