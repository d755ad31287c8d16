"""What was noted last decides, for each token alone."""

import pytest

from reldp.errors import ResumeError
from reldp.runs.budget_entries import check_entry
from reldp.runs.budget_sessions import (
    RUN,
    SEARCH,
    is_state,
    newest_state,
    refuse_other_state,
    state_entry,
)

NOTED = [state_entry(token, head) for token, head in (("s", "1"), ("t", "2"), ("s", "3"))]


def test_the_last_note_of_a_token_is_its_newest_state():
    assert newest_state(NOTED, "s") == "3"
    assert newest_state(NOTED, "t") == "2"
    assert newest_state([{"kind": "run", "token": "s"}], "s") is None
    assert is_state(NOTED, "s", "1")
    assert not is_state(NOTED, "t", "1")
    check_entry(state_entry("0" * 32, "ab" * 32), 1)


@pytest.mark.parametrize(
    ("words", "way_out"), [(RUN, "reldp abandon, which enters"), (SEARCH, "delete this one")]
)
def test_a_ledger_without_the_newest_state_is_refused_with_a_way_out(words, way_out):
    refuse_other_state(None, ["1"], words)
    refuse_other_state("3", ["1", "3", "4"], words)
    with pytest.raises(ResumeError, match="copied before, or put back") as said:
        refuse_other_state("3", ["1", "4"], words)
    assert way_out in str(said.value)
    assert "If the" in str(said.value)
