"""Links are not followed, pipes and devices not waited for, and every entry is listed."""

import hashlib
import os
import socket
from pathlib import Path

import pytest

from reldp.errors import RunError
from reldp.runs.plain_files import hash_plain, list_plain, read_plain


def test_a_regular_file_is_read_and_hashed(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"content")
    assert read_plain(path, limit=7) == b"content"
    assert hash_plain(path) == hashlib.sha256(b"content").hexdigest()
    with pytest.raises(RunError, match="at most 6 bytes"):
        read_plain(path, limit=6)


def make_link(path):
    path.with_name("real").write_bytes(b"x")
    path.symlink_to("real")


def make_loop(path):
    path.symlink_to(path.name)


def make_socket(path):
    """A socket in the file system; its name must be short."""
    here = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{here}/{path.name}")
    finally:
        os.close(here)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (make_link, "a link"),
        (make_loop, "a link"),
        (lambda path: path.symlink_to("/dev/zero"), "a link"),
        (os.mkfifo, "a named pipe"),
        (Path.mkdir, "folder|directory"),
        (make_socket, "No such device|socket"),
        (lambda path: None, "No such file"),
    ],
)
@pytest.mark.parametrize("use", [lambda path: read_plain(path, limit=9), hash_plain])
def test_nothing_else_is_opened_or_waited_for(tmp_path, make, words, use):
    make(tmp_path / "x")
    with pytest.raises(RunError, match=words) as caught:
        use(tmp_path / "x")
    assert str(caught.value).startswith("x must ")


def test_a_device_is_no_file():
    with pytest.raises(RunError, match="a device"):
        read_plain(Path("/dev/zero"), limit=9)


def test_everything_below_a_folder_is_listed_once(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").mkdir()
    (tmp_path / "a" / "x").write_bytes(b"")
    (tmp_path / ".hidden").write_bytes(b"")
    (tmp_path / "away").symlink_to("/")
    os.mkfifo(tmp_path / "a" / "pipe")
    found = list_plain(tmp_path)
    assert found.files == (".hidden", "a/x")
    assert found.empty == ("a/b",)
    assert found.odd == {"away": "a link", "a/pipe": "a named pipe"}


def test_folders_without_end_are_refused(tmp_path):
    deep = tmp_path.joinpath(*["d"] * 40)
    deep.mkdir(parents=True)
    with pytest.raises(RunError, match="so many folders"):
        list_plain(tmp_path)
    with pytest.raises(RunError, match="must be there"):
        list_plain(tmp_path / "none")


def test_a_file_of_holes_is_refused_before_it_is_read(tmp_path, monkeypatch):
    place = tmp_path / "model.safetensors"
    place.write_bytes(b"x" * 5000)
    os.truncate(place, 1 << 40)
    monkeypatch.setattr(hashlib, "file_digest", None)
    with pytest.raises(RunError, match=r"got 1,099,511,627,776 bytes of which [\d,]+ are there"):
        hash_plain(place)


def test_a_file_with_some_holes_is_hashed(tmp_path):
    place = tmp_path / "weights"
    with open(place, "wb") as file:
        for start in range(0, 40 << 20, 4 << 20):
            file.seek(start)
            file.write(b"y" * (1 << 18))
        file.truncate(40 << 20)
    assert hash_plain(place) == hashlib.sha256(place.read_bytes()).hexdigest()
    place.write_bytes(bytes(20 << 20))  # zeros, and no holes
    assert hash_plain(place) == hashlib.sha256(bytes(20 << 20)).hexdigest()
