"""What this machine knows about budgets survives, is bounded, and is refused when it is damaged."""

import json
import os
import stat

import pytest

from reldp.errors import ConfigError, LedgerError, RunError
from reldp.runs import known_budgets
from reldp.runs.budget_file import NAME, BudgetFile
from reldp.runs.known_budgets import (
    FILE_NAME,
    StateFolderWarning,
    known_head,
    lost_budgets,
    note,
)

ID, HEAD = "1" * 32, "a" * 64


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def test_the_newest_head_and_the_folder_are_known(state, tmp_path):
    assert known_head(ID) is None
    assert not lost_budgets(tmp_path)
    note(ID, tmp_path, 2, "b" * 64)
    note(ID, tmp_path, 3, HEAD)
    assert known_head(ID) == HEAD
    assert known_head("2" * 32) is None
    assert lost_budgets(tmp_path / "x" / "..")
    assert stat.S_IMODE((state / FILE_NAME).stat().st_mode) == 0o600


def test_only_budgets_that_were_never_used_are_forgotten_and_only_where_there_are_many(
    state, tmp_path, monkeypatch
):
    monkeypatch.setattr(known_budgets, "_MANY", 3)
    note("3" * 32, tmp_path / "gone", 1, HEAD)
    note("6" * 32, tmp_path / "not mounted", 2, HEAD)
    note(ID, tmp_path, 1, HEAD)
    assert known_head("3" * 32) == HEAD
    note("4" * 32, tmp_path, 1, HEAD)
    note("5" * 32, tmp_path, 1, HEAD)
    assert known_head("3" * 32) is None
    assert known_head(ID) == HEAD
    assert known_head("6" * 32) == HEAD
    assert lost_budgets(tmp_path / "not mounted") == ["6" * 32]


def test_damage_is_refused_and_a_state_that_cannot_be_written_forgets(state, tmp_path, monkeypatch):
    note(ID, tmp_path, 1, HEAD)
    whole = json.loads((state / FILE_NAME).read_text())
    whole["budgets"][ID]["head"] = "x"
    for damaged in (
        "{",
        "[]",
        '{"format": 1}',
        '{"format": 1, "budgets": {"x": 3}}',
        json.dumps(whole),
    ):
        (state / FILE_NAME).write_text(damaged)
        with pytest.raises(LedgerError, match="must be whole, got damage"):
            known_head(ID)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "file"))
    with pytest.raises(
        RunError, match="RELDP_STATE_DIR must be a folder, got the path of something"
    ):
        note(ID, tmp_path, 1, HEAD)


def test_a_state_that_cannot_be_written_forgets_and_says_so_once(tmp_path, monkeypatch, recwarn):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "file" / "state"))
    with pytest.warns(StateFolderWarning, match=r"cannot be written \(Not a directory\), so this"):
        note(ID, tmp_path, 1, HEAD)
    note(ID, tmp_path, 1, HEAD)
    assert not recwarn.list
    assert known_head(ID) is None


@pytest.mark.filterwarnings("ignore::reldp.runs.known_budgets.StateFolderWarning")
@pytest.mark.parametrize("make", [os.mkfifo, lambda place: os.symlink(f"{place}.elsewhere", place)])
def test_a_lock_that_is_no_file_is_neither_followed_nor_waited_for(state, tmp_path, make):
    state.mkdir()
    make(state / "budgets.private.lock")
    note(ID, tmp_path, 1, HEAD)
    assert not (state / "budgets.private.lock.elsewhere").exists()


def test_a_budget_in_a_folder_whose_name_is_no_text_is_refused_before_anything_is_written(
    state, tmp_path
):
    """Its path would make the file unreadable, and with it what is known of all other budgets."""
    entries = {"kind": "budget", "id": ID}, {"kind": "limit"}
    BudgetFile.create(tmp_path / "good", *entries)
    for name in (b"k\xffx", b"\xe9/inner"):
        folder = tmp_path / os.fsdecode(name)
        with pytest.raises(ConfigError, match="must be valid UTF-8"):
            BudgetFile.create(folder, *entries)
        assert not folder.exists()
        folder.mkdir(parents=True)
        (folder / NAME).write_bytes((tmp_path / "good" / NAME).read_bytes())
        with pytest.raises(ConfigError, match="must be valid UTF-8"):
            BudgetFile.open(folder)
    assert known_head(ID) is not None
    BudgetFile.create(tmp_path / "fünf", {"kind": "budget", "id": "2" * 32})
    assert known_head("2" * 32) is not None
