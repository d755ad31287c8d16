"""A few hundred cases of every target end well; a target that crashes, hangs or says nothing is caught."""

import pytest

from reldp.errors import GraphError
from tests.fuzz import runner
from tests.fuzz.runner import fuzz
from tests.fuzz.targets import TARGETS, numbers


def test_no_case_ends_with_a_traceback_or_hangs():
    quick = {target: weight for target, weight in TARGETS.items() if target is not numbers}
    found = fuzz(cases=400, seed=1, targets=quick)
    assert found["failures"] == []
    for target in quick:
        ends = {name for name in found["counts"] if name.startswith(f"{target.__name__}:")}
        assert f"{target.__name__}: refused" in ends


def test_numbers_on_the_command_line_are_taken_or_refused():
    assert fuzz(cases=12, seed=2, targets={numbers: 1})["failures"] == []


@pytest.mark.parametrize(
    ("end", "error"),
    [
        ("traceback", KeyError("x")),
        ("traceback", GraphError("")),
        ("traceback", GraphError("a\nb")),
    ],
)
def test_a_bad_end_is_caught(end, error):
    def bad(random, home):
        raise error

    found = fuzz(cases=2, targets={bad: 1})
    assert [failure["end"] for failure in found["failures"]] == [end] * 2


def test_a_hang_is_caught(monkeypatch):
    monkeypatch.setattr(runner, "PATIENCE", 0.1)

    def slow(random, home):
        while True:
            pass

    assert [failure["end"] for failure in fuzz(cases=1, targets={slow: 1})["failures"]] == ["hang"]


def test_a_case_follows_from_its_number():
    one = fuzz(cases=40, seed=3, targets={list(TARGETS)[1]: 1})["counts"]
    parts = [
        fuzz(cases=20, seed=3, first=first, targets={list(TARGETS)[1]: 1}) for first in (0, 20)
    ]
    for name, count in one.items():
        assert sum(part["counts"].get(name, 0) for part in parts) == count
