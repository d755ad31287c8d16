"""What is computed from a store is kept beside it, whole or not at all."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from reldp.errors import GraphError
from reldp.graph.store import derived as module
from reldp.graph.store.derived import derived, is_derived, scratch_in, store_of

ON = {"build_hash": "x", "number": 3}


def make(folder):
    (folder / "scratch" / "temporary").write_text("")
    np.save(folder / "numbers.npy", np.arange(4))
    return {"sum": 6}


def refuse(folder):
    raise AssertionError("made again")


def test_it_is_made_once_for_the_same_settings(tmp_path):
    assert not is_derived(tmp_path, "kind", ON)
    one = derived(tmp_path, "kind", ON, make)
    assert one.values == {"sum": 6}
    assert one.array("numbers.npy").tolist() == [0, 1, 2, 3]
    assert is_derived(tmp_path, "kind", ON)
    assert derived(tmp_path, "kind", ON, refuse) == one
    assert not is_derived(tmp_path, "kind", ON | {"number": 4})
    assert sorted(p.name for p in one.folder.iterdir()) == ["derived.json", "numbers.npy"]
    assert len(list((tmp_path / "kind").iterdir())) == 1


def test_a_failure_leaves_nothing(tmp_path):
    def full(folder):
        make(folder)
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(GraphError, match=r"^kind could not be written: the disk is full"):
        derived(tmp_path, "kind", ON, full)
    assert list((tmp_path / "kind").iterdir()) == []


def test_damage_is_found(tmp_path):
    one = derived(tmp_path, "kind", ON, make)
    path = one.folder / "numbers.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(GraphError, match=r"numbers\.npy must be as it was built"):
        derived(tmp_path, "kind", ON, refuse).array("numbers.npy")
    (one.folder / "derived.json").write_text("{")
    assert derived(tmp_path, "kind", ON, make).array("numbers.npy").sum() == 6


def test_a_store_that_cannot_be_written_to_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    one = derived(tmp_path, "kind", ON, make)
    assert list(tmp_path.iterdir()) == []
    assert derived(tmp_path, "kind", ON, refuse) == one
    assert module._temporary_folder(tmp_path) in one.folder.parents


def test_temporary_files_on_a_full_disk_are_one_clear_line_and_gone(tmp_path):
    def fill():
        with scratch_in(tmp_path) as folder:
            (folder / "some").write_text("x")
            raise OSError(errno.ENOSPC, "No space left on device")

    words = f"^temporary files in {tmp_path.name} could not be written: the disk is full"
    with pytest.raises(GraphError, match=words):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_named_is_one_clear_line(tmp_path):
    one = derived(tmp_path, "kind", ON, make)
    assert one.is_new
    assert not derived(tmp_path, "kind", ON, refuse).is_new
    with pytest.raises(GraphError, match=r"^derived\.json in kind/\w+ must be as it was made, got"):
        one.array("other.npy")


@pytest.mark.parametrize("place", ["kind", "kind/{}", "kind/{}.lock", "kind/.{}.partial"])
def test_a_link_in_the_store_of_somebody_else_is_not_followed(tmp_path, place):
    outside, store, control = (tmp_path / name for name in ("outside", "store", "control"))
    for folder in (outside, store, control):
        folder.mkdir()
    name = derived(control, "kind", ON, make).folder.name
    link = store / place.format(name)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside / "p" if place.endswith("lock") else outside)
    words = r"^kind.* in store must be in the store itself, got a link: .* Remove the link\.$"
    for look in (lambda: derived(store, "kind", ON, refuse), lambda: is_derived(store, "kind", ON)):
        with pytest.raises(GraphError, match=words):
            look()
    assert list(outside.iterdir()) == []
    link.unlink()
    assert derived(store, "kind", ON, make).is_new  # the way out


def test_the_folder_of_a_store_may_be_a_link(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "link").symlink_to("store")
    derived(tmp_path / "link", "kind", ON, make)
    assert is_derived(tmp_path / "store", "kind", ON)


@pytest.mark.parametrize("place", ["kind/{}", "kind/.{}.partial"])
@pytest.mark.parametrize("what", [os.mkfifo, Path.touch])
def test_a_pipe_in_the_place_of_a_folder_blocks_nothing(tmp_path, place, what):
    """Opening a named pipe waits for a writer; removing it does not open it."""
    store, control = tmp_path / "store", tmp_path / "control"
    for folder in (store, control):
        folder.mkdir()
    path = store / place.format(derived(control, "kind", ON, make).folder.name)
    path.parent.mkdir()
    what(path)
    code = (
        "from tests.graph.store.test_derived import *; "
        f"derived(Path({str(store)!r}), 'kind', ON, make)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert is_derived(store, "kind", ON)


def test_a_file_of_that_name_in_a_graph_of_somebody_else_leads_nowhere(tmp_path):
    """Private sizes would be written two folders above the graph."""
    graph = tmp_path / "out" / "mid" / "graph"
    graph.mkdir(parents=True)
    (graph / "derived.json").touch()
    assert store_of(graph) == graph
    (tmp_path / "out" / "derived.json").touch()
    assert store_of(graph) == graph
    part = tmp_path / "out" / "parts" / "half" / "parts" / "quarter"
    part.mkdir(parents=True)
    for folder in (part, part.parent.parent):
        (folder / "derived.json").touch()
    (tmp_path / "out" / "derived.json").unlink()
    (tmp_path / "out" / "store.json").touch()
    assert store_of(part) == tmp_path / "out", "a part of a part leads to the store"
