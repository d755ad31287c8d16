import ast
import time

import pytest

from reldp.graph.recipes.literals import MAX_DEPTH, MAX_LINE, parse_record
from tests.graph.recipes.records import PRODUCTS_2014


@pytest.mark.parametrize("line", PRODUCTS_2014)
def test_published_lines_are_what_python_says_they_are(line):
    assert parse_record(line.encode()) == ast.literal_eval(line)


@pytest.mark.parametrize(
    ("line", "record"),
    [
        ('{"asin": "B0", "price": null}', {"asin": "B0", "price": None}),
        ('{"asin": None, "x": True}', {"asin": None, "x": True}),  # Python after all
        ("{u'a': [1, -2.5e-3, (None,)]}", {"a": [1, -2.5e-3, (None,)]}),
        (r"{'a': 'it\'s \\', 'b': '\d'}", {"a": "it's \\", "b": r"\d"}),
        ("  {'a': 1}  ", {"a": 1}),
        ("{}", {}),
    ],
)
def test_json_and_literals_are_read(line, record):
    assert parse_record(line.encode()) == record


@pytest.mark.parametrize(
    "line",
    [
        "", "1", "[]", "null", "{'a'}", "{'a': 1", "{'a': b}", "{'a': f'x'}", "{'a': b'x'}", "{'a': __import__('os')}",
        "{'a': 'x' 'y'}", "{'a': 1 -1}", "{'a': 1+1j}", "{'a': --1}", "{'a': 'x'[0]}", "{'a': (1)(2)}", "{'a': {**{}}}",
        "{'a': [x for x in 'y']}", "{'a': '''x'''}", "{'a': 1} # more", "{'a': 'x", "{'a': " + "9" * 5000 + "}",
        "{'a': 'x\x00'}", "{[]: 1}", '{"a": ' + "[" * 100_000, "{'a': " + "[" * 100_000,
        "{'a': " + "(" * 90 + ")" * 90 + "}",
        "{'a': " + "-" * 100_000 + "1}", "{'a': 1" + "()" * 100_000 + "}", "{'a': 1" + "+1" * 100_000 + "}",
        "{'a': " + "not " * 100_000 + "1}",
    ],
)  # fmt: skip
def test_everything_else_is_refused_in_the_same_way(line):
    with pytest.raises(
        ValueError, match=r"^(no|line|nested|malformed|source|Expecting|Extra|Exceeds)"
    ) as caught:
        parse_record(line.encode())
    assert "import" not in str(caught.value)


def test_limits_are_where_they_are_said_to_be():
    depth = MAX_DEPTH - 1  # the record itself is one
    assert parse_record(f"{{'a': {'[' * depth + ']' * depth}}}".encode())
    with pytest.raises(ValueError, match="deeply"):
        parse_record(f"{{'a': {'[' * (depth + 1) + ']' * (depth + 1)}}}".encode())
    with pytest.raises(ValueError, match="too long"):
        parse_record(b"{'a': '" + b"x" * MAX_LINE + b"'}")
    with pytest.raises(ValueError, match="no record"):
        parse_record(b"{'a': '\xff'}")


def test_a_line_that_does_not_end_is_given_up_in_time():
    start = time.perf_counter()
    for quote in ("'", '"'):
        with pytest.raises(ValueError, match=r"^no"):
            parse_record(("{'a': " + quote + ("\\" + quote) * 1_000_000).encode())
    assert time.perf_counter() - start < 20  # every quote tried in turn takes hours
