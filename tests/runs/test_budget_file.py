"""A budget's file loses no entry: not by a missing line end, an older copy, a second copy or two writers."""

import os
import shutil
import threading

import pytest

from reldp.errors import ConfigError, LedgerError, RunError
from reldp.runs import budget_file
from reldp.runs.budget import Budget
from reldp.runs.budget_file import NAME, BudgetFile, holds_budget

FIRST = {"kind": "budget", "format": 1, "id": "0" * 32, "unit": "entity", "date": "2026-01-01"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "state"))
    BudgetFile.create(tmp_path, FIRST)
    return tmp_path


def append(folder, number):
    file = BudgetFile.open(folder)
    try:
        file.append({"number": number})
    finally:
        file.close()


def numbers(folder):
    file = BudgetFile.open(folder, read_only=True)
    file.close()
    return [entry["number"] for entry in file.entries[1:]]


def test_a_folder_holds_the_budget_of_its_first_line_and_none_that_it_names_as_lost(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "state"))
    BudgetFile.create(tmp_path, {**FIRST, "lost": [{"id": "1" * 32}]})
    assert holds_budget(tmp_path, "0" * 32)
    assert not holds_budget(tmp_path, "1" * 32)
    for damage in (b'{"id": "0', b"[]", b"\xff"):
        (tmp_path / NAME).write_bytes(damage)
        assert not holds_budget(tmp_path, "0" * 32)


def test_a_whole_last_line_without_its_end_is_kept(folder):
    append(folder, 1)
    place = folder / NAME
    whole = place.read_bytes()
    place.write_bytes(whole[:-1])
    assert numbers(folder) == [1]
    assert place.read_bytes() == whole[:-1]  # reading changes nothing
    append(folder, 2)
    assert numbers(folder) == [1, 2]
    assert place.read_bytes().startswith(whole)


def test_a_part_of_a_line_is_cut_off_by_the_next_writer(folder):
    append(folder, 1)
    place = folder / NAME
    whole = place.read_bytes()
    place.write_bytes(whole + b'{"number":2,"ha')
    assert numbers(folder) == [1]
    append(folder, 3)
    assert numbers(folder) == [1, 3]


def test_an_older_copy_is_refused(folder):
    append(folder, 1)
    place = folder / NAME
    older = place.read_bytes()
    append(folder, 2)
    newest = place.read_bytes()
    place.write_bytes(older)
    for read_only in (True, False):
        with pytest.raises(LedgerError, match="got an older copy"):
            BudgetFile.open(folder, read_only=read_only)
    place.write_bytes(newest)
    append(folder, 3)
    assert numbers(folder) == [1, 2, 3]


def test_of_two_copies_one_goes_on(folder, tmp_path):
    append(folder, 1)
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / NAME).write_bytes((folder / NAME).read_bytes())
    append(tmp_path / "copy", 2)
    with pytest.raises(LedgerError, match="one of two that were continued"):
        append(folder, 3)
    assert numbers(tmp_path / "copy") == [1, 2]


def test_a_copy_that_went_on_while_the_other_one_was_open_is_not_forgotten(folder, tmp_path):
    append(folder, 1)
    held = BudgetFile.open(folder)
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(folder / NAME, copy)  # has a lock of its own
    append(copy, 2)
    before = (folder / NAME).read_bytes()
    with pytest.raises(LedgerError, match="one of two that were continued"):
        held.append({"kind": "run", "number": 3})
    held.close()
    assert (folder / NAME).read_bytes() == before
    with pytest.raises(LedgerError, match="got an older copy"):
        BudgetFile.open(folder)
    append(copy, 4)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_line_that_may_be_known_stays_whatever_interrupts_its_note(folder, monkeypatch, moment):
    append(folder, 1)
    real = budget_file.note

    def interrupted(*words, **more):
        if moment == "after":
            real(*words, **more)
        raise KeyboardInterrupt

    held = BudgetFile.open(folder)
    with monkeypatch.context() as patch:
        patch.setattr(budget_file, "note", interrupted)
        with pytest.raises(KeyboardInterrupt):
            held.append({"kind": "run", "number": 2})
    held.append({"kind": "run", "number": 3})  # the same process goes on
    held.close()
    assert numbers(folder) == [1, 2, 3]


def test_writers_wait_for_one_another(folder, monkeypatch):
    held = BudgetFile.open(folder)
    waiting = threading.Thread(target=append, args=(folder, 2))
    waiting.start()
    held.append({"number": 1})
    held.close()
    waiting.join(30)
    assert numbers(folder) == [1, 2]
    held = BudgetFile.open(folder)
    monkeypatch.setattr(budget_file, "PATIENCE", 0.1)
    with pytest.raises(RunError, match="one writer"):
        BudgetFile.open(folder)
    held.close()


def test_a_file_that_was_replaced_while_waiting_is_opened_again(folder, monkeypatch):
    place = folder / NAME
    lock, replaced = budget_file._lock, []

    def replacing(descriptor, read_only, deadline):
        lock(descriptor, read_only, deadline)
        if not replaced:
            replaced.append(True)
            (folder / "new").write_bytes(place.read_bytes())
            os.replace(folder / "new", place)

    monkeypatch.setattr(budget_file, "_lock", replacing)
    append(folder, 1)
    assert numbers(folder) == [1]
    assert replaced


def test_one_of_two_that_make_a_budget_is_refused(folder):
    append(folder, 1)
    with pytest.raises(ConfigError, match="must be new"):
        BudgetFile.create(folder, FIRST)
    assert numbers(folder) == [1]
    assert sorted(p.name for p in folder.iterdir()) == [NAME, "state"]


def test_a_file_that_is_far_too_large_is_refused_unread(folder):
    os.truncate(folder / NAME, 2**32)
    with pytest.raises(LedgerError, match="at most 268,435,456 bytes"):
        BudgetFile.open(folder)


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_what_is_no_regular_file_is_named(tmp_path, kind):
    place = tmp_path / NAME
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "link":
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.mkdir()
    with pytest.raises(ConfigError, match="must be a regular file"):
        BudgetFile.open(tmp_path)


@pytest.mark.parametrize("content", [b'{"a":1}', b"\0" * 40])
def test_a_file_of_another_kind_is_refused_and_left_alone(tmp_path, content):
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(LedgerError):
        Budget.open(tmp_path).close()
    assert (tmp_path / NAME).read_bytes() == content
