"""The record that travels with a graph."""

import json

import pytest

from reldp.errors import GraphError
from reldp.graph.record import GraphRecord


def test_json_and_back_is_the_same_record() -> None:
    record = GraphRecord(
        source="é",
        version="3.0",
        license="CC0",
        hashes={"a.txt": "00ff"},
        drops={"unknown_ids": 2},
        notes=("One.", "Two."),
        capped_at=5,
    )
    assert GraphRecord.from_json(record.to_json()) == record


def test_drops_add_up_and_zeros_are_not_mentioned() -> None:
    record = GraphRecord().with_drops({"a": 1, "b": 0}).with_drops({"a": 2})
    assert record.drops == {"a": 3}


def test_the_smallest_cap_is_remembered() -> None:
    assert GraphRecord().with_cap(5).with_cap(9).capped_at == 5
    assert GraphRecord().with_cap(5).with_cap(2).capped_at == 2


def test_notes_keep_their_order() -> None:
    assert GraphRecord().with_note("One.").with_note("Two.").notes == ("One.", "Two.")


def test_a_record_is_a_copy_of_what_it_was_given() -> None:
    drops = {"a": 1}
    record = GraphRecord(drops=drops)
    drops["a"] = 2
    assert record.drops == {"a": 1}


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"source": 3}, "source"),
        ({"hashes": {"a": 1}}, "hashes"),
        ({"drops": {"a": "many"}}, "drops"),
        ({"drops": {"a": -1}}, "drops"),
        ({"drops": {"a": True}}, "drops"),
        ({"drops": []}, "drops"),
        ({"notes": "one"}, "notes"),
        ({"notes": [1]}, "notes"),
        ({"capped_at": 0}, "capped_at"),
        ({"capped_at": True}, "capped_at"),
        ({"capped_at": "5"}, "capped_at"),
    ],
)
def test_wrong_values_are_refused_by_name(values: dict[str, object], name: str) -> None:
    with pytest.raises(GraphError, match=f"`{name}` of a graph's record must be"):
        GraphRecord.from_json(json.dumps(values))


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "3", '{"a": 1}', "{'source': 1}", "[" * 100_000]
)
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(GraphError, match=r"record\.json must hold"):
        GraphRecord.from_json(text)


def test_a_name_that_comes_twice_and_a_text_without_end_are_refused():
    with pytest.raises(GraphError, match="damaged JSON"):
        GraphRecord.from_json('{"source": "a", "source": "b"}')
    assert len(GraphRecord(license="x" * 20_000).license) == 20_000
    with pytest.raises(GraphError, match=r"`source` .* text of at most 20,000 characters"):
        GraphRecord.from_json(json.dumps({"source": "x" * 20_001}))
