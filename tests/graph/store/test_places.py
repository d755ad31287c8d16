"""Folders that appear whole or not at all."""

import os
import threading
from pathlib import Path

import pytest

from reldp.graph.store import places as module
from reldp.graph.store.places import exclusive, put, settle


def folder(path: Path, content: str) -> Path:
    path.mkdir()
    (path / "file").write_text(content)
    return path


@pytest.fixture(params=[True, False])
def exchanging(request, monkeypatch):
    if not request.param:  # another system, which has no such call
        monkeypatch.setattr(module, "_exchange", lambda one, other: False)
    return request.param


def test_a_new_folder_takes_the_name_and_the_old_one_goes(tmp_path, exchanging):
    target = tmp_path / "store"
    put(folder(tmp_path / "one", "1"), target)
    assert (target / "file").read_text() == "1"
    put(folder(tmp_path / "two", "2"), target)
    assert (target / "file").read_text() == "2"
    assert os.listdir(tmp_path) == ["store"]


def test_the_system_exchanges_two_folders_in_one_step(tmp_path):
    one, two = folder(tmp_path / "one", "1"), folder(tmp_path / "two", "2")
    assert module._exchange(one, two)
    assert [(path / "file").read_text() for path in (one, two)] == ["2", "1"]
    with pytest.raises(FileNotFoundError):
        module._exchange(one, tmp_path / "none")


def test_a_folder_that_was_renamed_is_put_back_unless_the_new_one_is_there(tmp_path):
    target = tmp_path / "store"
    folder(tmp_path / ".store.old", "1")
    settle(target)
    assert (target / "file").read_text() == "1"
    folder(tmp_path / ".store.old", "0")
    settle(target)
    assert (target / "file").read_text() == "1"
    assert os.listdir(tmp_path) == ["store"]
    settle(tmp_path / "none")
    assert os.listdir(tmp_path) == ["store"]


def test_one_process_at_a_time_holds_a_lock(tmp_path):
    path = tmp_path / "lock"
    with exclusive(path), pytest.raises(BlockingIOError), exclusive(path, wait=False):
        raise AssertionError("held twice")
    assert not path.exists()
    with exclusive(path, wait=False):
        assert path.stat().st_mode & 0o777 == 0o600


def test_whoever_waited_does_not_take_the_lock_of_a_file_that_was_removed(tmp_path):
    """While the first leaves, the second has its file open; a third would make another file and lock that."""
    path, seen = tmp_path / "lock", []

    def wait() -> None:
        with exclusive(path):
            seen.append(path.exists())

    with exclusive(path):
        waiting = threading.Thread(target=wait)
        waiting.start()
        waiting.join(0.2)
        assert not seen
    waiting.join(10)
    assert seen == [True]  # a file of its own: the first one's was removed
