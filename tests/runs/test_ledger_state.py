"""Entries that cannot follow one another are refused, and the rest adds up."""

import pytest

from reldp.errors import LedgerError
from reldp.runs.ledger_state import LedgerRecord, LedgerState

HASH = "ab" * 32
START = {"kind": "start", "format": 2, "num_steps": 10, "checkpoint": {"step": 0, "sha256": HASH}}
RESERVE = {"kind": "reserve", "branch": 0, "first": 0, "stop": 6}
CHECKPOINT = {"kind": "checkpoint", "branch": 0, "step": 4, "sha256": HASH}
COMPLETE = {"kind": "complete", "num_counted": 0}


def record(*entries):
    return LedgerRecord.check([START, *entries], "")


@pytest.mark.parametrize(
    "entries",
    [
        [{**RESERVE, "first": 1}],
        [{**RESERVE, "branch": 1}],
        [{**RESERVE, "stop": 11}],
        [{**RESERVE, "first": 2, "stop": 2}],
        [{**RESERVE, "stop": 2.0}],
        [{**RESERVE, "stop": True}],
        [{**RESERVE, "stop": "2"}],
        [{**RESERVE, "branch": False}],
        [{"kind": "overflow", "branch": 0, "step": 0}],
        [RESERVE, {"kind": "overflow", "branch": 1, "step": 0}],
        [RESERVE, {**CHECKPOINT, "step": 7}],
        [RESERVE, {**CHECKPOINT, "step": 0}],
        [RESERVE, {**CHECKPOINT, "branch": 1}],
        [RESERVE, {**CHECKPOINT, "sha256": "ab"}],
        [RESERVE, {**CHECKPOINT, "sha256": 3}],
        [RESERVE, CHECKPOINT, CHECKPOINT],
        [RESERVE, CHECKPOINT, {"kind": "resume", "branch": 0, "step": 0}],
        [RESERVE, CHECKPOINT, {"kind": "resume", "branch": 1, "step": 5}],
        [{"kind": "resume", "branch": 0, "step": 1}],
        [{"kind": "resume", "branch": 2, "step": 0}],
        [{"kind": "resume", "branch": -1, "step": 0}],
        [START],
        [{"kind": "complete", "num_counted": 1}],
        [COMPLETE, {"kind": "resume", "branch": 0, "step": 0}],
        [COMPLETE, COMPLETE],
        [{"kind": "audit", "audit": {}}],
        [COMPLETE, {"kind": "audit", "audit": [1]}],
        [COMPLETE, {"kind": "audit"}],
        [{"kind": "told"}],
        [{"kind": []}],
        [{"kind": "reserve"}],
    ],
)
def test_impossible_entries_are_refused(entries):
    record()
    with pytest.raises(LedgerError, match="ledger"):
        record(*entries)


def test_a_ledger_of_an_older_version_is_one_clear_line():
    with pytest.raises(LedgerError, match=r"format 2, got 1, which reldp 0\.3 and earlier wrote"):
        LedgerRecord.check([{"kind": "start", "format": 1, "num_steps": 10}], "")
    with pytest.raises(LedgerError, match="format 2"):
        LedgerRecord.check([{"kind": "start", "format": 3, "num_steps": 10}], "")


def test_the_newest_checkpoint_is_the_one_to_go_on_from():
    assert record().checkpoint == {"step": 0, "sha256": HASH}
    later = {**CHECKPOINT, "step": 6, "sha256": "cd" * 32}
    found = record(RESERVE, CHECKPOINT, later, {"kind": "resume", "branch": 1, "step": 6})
    assert found.checkpoint == later
    assert [len(branch) for branch in found.branches] == [6, 0]


def test_audits_follow_the_completion_and_do_not_hide_it():
    found = record(COMPLETE, {"kind": "audit", "audit": {"epsilon": 1.0}})
    assert found.completion == COMPLETE
    assert found.audits == ({"epsilon": 1.0},)
    assert record(COMPLETE).audits == ()


def test_a_refused_entry_leaves_the_state_as_it_was():
    state = LedgerState().apply([START, RESERVE])
    with pytest.raises(LedgerError, match="Entry 3 breaks this"):
        state.apply([{**CHECKPOINT, "step": 7}])
    assert state.apply([CHECKPOINT]).checkpoint == 4
    assert state.checkpoint == 0


def test_many_branches_are_counted_once_each(monkeypatch):
    from reldp.runs.ledger_state import Branch

    counted = 0

    def length(branch):
        nonlocal counted
        counted += 1
        return branch.stop - branch.first

    monkeypatch.setattr(Branch, "__len__", length)
    entries = [START | {"num_steps": 1000}]
    for branch in range(100):
        entries += [
            {"kind": "resume", "branch": branch + 1, "step": 0},
            {"kind": "reserve", "branch": branch + 1, "first": 0, "stop": 2},
        ]
    state = LedgerState().apply(entries)
    assert counted <= 300  # of every branch at every entry would be 5,000
    assert state.record(tuple(entries), "").num_counted == 200
    state.apply([{"kind": "complete", "num_counted": 200}])
    with pytest.raises(LedgerError, match="number of steps that it counted"):
        state.apply([{"kind": "complete", "num_counted": 199}])
