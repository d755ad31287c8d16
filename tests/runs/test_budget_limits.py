"""A guarantee for choices by results covers every limit under which a result may have been seen."""

import pytest

from reldp.runs.budget_limits import (
    ENTERED_LATER,
    guarantee,
    is_adaptive,
    is_guarantee_late,
    limits,
)

LIMIT, LOWER = (30.0, 1e-5), (25.0, 8e-6)


def entries(*kinds):
    return [
        {"kind": kind} if isinstance(kind, str) else dict(zip(NAMES, kind, strict=True))
        for kind in kinds
    ]


NAMES = ("kind", "epsilon", "delta", "adaptive")


def limit(numbers, adaptive):
    return ("limit", *numbers, adaptive)


@pytest.mark.parametrize("use", ["run", "search"])
@pytest.mark.parametrize(
    ("before", "after", "expected", "is_late"),
    [
        ([limit(LIMIT, True)], [], LIMIT, False),
        ([limit(LIMIT, True)], [limit(LOWER, True)], LIMIT, False),
        ([limit(LOWER, True)], [limit(LIMIT, True)], LIMIT, True),
        ([limit(LIMIT, False)], [limit(LOWER, True)], LIMIT, True),
        ([], [limit(LOWER, True)], LOWER, True),
    ],
)
def test_a_run_or_a_search_is_the_first_use(use, before, after, expected, is_late):
    made = entries("budget", *before, "sizes", use, "session", *after)
    assert guarantee(made) == expected
    assert is_guarantee_late(made) is is_late
    assert limits(made) == tuple(entries(*before, *after))


@pytest.mark.parametrize("kind", ["run", "search"])
def test_what_was_entered_later_may_have_been_made_before_all_limits(kind):
    made = entries("budget", limit(LIMIT, True), limit(LOWER, True), kind)
    assert guarantee(made) == LOWER
    assert not is_guarantee_late(made)
    made[-1]["purpose"] = ENTERED_LATER
    assert guarantee(made) == LIMIT
    assert is_guarantee_late(made)


def test_released_sizes_are_no_result_of_a_run():
    made = entries("budget", "sizes", limit(LIMIT, True))
    assert guarantee(made) == LIMIT
    assert not is_guarantee_late(made)


def test_without_an_adaptive_limit_nothing_covers_choices():
    made = entries("budget", limit(LIMIT, False), "run")
    assert not is_adaptive(made)
    assert guarantee(made) is None
