"""Files that survive a crash."""

import errno
import os
import stat
from pathlib import Path

import pytest

from reldp.errors import RunError
from reldp.runs.durable import (
    TEMPORARY,
    disk_errors,
    lock_or_refuse,
    remove_durably,
    remove_leftovers,
    sync_folder,
    write_durably,
    write_whole,
    write_with,
)


def test_a_file_is_replaced_whole_and_leaves_no_temporary_one(tmp_path):
    path = tmp_path / "plan.json"
    write_durably(path, b"old")
    write_durably(path, b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]


def test_permissions_hold_from_the_first_byte(tmp_path):
    write_durably(tmp_path / "key", b"secret", mode=0o600)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "checkpoint"
    write_durably(path, b"old")

    def full(partial: Path) -> None:
        partial.write_bytes(b"half of the ne")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(RunError, match=r"checkpoint could not be written: the disk is full"):
        write_with(path, full)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]


def test_what_a_crash_left_under_the_temporary_name_is_written_over(tmp_path):
    (tmp_path / f"plan.json{TEMPORARY}").write_bytes(b"torn")
    write_durably(tmp_path / "plan.json", b"whole")
    assert (tmp_path / "plan.json").read_bytes() == b"whole"


def test_data_is_flushed_before_the_rename_and_the_folder_after_it(tmp_path, monkeypatch):
    order = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("fsync"), fsync(fd)))
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append("replace"), replace(a, b)))
    write_durably(tmp_path / "x", b"data")
    assert order == ["fsync", "replace", "fsync"]


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.EROFS, "read-only"), (errno.EACCES, "may not be written"), (errno.EIO, "error")],
)
def test_every_refusal_of_the_system_is_one_clear_line(number, words):
    with pytest.raises(RunError, match=words), disk_errors(Path("ledger.jsonl")):
        raise OSError(number, os.strerror(number))


def test_removing_and_flushing_folders(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("x")
    sync_folder(tmp_path / "a")
    remove_durably(tmp_path / "a" / "b" / "file")
    remove_durably(tmp_path / "a" / "b" / "file")
    assert not (tmp_path / "a" / "b" / "file").exists()


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("I/O error: No space left on device (os error 28)", "the disk is full"),
        ("No such file or directory (os error 2)", "No such file or directory"),
    ],
)
def test_errors_that_quote_those_of_the_system_are_clear_too(tmp_path, words, shown):
    with (
        pytest.raises(RunError, match=f"model could not be written: {shown}"),
        disk_errors(tmp_path / "model"),
    ):
        raise Exception(words)
    with pytest.raises(KeyError), disk_errors(tmp_path / "model"):
        raise KeyError("something else")


def test_a_lock_has_one_holder_and_ends_with_it(tmp_path):
    place = tmp_path / "file"
    place.touch()
    with place.open() as first, place.open() as second:
        lock_or_refuse(first.fileno(), "file", "Somebody has it.")
        with pytest.raises(RunError, match=r"^file must have one writer, got a second\. Somebody"):
            lock_or_refuse(second.fileno(), "file", "Somebody has it.")
        first.close()
        lock_or_refuse(second.fileno(), "file", "Somebody has it.")


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(RunError, match="file could not be locked: No locks available"):
        lock_or_refuse(0, "file", "Somebody has it.")


def test_leftovers_of_the_given_names_are_removed_and_nothing_else(tmp_path):
    for name in ("a.partial", "b.partial", "other.partial", "a"):
        (tmp_path / name).write_text("x")
    remove_leftovers(tmp_path, ["a", "b", "missing"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "other.partial"]
    remove_leftovers(tmp_path / "nowhere", ["a"])


def test_only_regular_files_are_leftovers_and_no_link_is_followed(tmp_path):
    target, folder = tmp_path / "target", tmp_path / "folder"
    folder.mkdir()
    target.write_text("mine")
    (folder / "link.partial").symlink_to(target)
    (folder / "folder.partial").mkdir()
    os.mkfifo(folder / "pipe.partial")
    names = sorted(os.listdir(folder))
    remove_leftovers(folder, ["link", "folder", "pipe"])
    assert sorted(os.listdir(folder)) == names
    assert target.read_text() == "mine"
    (folder / "a.partial").touch()
    (tmp_path / "linked").symlink_to(folder)
    remove_leftovers(tmp_path / "linked", ["a"])
    assert (folder / "a.partial").exists()


def test_a_file_that_is_being_written_is_no_leftover(tmp_path, monkeypatch):
    replace, seen = os.replace, []

    def look_then_replace(source, target):
        remove_leftovers(
            tmp_path, ["plan.json"]
        )  # as another process would: with a descriptor of its own
        seen.append(Path(source).exists())
        replace(source, target)

    monkeypatch.setattr(os, "replace", look_then_replace)
    write_durably(tmp_path / "plan.json", b"whole")
    assert seen == [True]
    assert (tmp_path / "plan.json").read_bytes() == b"whole"


def test_a_leftover_stays_where_nobody_can_know_whether_it_is_being_written(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    (tmp_path / "plan.json.partial").touch()
    monkeypatch.setattr("fcntl.flock", refuse)
    remove_leftovers(tmp_path, ["plan.json"])
    assert (tmp_path / "plan.json.partial").exists()
    write_durably(tmp_path / "plan.json", b"whole")  # files are written without locks, too
    assert os.listdir(tmp_path) == ["plan.json"]


def test_a_write_that_stops_half_way_has_the_reason_of_the_system(tmp_path, monkeypatch):
    wrote, write = [], os.write

    def short(descriptor, data):
        wrote.append(bytes(data))
        if len(wrote) == 1:
            return write(descriptor, data[:3])
        raise OSError(errno.EFBIG, "File too large")

    with (tmp_path / "x").open("wb") as file:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", short)
            with pytest.raises(OSError, match="File too large"):
                write_whole(file.fileno(), b"abcdef")
            assert wrote == [b"abcdef", b"def"]
            patch.setattr(os, "write", lambda descriptor, data: 1)
            with pytest.raises(OSError, match="No space left"):
                write_whole(file.fileno(), b"abcdef")
        write_whole(file.fileno(), b"ghi")
    assert (tmp_path / "x").read_bytes() == b"abcghi"
