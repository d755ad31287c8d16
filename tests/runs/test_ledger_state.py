"""Entries that cannot follow one another are refused, and the rest adds up."""

import pytest

from reldp.errors import LedgerError
from reldp.runs.ledger_state import Branch, LedgerRecord, LedgerState
from reldp.runs.schema import SENSITIVE_CALLBACK

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


def with_sensitive_stops(count, num_steps):
    """A record of a run that a callback stopped before every step, and that went on in a branch each time."""
    entries = [START | {"num_steps": num_steps}]
    for branch in range(count):
        at = {"branch": branch, "step": branch + 1}
        entries += [
            {"kind": "reserve", "branch": branch, "first": branch, "stop": branch + 1},
            {"kind": "checkpoint", **at, "sha256": HASH, "stopped_by": SENSITIVE_CALLBACK},
            {"kind": "resume", "branch": branch + 1, "step": branch + 1},
        ]
    return LedgerRecord.check(entries[:-1], "")


@pytest.mark.parametrize("is_early", [False, True])
def test_many_sensitive_stops_are_looked_at_once_each(monkeypatch, is_early):
    """A ledger of some MB with that many stops took minutes: each of them looked at all branches."""
    count, looked = 2000, 0

    def length(branch):
        nonlocal looked
        looked += 1
        return branch.stop - branch.first

    record = with_sensitive_stops(count, count + is_early)
    monkeypatch.setattr(Branch, "__len__", length)
    assert record.is_cut_by_sensitive is is_early
    assert looked <= 2 * count


def test_counted_steps_that_a_branch_leaves_out_after_a_sensitive_stop_are_seen():
    stop = {**CHECKPOINT, "stopped_by": SENSITIVE_CALLBACK}
    branch = {"kind": "resume", "branch": 1, "step": 4}
    rest = {"kind": "reserve", "branch": 1, "first": 4, "stop": 8}
    end = {"kind": "checkpoint", "branch": 1, "step": 8, "sha256": HASH}
    assert record(RESERVE, stop, branch, rest, end).is_cut_by_sensitive
    assert not record(RESERVE, CHECKPOINT, branch, rest, end).is_cut_by_sensitive
    assert not record(
        {**RESERVE, "stop": 4}, stop, branch, {**rest, "stop": 10}, {**end, "step": 10}
    ).is_cut_by_sensitive
