"""The key is its owner's alone, and gone when the run is over."""

import os
import stat

import pytest

from reldp.errors import ResumeError
from reldp.training.key import GraphSecret, destroy_key, make_key, read_key


def test_a_key_is_read_back_and_readable_by_its_owner_only(tmp_path):
    path = tmp_path / "key"
    key = make_key(path)
    assert len(key) == 32
    assert read_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_keys_differ(tmp_path):
    assert make_key(tmp_path / "one") != make_key(tmp_path / "two")


def test_destroying_overwrites_before_it_removes(tmp_path, monkeypatch):
    path = tmp_path / "key"
    make_key(path)
    seen = []
    unlink = type(path).unlink
    monkeypatch.setattr(
        type(path), "unlink", lambda self, **k: (seen.append(self.read_bytes()), unlink(self, **k))
    )
    destroy_key(path)
    assert seen == [bytes(32)]
    assert not path.exists()
    monkeypatch.undo()
    destroy_key(path)


@pytest.mark.parametrize("content", [None, b"", b"short", bytes(33)])
def test_a_missing_or_damaged_key_is_a_clear_error(tmp_path, content):
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    with pytest.raises(ResumeError, match="start a new run"):
        read_key(tmp_path / "key")


def test_a_commitment_binds_to_the_graph_and_needs_the_salt(tmp_path):
    secret = GraphSecret.of("ab" * 32)
    same = GraphSecret(fingerprint="ab" * 32, salt=secret.salt)
    assert same.commitment == secret.commitment
    assert GraphSecret(fingerprint="ac" * 32, salt=secret.salt).commitment != secret.commitment
    assert GraphSecret.of("ab" * 32).commitment != secret.commitment
    secret.write(tmp_path / "private.json")
    assert GraphSecret.read(tmp_path / "private.json") == secret
    assert stat.S_IMODE(os.stat(tmp_path / "private.json").st_mode) == 0o600


def test_a_damaged_secret_is_a_clear_error(tmp_path):
    (tmp_path / "private.json").write_text('{"salt": "00"}')
    with pytest.raises(ResumeError, match=r"private\.json"):
        GraphSecret.read(tmp_path / "private.json")
