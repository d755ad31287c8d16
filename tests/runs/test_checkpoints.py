"""Checkpoints are written whole, and named by the hash of their file."""

import hashlib
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from reldp.errors import ResumeError, RunError
from reldp.runs import checkpoints as module
from reldp.runs.checkpoints import (
    checkpoint_name,
    read_checkpoint,
    remove_other_checkpoints,
    write_checkpoint,
)

DATA = bytes(range(256)) * 2


def test_what_is_written_is_what_is_read(tmp_path):
    assert read_checkpoint(tmp_path, 3, write_checkpoint(tmp_path, 3, DATA)) == DATA


def test_the_hash_is_that_of_the_file_and_the_same_for_the_same_content(tmp_path):
    sha256 = write_checkpoint(tmp_path, 3, DATA)
    assert sha256 == hashlib.sha256((tmp_path / checkpoint_name(3)).read_bytes()).hexdigest()
    assert write_checkpoint(tmp_path / "other", 3, DATA) == sha256


def test_the_previous_one_is_removed_only_on_request(tmp_path):
    for step in (3, 9, 100):
        write_checkpoint(tmp_path, step, DATA)
    (tmp_path / "step-000000120.safetensors.partial").touch()
    (tmp_path / "notes.txt").touch()
    assert len(list(tmp_path.iterdir())) == 5
    remove_other_checkpoints(tmp_path, 9)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.txt", "step-000000009.safetensors"]


def test_the_previous_one_stays_while_the_next_is_being_written(tmp_path, monkeypatch):
    sha256 = write_checkpoint(tmp_path, 3, DATA)

    def full(path, data, **settings):
        raise RunError("the disk is full.")

    monkeypatch.setattr(module, "write_durably", full)
    with pytest.raises(RunError):
        write_checkpoint(tmp_path, 9, DATA)
    assert read_checkpoint(tmp_path, 3, sha256) == DATA


@pytest.mark.parametrize("place", [-1, 200, 5])
def test_a_changed_byte_is_refused(tmp_path, place):
    sha256 = write_checkpoint(tmp_path, 3, DATA)
    path = tmp_path / checkpoint_name(3)
    data = bytearray(path.read_bytes())
    data[place] ^= 8
    path.write_bytes(data)
    with pytest.raises(ResumeError, match="the ledger names"):
        read_checkpoint(tmp_path, 3, sha256)


def test_a_whole_checkpoint_of_another_run_is_refused(tmp_path):
    sha256 = write_checkpoint(tmp_path, 3, DATA)
    assert write_checkpoint(tmp_path, 3, DATA[:-1]) != sha256
    with pytest.raises(ResumeError, match="belongs to another run"):
        read_checkpoint(tmp_path, 3, sha256)


def test_half_a_file_and_no_file_are_refused(tmp_path):
    with pytest.raises(ResumeError, match="must exist"):
        read_checkpoint(tmp_path, 3, "00" * 32)
    sha256 = write_checkpoint(tmp_path, 3, DATA)
    (tmp_path / checkpoint_name(3)).write_bytes(DATA[:-20])
    with pytest.raises(ResumeError, match="damaged"):
        read_checkpoint(tmp_path, 3, sha256)


def test_a_file_that_no_run_wrote_is_refused_before_it_is_read_whole(tmp_path, monkeypatch):
    with open(tmp_path / checkpoint_name(3), "wb") as file:
        file.truncate(64 << 30)  # holes: it takes no room on the disk
    with pytest.raises(ResumeError, match="the rest are holes"):
        read_checkpoint(tmp_path, 3, "00" * 32)
    sha256 = write_checkpoint(tmp_path, 9, DATA)
    reads = []
    opened = module.open_plain

    @contextmanager
    def watched(path):
        with opened(path) as file:
            plain = file.read
            yield SimpleNamespace(
                **{
                    name: getattr(file, name) for name in ("fileno", "seek", "readinto", "readable")
                },
                read=lambda *given: reads.append(given) or plain(*given),
            )

    monkeypatch.setattr(module, "open_plain", watched)
    assert read_checkpoint(tmp_path, 9, sha256) == DATA
    assert len(reads) == 1
    with pytest.raises(ResumeError, match="the ledger names"):
        read_checkpoint(tmp_path, 9, "00" * 32)
    assert len(reads) == 1
