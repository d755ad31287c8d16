"""Every type and range of a certificate is checked, and the place named."""

import pytest

from reldp.runs import schema
from reldp.runs.certificate import Certificate
from tests.reporting.example import PLAN, ledger

VALUES = Certificate.from_ledger(PLAN, ledger()).values


def test_a_made_certificate_and_its_entries_pass():
    schema.check(VALUES, schema.CERTIFICATE)
    schema.check(ledger().start, schema.START)
    schema.check(ledger().completion, schema.COMPLETION)


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (schema.COUNT, [0, 5], [-1, 1.0, True, "1", None]),
        (schema.SIZE, [1], [0, True]),
        (schema.TEXT, ["", "a"], [None, 1, []]),
        (schema.TEXTS, [[], ["a"]], ["a", [1], None]),
        (schema.HASH, ["ab" * 32], ["AB" * 32, "ab" * 31, "ab" * 32 + "\n", "zz" * 32, 5]),
        (schema.DATE, ["2026-01-31"], ["2026-1-31", "20260131", "2026-02-30", "x", 5, None]),
        (schema.PROBABILITY, [0.5, 1e-300], [0, 1, -0.1, float("nan"), True, "0.5"]),
        (schema.EPSILON, [0.0, 3, "Infinity"], [-1.0, float("inf"), "-Infinity", "inf", None]),
        (schema.HASHES, [{}, {"a": "ab" * 32}], [[], {"a": "x"}, {"a": None}]),
        (schema.OBJECTS, [[], [{}]], [{}, [[]], None]),
    ],
)
def test_a_rule_takes_what_it_says_and_nothing_else(rule, good, bad):
    assert all(map(rule.holds, good))
    assert not any(map(rule.holds, bad))


@pytest.mark.parametrize("name", sorted(VALUES))
def test_every_part_must_be_there_and_be_what_it_is(name):
    without = {other: value for other, value in VALUES.items() if other != name}
    with pytest.raises(schema.SchemaError, match=f"^{name} must be there"):
        schema.check(without, schema.CERTIFICATE)
    with pytest.raises(schema.SchemaError, match=f"^{name} must be"):
        schema.check({**VALUES, name: None}, schema.CERTIFICATE)


def test_places_inside_and_unknown_parts_are_named():
    steps = {**VALUES["steps"], "counted": "many"}
    with pytest.raises(schema.SchemaError, match=r"^steps\.counted must be a whole number"):
        schema.check({**VALUES, "steps": steps}, schema.CERTIFICATE)
    with pytest.raises(schema.SchemaError, match="known parts only, got 'more'"):
        schema.check({**VALUES, "more": 1}, schema.CERTIFICATE)
    with pytest.raises(schema.SchemaError, match="it must be an object"):
        schema.check([], schema.CERTIFICATE)
    schema.check({"b": 1}, {"a?": schema.COUNT, schema.OPEN: True})
    with pytest.raises(schema.SchemaError, match="a must be"):
        schema.check({"a": "x"}, {"a?": schema.COUNT, schema.OPEN: True})
