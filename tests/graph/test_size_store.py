import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from reldp.errors import GraphError, RunError
from reldp.graph.size_store import (
    FILE_NAME,
    DifferentReleasesWarning,
    is_remembered,
    kept_releases,
    remembered,
    state_folder,
)

COUNTER = iter(range(10**6))


def stored(folders, fingerprint="f" * 64):
    return remembered(fingerprint, folders, dict, lambda: {"number": next(COUNTER)})


def test_a_release_is_drawn_once(tmp_path):
    assert stored([tmp_path]) == stored([tmp_path])


def test_looking_for_a_release_draws_and_creates_nothing(tmp_path):
    missing = tmp_path / "missing"
    assert not is_remembered("f" * 64, [tmp_path, missing])
    assert list(tmp_path.iterdir()) == []
    stored([tmp_path])
    assert is_remembered("f" * 64, [missing, tmp_path])
    assert not is_remembered("e" * 64, [tmp_path])


def test_another_graph_has_another_release(tmp_path):
    assert stored([tmp_path]) != stored([tmp_path], "e" * 64)


def test_a_release_made_in_memory_is_found_beside_the_graph_and_the_other_way_round(tmp_path):
    state, one, other = tmp_path / "state", tmp_path / "one", tmp_path / "other"
    first = stored([state])
    assert stored([state, one]) == first == stored([one])
    second = stored([state, other], "e" * 64)
    assert stored([state], "e" * 64) == second == stored([other], "e" * 64)


def test_the_file_is_for_its_owner_only_and_names_no_graph(tmp_path):
    stored([tmp_path])
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    assert "f" * 20 not in (tmp_path / FILE_NAME).read_text()
    names = {item.name for item in tmp_path.iterdir()}
    assert names == {FILE_NAME, "sizes.private.lock"}


def test_a_folder_that_replaces_another_has_its_releases(tmp_path):
    old, new, none = (tmp_path / name for name in ("old", "new", "none"))
    release = stored([old])
    new.mkdir()
    with kept_releases(old, new):
        assert stored([new]) == release
    with kept_releases(none, new):
        assert not none.exists()
    assert stat.S_IMODE((new / FILE_NAME).stat().st_mode) == 0o600


def test_two_files_name_a_graph_differently(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    stored([one, other])
    names = [set(json.loads((f / FILE_NAME).read_text())["releases"]) for f in (one, other)]
    assert not names[0] & names[1]


def test_a_folder_that_cannot_be_written_is_skipped(tmp_path):
    (tmp_path / "file").write_text("")
    blocked = tmp_path / "file" / "folder"
    assert stored([blocked, tmp_path]) == stored([tmp_path])
    with pytest.raises(RunError, match="RELDP_STATE_DIR"):
        stored([blocked])


@pytest.mark.parametrize(
    "damage",
    [
        lambda c: "",
        lambda c: "[]",
        lambda c: "{}",
        lambda c: json.dumps({**c, "format": 2}),
        lambda c: json.dumps({**c, "format": True}),
        lambda c: json.dumps({**c, "salt": "00"}),
        lambda c: json.dumps({**c, "salt": None}),
        lambda c: json.dumps({**c, "more": 1}),
        lambda c: json.dumps({**c, "releases": []}),
        lambda c: json.dumps({**c, "releases": {"x": {}}}),
        lambda c: json.dumps(c)[:-1] + ', "format": 1}',
        lambda c: json.dumps(c).replace("1", "NaN", 1),
        lambda c: json.dumps(c)[:-3],
        lambda c: "[" * 100_000,
    ],
)
def test_a_damaged_file_is_refused_and_left_as_it_is(tmp_path, damage):
    stored([tmp_path])
    text = damage(json.loads((tmp_path / FILE_NAME).read_text()))
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(GraphError, match=r"sizes\.private\.json is damaged.*backup"):
        stored([tmp_path])
    assert (tmp_path / FILE_NAME).read_text() == text


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_refused(tmp_path, kind):
    path = tmp_path / FILE_NAME
    make = {"link": lambda: path.symlink_to("nothing"), "pipe": lambda: os.mkfifo(path)}
    make.get(kind, path.mkdir)()
    with pytest.raises(GraphError, match="is damaged"):
        stored([tmp_path])


def test_of_two_different_releases_that_of_the_graphs_own_folder_counts(tmp_path):
    state, graph = tmp_path / "state", tmp_path / "graph"
    one, other = stored([state]), stored([graph])
    with pytest.warns(
        DifferentReleasesWarning, match="each has cost its epsilon; if a file was edi"
    ):
        assert one != other == stored([state, graph])
    assert one == stored([state])


def test_a_release_in_a_folder_that_cannot_be_written_counts(tmp_path, monkeypatch):
    graph, state = tmp_path / "graph", tmp_path / "state"
    first = stored([graph])
    real = os.open

    def read_only(path, flags, *rest, **more):
        if flags & os.O_CREAT and Path(path).parent == graph:
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", read_only)
    assert stored([state, graph]) == first == stored([state]) == stored([graph])


def test_a_file_of_another_user_is_not_called_damaged(tmp_path, monkeypatch):
    stored([tmp_path])
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != FILE_NAME)
    with pytest.raises(GraphError, match="must be readable, and belongs to another user"):
        stored([tmp_path])


def test_a_file_system_without_locks_is_one_clear_line(tmp_path, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(RunError, match="could not be locked: No locks available"):
        stored([tmp_path])


def test_values_that_are_refused_are_not_stored(tmp_path):
    def refuse(values):
        raise GraphError("no")

    with pytest.raises(GraphError, match="no"):
        remembered("f", [tmp_path], refuse, lambda: {"number": 1})
    assert not (tmp_path / FILE_NAME).exists()


RACE = """
import secrets, sys, time
from pathlib import Path
from reldp.graph.size_store import remembered
def draw():
    time.sleep(0.2)
    return {"number": secrets.randbelow(10**12)}
print(remembered("graph", [Path(p) for p in sys.argv[1:]], dict, draw)["number"])
"""


def test_processes_that_race_get_one_release(tmp_path):
    places = [str(tmp_path / "state"), str(tmp_path / "graph")]
    running = [
        subprocess.Popen([sys.executable, "-c", RACE, *places], stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    numbers = {process.communicate()[0] for process in running}
    assert len(numbers) == 1
    assert numbers != {b""}


def test_the_state_folder_follows_the_environment(monkeypatch):
    monkeypatch.setenv("RELDP_STATE_DIR", "/own")
    assert state_folder() == Path("/own")
    monkeypatch.delenv("RELDP_STATE_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", "/xdg")
    assert state_folder() == Path("/xdg/reldp")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert state_folder() == Path(os.path.expanduser("~/.local/state/reldp"))


def test_a_user_without_a_home_has_no_state_folder(monkeypatch):
    """As in a container whose user number is in no table; this ended as an internal error."""

    def unknown():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("RELDP_STATE_DIR")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", unknown)
    assert state_folder() is None
    with pytest.raises(RunError, match="RELDP_STATE_DIR"):
        stored([])


def test_relative_state_folders_are_not_used(monkeypatch):
    """From another working folder the same sizes would be drawn again."""
    monkeypatch.setenv("RELDP_STATE_DIR", "state")
    with pytest.raises(RunError, match="RELDP_STATE_DIR must be an absolute path"):
        state_folder()
    monkeypatch.delenv("RELDP_STATE_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    assert state_folder() == Path(os.path.expanduser("~/.local/state/reldp"))


def test_one_folder_under_two_names_does_not_wait_for_itself(tmp_path):
    """A graph in the state folder, directly or by a link."""
    graph, link = tmp_path / "graph", tmp_path / "link"
    graph.mkdir()
    link.symlink_to(graph)
    command = [sys.executable, "-c", RACE, str(graph), str(link), str(graph)]
    first = subprocess.run(command, capture_output=True, timeout=30, check=True).stdout
    assert first == subprocess.run(command, capture_output=True, timeout=30, check=True).stdout


def test_two_processes_that_name_folders_in_another_order_do_not_wait_for_each_other(tmp_path):
    places = [str(tmp_path / "one"), str(tmp_path / "other")]
    running = [
        subprocess.Popen([sys.executable, "-c", RACE, *order], stdout=subprocess.PIPE)
        for order in (places, places[::-1]) * 2
    ]
    assert len({process.communicate(timeout=60)[0] for process in running}) == 1


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path):
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph" / "sizes.private.lock").symlink_to(tmp_path / "outside")
    folders = [tmp_path / "state", tmp_path / "graph"]
    assert remembered("f", folders, dict, lambda: {"n": 1}) == {"n": 1}
    assert not (tmp_path / "outside").exists()
    assert not (tmp_path / "graph" / "sizes.private.json").exists()
    assert is_remembered("f", [tmp_path / "state"])
