"""Builds that are killed or meet a full disk: the previous store stays, and nothing half is left."""

import errno
import os
import shutil
import stat
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.store import BuildSettings, build_store, places
from reldp.graph.store.arrays import GrowingArray
from reldp.graph.store.buckets import Buckets
from reldp.graph.store.column_file import ColumnWriter
from tests.graph.folders import RELATIONS, folder_of
from tests.graph.store.test_build import files_of

SMALL = BuildSettings(memory_limit="200MB", threads=1)
CALLS = ("open", "rename", "replace", "mkdir", "unlink", "rmdir", "fsync", "posix_fallocate")


class Killed(BaseException):
    """Stands for a signal that ends the process: nothing is cleaned up after it."""


class Machine:
    """The operating system's calls, of which one is the last."""

    def __init__(self, monkeypatch, calls_left: int, names: tuple[str, ...] = CALLS) -> None:
        self.calls_left = calls_left
        self._patch = monkeypatch
        for name in names:
            monkeypatch.setattr(os, name, self._counted(getattr(os, name)))
        monkeypatch.setattr(places, "_exchange", self._counted(places._exchange))
        monkeypatch.setattr(shutil, "rmtree", self._counted(shutil.rmtree))

    def _counted(self, call):
        def counted(*arguments, **options):
            self.calls_left -= 1
            if self.calls_left < 0:
                raise Killed
            return call(*arguments, **options)

        return counted

    def end(self) -> None:
        """Release the locks, as the system does when a process ends."""
        self._patch.undo()
        for link in Path("/proc/self/fd").iterdir():
            if link.is_symlink() and ".lock" in os.readlink(link):
                os.close(int(link.name))


@pytest.fixture
def source(tmp_path) -> Path:
    (tmp_path / "graph").mkdir()
    return folder_of(tmp_path / "graph")


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_build_that_is_killed_anywhere_leaves_the_old_store_or_the_new_one(
    source, tmp_path, monkeypatch, can_exchange
):
    store, temp = tmp_path / "store", tmp_path / "temp"
    settings = BuildSettings(memory_limit="200MB", threads=1, temp_dir=temp)
    old = build_store(source, store).build_hash
    (source / "relations.csv").write_text(RELATIONS + "a,c\n")
    new = build_store(source, tmp_path / "other").build_hash
    seen, between = set(), 0
    for number in range(1000):
        with monkeypatch.context() as patch:
            if not can_exchange:
                patch.setattr(places, "_exchange", lambda one, other: False)
            machine = Machine(patch, number, CALLS if can_exchange else ("rename", "fsync"))
            try:
                build_store(source, store, overwrite=True, settings=settings)
                break
            except Killed:
                machine.end()
        if not store.exists():  # between two renames, which the next build mends
            between += 1
            assert not can_exchange
            with places.exclusive(tmp_path / ".store.lock"):
                places.settle(store)
        reread = EntityGraph.read(store)
        reread.relations, reread.degrees, reread.entities  # noqa: B018  # checked when they are read
        seen.add(reread.build_hash)
        if reread.build_hash == new:
            shutil.copytree(tmp_path / "first", store, dirs_exist_ok=True)
        elif number == 0:
            shutil.copytree(store, tmp_path / "first")
    assert number > (40 if can_exchange else 4)
    assert seen == {old, new}
    assert between == (0 if can_exchange else 1)
    assert sorted(os.listdir(tmp_path)) == ["first", "graph", "other", "store", "temp"]
    assert os.listdir(temp) == []


@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize(
    ("place", "name"),
    [
        (os, "posix_fallocate"),
        (os, "mkdir"),
        (os, "fsync"),
        (ColumnWriter, "_write"),
        (Buckets, "_flush"),
        (places, "_exchange"),
    ],
)
def test_a_full_disk_is_one_line_and_the_old_store_stays(
    source, tmp_path, monkeypatch, place, name, after
):
    store = tmp_path / "store"
    build_store(source, store)
    before = files_of(store)
    (source / "relations.csv").write_text(RELATIONS + "a,c\n")
    call, calls = getattr(place, name), 0

    def full(*arguments, **options):
        nonlocal calls
        calls += 1
        if calls > after:
            raise OSError(errno.ENOSPC, "No space left on device")
        return call(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(place, name, full)
        words = r"^\S*store\S* could not be written: the disk is full\. Free some space and run the same"
        enough = name.startswith("_") and after  # a small store has one of each
        with nullcontext() if enough else pytest.raises(GraphError, match=words):
            build_store(source, store, overwrite=True, settings=SMALL)
    if enough:
        assert calls == 1
        return
    assert files_of(store) == before
    assert sorted(os.listdir(tmp_path)) == ["graph", "store"]


def test_a_full_disk_while_capping_leaves_the_store_as_it_was(source, tmp_path, monkeypatch):
    store = build_store(source, tmp_path / "store")
    before = files_of(store.folder)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(GrowingArray, "grow", full)
        with pytest.raises(GraphError, match="could not be written: the disk is full"):
            store.cap_degrees(1, 0)
    assert files_of(store.folder) == before
    assert store.cap_degrees(1, 0).num_relations > 0


def test_everything_in_a_store_is_for_its_owner_alone(source, tmp_path):
    old = os.umask(0o022)
    try:
        store = build_store(source, tmp_path / "store")
        store.cap_degrees(1, 0)
        store.select_entities(np.arange(store.num_entities) > 0).degrees.sum()
        record = store.record
        store.keep_relations(np.arange(store.num_relations) > 0, record=record).degrees.sum()
    finally:
        os.umask(old)
    paths = [store.folder, *store.folder.rglob("*")]
    assert len(paths) > 12
    for path in paths:
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path
