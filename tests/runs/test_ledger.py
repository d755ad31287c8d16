"""The ledger counts each step once, and shows every change made to it."""

import json
import os
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reldp.errors import LedgerError, RunError
from reldp.runs.ledger import Ledger, read_ledger

HASH = "ab" * 32


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


def finished(path, num_steps=10):
    with Ledger.create(path, {"num_steps": num_steps}) as ledger:
        ledger.reserve(0, 6)
        ledger.overflow(3)
        ledger.checkpoint(4, HASH)
        ledger.resume(4)
        ledger.reserve(4, num_steps)
        ledger.complete({"key": "destroyed"})
    return path


def test_a_step_that_is_executed_again_in_its_branch_counts_once(path):
    record = read_ledger(finished(path))
    assert record.num_counted == 10
    assert record.num_abandoned == 0
    assert record.num_resumes == 1
    assert record.overflows == ((0, 3),)
    assert record.completion is not None


def test_an_abandoned_end_of_a_branch_stays_counted_and_fewer_steps_remain(path):
    with Ledger.create(path, {"num_steps": 10}) as ledger:
        ledger.reserve(0, 7)
        ledger.checkpoint(4, HASH)
        ledger.resume(4, new_branch_reason="another machine")
        assert (ledger.branch, ledger.num_left) == (1, 3)
        ledger.reserve(4, 7)
        assert ledger.record.num_counted == 10
        assert ledger.record.num_abandoned == 3
        with pytest.raises(LedgerError, match="planned steps"):
            ledger.reserve(7, 8)


def test_nothing_is_written_for_steps_that_are_counted_already(path):
    with Ledger.create(path, {"num_steps": 10}) as ledger:
        ledger.reserve(0, 5)
        ledger.overflow(2)
        before = path.read_bytes()
        ledger.reserve(3, 5)
        ledger.overflow(2)
        assert path.read_bytes() == before


def test_an_entry_is_on_the_disk_before_the_call_returns(path, monkeypatch):
    with Ledger.create(path, {"num_steps": 10}) as ledger:
        seen = []
        monkeypatch.setattr(os, "fsync", lambda descriptor: seen.append(path.read_bytes()))
        ledger.reserve(0, 5)
    assert len(seen) == 1
    assert b'"reserve"' in seen[0]


def test_an_impossible_entry_never_reaches_the_file(path):
    with Ledger.create(path, {"num_steps": 10}) as ledger:
        before = path.read_bytes()
        with pytest.raises(LedgerError):
            ledger.reserve(5, 6)
        assert path.read_bytes() == before
        ledger.reserve(0, 1)


@pytest.mark.parametrize("number", range(6))
def test_every_removed_line_but_the_last_breaks_the_chain(path, number):
    lines = finished(path).read_bytes().splitlines(keepends=True)
    assert len(lines) == 7
    path.write_bytes(b"".join(lines[:number] + lines[number + 1 :]))
    with pytest.raises(LedgerError):
        read_ledger(path)


def test_a_removed_last_line_changes_the_head(path):
    whole = read_ledger(finished(path))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    shorter = read_ledger(path)
    assert shorter.head != whole.head
    assert shorter.completion is None


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_every_changed_byte_is_caught(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger") / "ledger.jsonl"
    original = finished(path).read_bytes()
    place = data.draw(st.integers(0, len(original) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda b: b != original[place]))
    path.write_bytes(original[:place] + bytes([value]) + original[place + 1 :])
    with pytest.raises(LedgerError):
        read_ledger(path)


def test_lines_in_another_order_are_caught(path):
    lines = finished(path).read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[2], lines[1], *lines[3:]]))
    with pytest.raises(LedgerError, match="line 2"):
        read_ledger(path)


def test_an_entry_rewritten_with_its_own_hash_breaks_the_next_line(path):
    """Editing one line and fixing its hash is not enough: later lines cover it."""
    lines = finished(path).read_bytes().splitlines()
    entry = json.loads(lines[1])
    entry["stop"] = 5
    lines[1] = json.dumps(entry, sort_keys=True, separators=(",", ":")).encode()
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(LedgerError, match="changed, removed or added"):
        read_ledger(path)


def test_a_torn_last_line_is_cut_off_on_opening_and_refused_on_reading(path):
    with Ledger.create(path, {"num_steps": 10}) as ledger:
        ledger.reserve(0, 5)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kind":"reserve","branch":0,"fi')
    with pytest.raises(LedgerError, match="whole line"):
        read_ledger(path)
    with Ledger.open(path) as ledger:
        assert ledger.record.num_counted == 5
        ledger.reserve(5, 6)
    assert path.read_bytes().startswith(whole)
    assert read_ledger(path).num_counted == 6


@pytest.mark.parametrize("content", [b'{"kind":"sta', bytes(100)])
def test_a_file_without_a_whole_line_is_refused_and_left_alone(path, content):
    path.write_bytes(content)
    with pytest.raises(LedgerError, match="must have a start"), Ledger.open(path) as ledger:
        assert ledger.record
    assert path.read_bytes() == content


def test_a_full_disk_leaves_the_ledger_as_it_was(path, monkeypatch):
    with Ledger.create(path, {"num_steps": 10}) as ledger:
        before = path.read_bytes()
        write = os.write
        monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
        with pytest.raises(RunError, match="the disk is full"):
            ledger.reserve(0, 5)
        monkeypatch.undo()
        assert path.read_bytes() == before
        ledger.reserve(0, 5)
    assert read_ledger(path).num_counted == 5


def test_an_interruption_while_an_entry_is_written_leaves_the_ledger_as_it_was(path, monkeypatch):
    sync = os.fsync

    def interrupted(descriptor):
        sync(descriptor)
        raise KeyboardInterrupt

    with Ledger.create(path, {"num_steps": 10}) as ledger:
        before = path.read_bytes()
        monkeypatch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.reserve(0, 5)
        monkeypatch.undo()
        assert path.read_bytes() == before
        assert ledger.num_left == 10
        ledger.reserve(0, 5)
        ledger.checkpoint(5, HASH)
    assert read_ledger(path).num_counted == 5


def test_a_second_process_is_refused(path):
    with Ledger.create(path, {"num_steps": 10}):
        code = (
            "import sys; from reldp.runs.ledger import Ledger\n"
            "try: Ledger.open(sys.argv[1])\n"
            "except Exception as error: print(type(error).__name__, error)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
        )
    assert "RunError ledger.jsonl must have one writer" in done.stdout
    with Ledger.open(path) as ledger:
        ledger.reserve(0, 1)


def test_an_existing_ledger_is_not_created_anew(path):
    finished(path)
    with pytest.raises(LedgerError, match="must be new"):
        Ledger.create(path, {"num_steps": 10})


def test_a_missing_or_empty_ledger_is_a_clear_error(path):
    with pytest.raises(LedgerError, match="must be there"):
        read_ledger(path)
    path.write_bytes(b"")
    with pytest.raises(LedgerError, match="must have a start"):
        read_ledger(path)


@settings(max_examples=60, deadline=None)
@given(
    moves=st.lists(
        st.tuples(st.sampled_from(["reserve", "checkpoint", "again", "branch"]), st.integers(1, 9)),
        max_size=25,
    )
)
def test_counts_agree_with_a_plain_set_of_steps(moves, tmp_path_factory):
    """Oracle: the set of (branch, step) that were ever reserved."""
    path = tmp_path_factory.mktemp("ledger") / "ledger.jsonl"
    counted, saved, stop, branch = set(), 0, 0, 0
    with Ledger.create(path, {"num_steps": 60}) as ledger:
        for move, size in moves:
            if move == "reserve":
                size = min(size, 60 - len(counted))
                if size:
                    ledger.reserve(stop, stop + size)
                    counted |= {(branch, step) for step in range(stop, stop + size)}
                    stop += size
            elif move == "checkpoint":
                if saved < stop - size:
                    saved = stop - size
                    ledger.checkpoint(saved, HASH)
            else:
                ledger.resume(saved, new_branch_reason="a reason" if move == "branch" else None)
                if move == "branch":
                    branch, stop = branch + 1, saved
        assert ledger.record.num_counted == len(counted)
        assert ledger.num_left == 60 - len(counted)
    assert read_ledger(path).num_counted == len(counted)


def test_start_and_end_carry_the_day_and_nothing_carries_a_time(path):
    """The time that steps take depends on how many tuples were drawn."""
    for line in finished(path).read_text().splitlines():
        entry = json.loads(line)
        assert "time" not in entry
        assert not re.search(r"\d:\d\d", line)
        assert ("date" in entry) == (entry["kind"] in ("start", "complete"))
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", entry.get("date", "2026-01-01"))


def test_audits_are_in_the_chain_after_the_completion(path):
    with Ledger.open(finished(path)) as ledger:
        ledger.append_audit({"epsilon": 0.5})
        ledger.append_audit({"epsilon": 0.7})
        with pytest.raises(LedgerError, match="audits after its completion"):
            ledger.resume(4)
    record = read_ledger(path)
    assert record.audits == ({"epsilon": 0.5}, {"epsilon": 0.7})
    assert record.completion["key"] == "destroyed"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:-2], lines[-1]]))
    with pytest.raises(LedgerError):
        read_ledger(path)


def test_a_run_that_lasts_cannot_have_audits(path):
    with (
        Ledger.create(path, {"num_steps": 10}) as ledger,
        pytest.raises(LedgerError, match="audits after its completion"),
    ):
        ledger.append_audit({"epsilon": 0.5})


@pytest.mark.parametrize(
    "line", [b'{"hash":"","kind":NaN}', b"[" * 100_000, b'{"kind":"start"}', b"\xff", b"[]", b"7"]
)
def test_lines_that_are_no_entries_are_one_clear_line(path, line):
    path.write_bytes(line + b"\n")
    with pytest.raises(LedgerError, match="line 1 must"):
        read_ledger(path)


def test_a_ledger_that_was_moved_or_replaced_takes_no_more_entries(path, tmp_path):
    with Ledger.create(path, {"num_steps": 10}) as ledger:
        ledger.reserve(0, 2)
        path.rename(tmp_path / "elsewhere.jsonl")
        for content in (None, (tmp_path / "elsewhere.jsonl").read_bytes()):
            if content is not None:
                path.write_bytes(content)
            with pytest.raises(RunError, match="must stay in its place while the run is open"):
                ledger.reserve(2, 4)
        path.unlink()
        (tmp_path / "elsewhere.jsonl").rename(path)
        ledger.reserve(2, 4)
    assert read_ledger(path).num_counted == 4


@pytest.mark.parametrize("change", ["older", "cut", "emptied", "same size"])
def test_a_ledger_that_somebody_else_writes_takes_no_more_entries(path, change):
    with Ledger.create(path, {"num_steps": 10}) as ledger:
        older = path.read_bytes()
        ledger.reserve(0, 3)
        now = path.read_bytes()
        other = {"older": older, "cut": now[:-9], "emptied": b"", "same size": now[:-9] + b"0" * 9}
        path.write_bytes(other[change])
        for use in (lambda: ledger.reserve(3, 6), lambda: ledger.hashes, ledger.check_place):
            with pytest.raises(RunError, match="must be written by the run alone"):
                use()
        assert path.read_bytes() == other[change]
        path.write_bytes(now)
        ledger.reserve(3, 6)  # put back


def test_a_pipe_a_device_and_a_link_are_no_ledgers(path, tmp_path):
    whole = finished(tmp_path / "whole.jsonl")
    makers = (
        lambda: os.mkfifo(path),
        lambda: path.symlink_to("/dev/zero"),
        lambda: path.symlink_to(whole),
    )
    for make in makers:
        make()
        with pytest.raises(RunError):
            Ledger.open(path)
        with pytest.raises(LedgerError):
            read_ledger(path)
        path.unlink()
