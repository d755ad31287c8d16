"""JSON that two programs could read differently is refused, and the file named."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reldp.errors import RunError
from reldp.runs import strict_json
from reldp.runs.strict_json import parse_json

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)


@given(PLAIN)
def test_what_json_writes_is_read_back(values):
    if isinstance(values, str | dict):
        values = json.loads(json.dumps(values).encode(errors="replace"))
    try:
        data = json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    assert parse_json(data, "x") == values


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b"{}{}", "JSON"),
        (b"{} x", "JSON"),
        (b"[1,]", "JSON"),
        (b"[01]", "JSON"),
        (b"[+1]", "JSON"),
        (b"[.5]", "JSON"),
        (b"['a']", "JSON"),
        (b'["a\nb"]', "JSON"),
        (b"\xef\xbb\xbf[]", "JSON"),
        (b'{"a": 1, "a": 1}', "each name once, got 'a' twice"),
        (b'{"a": 1, "\\u0061": 1}', "each name once"),
        (b'[{"b": {"a": 1, "c": 2, "a": 3}}]', "each name once"),
        (b"[NaN]", "got NaN"),
        (b"[Infinity]", "got Infinity"),
        (b"[-Infinity]", "got -Infinity"),
        (b"[1e999]", "range of a double"),
        (b"[-1e999]", "range of a double"),
        (b"[9223372036854775808]", "64 bits"),
        (b"[-9223372036854775809]", "64 bits"),
        (b"[" + b"9" * 100_000 + b"]", "64 bits"),
        (b'["\xff"]', "UTF-8"),
        (b'["\xc0\xaf"]', "UTF-8"),
        (b'["\\ud800"]', "UTF-8"),
        (b'{"\\udfff": 1}', "UTF-8"),
        (b"[" * 40 + b"]" * 40, "at most 32 levels"),
        (b"[" * 100_000 + b"]" * 100_000, "at most 32 levels"),
        (b'{"a":' * 100_000, "at most 32 levels"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(data, words):
    with pytest.raises(RunError, match=words) as caught:
        parse_json(data, "plan.json")
    assert str(caught.value).startswith("plan.json must ")
    assert len(str(caught.value)) < 200


def test_thirty_two_levels_are_allowed():
    assert parse_json(b"[" * 32 + b"]" * 32, "x")


def test_a_repeated_name_is_found_in_one_pass():
    compared = 0

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    pairs = [(Name(f"k{i}"), 0) for i in range(300)] + [(Name("k299"), 1)]
    with pytest.raises(strict_json._Refused, match="'k299' twice"):
        strict_json._object(pairs)
    assert compared < 2 * len(pairs)  # every pair of names would be 45,000
