"""Lines that no budget holds are refused, and each line costs what it says."""

import pytest

from reldp.errors import LedgerError
from reldp.runs.budget_entries import charge_of, check_entry
from tests.runs.test_budget_cost import PLAN

DATE = {"date": "2026-01-01"}
RUN = {"kind": "run", "token": "1" * 32, "purpose": "train", "plan": PLAN.to_dict(), **DATE}
SEARCH = {"kind": "search", "token": "1" * 32, "plan": PLAN.to_dict(), "size": {"runs": 3}, **DATE}
SIZES = {"kind": "sizes", "release": "2" * 32, "epsilon": 0.5, "delta": 1e-9, **DATE}


def test_runs_searches_and_releases_cost_what_they_say():
    for number, entry in enumerate((RUN, SEARCH, SIZES), 2):
        check_entry(entry, number)
    assert charge_of(RUN).plan == PLAN
    assert charge_of({**RUN, "release": "2" * 32}).release == "2" * 32
    assert charge_of(SEARCH).search.runs == 3
    assert (charge_of(SIZES).plan, charge_of(SIZES).epsilon) == (None, 0.5)


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {**RUN, "kind": "walk"},
        {**RUN, "token": "1"},
        {**RUN, "plan": {"num_steps": 3}},
        {**RUN, "more": 1},
        {**SEARCH, "size": {"runs": -1}},
        {**SIZES, "epsilon": -1.0},
        {
            "kind": "budget",
            "format": 1,
            "id": "1" * 32,
            "unit": "entity",
            **DATE,
            "lost": [{"id": "x"}],
        },
    ],
)
def test_anything_else_is_refused_with_its_line(entry):
    with pytest.raises(LedgerError, match=r"budget\.jsonl line 7 must be an entry of a budget"):
        check_entry(entry, 7)
