"""The key is its owner's alone, and gone when the run is over."""

import stat

import pytest

from reldp.errors import ResumeError, RunError
from reldp.runs.key import bound_key, destroy_key, make_key, read_key


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


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"short",
        b"x" * 33,
        bytes(32),
        b"x" * 24 + bytes(8),
        b"x" * 3 + bytes(9) + b"x" * 20,
    ],
)
def test_a_missing_or_damaged_key_is_a_clear_error(tmp_path, content):
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    with pytest.raises(ResumeError, match="start a new run"):
        read_key(tmp_path / "key")


def test_what_is_computed_decides_the_key_of_the_noise():
    key = bytes(range(32))
    assert bound_key(key, "a") == bound_key(key, "a")
    assert len({bound_key(key, "a"), bound_key(key, "b"), bound_key(bytes(32), "a"), key}) == 4
    assert len(bound_key(key, "a" * 10_000)) == 32


def test_what_a_link_leads_to_is_never_overwritten(tmp_path):
    other, path = tmp_path / "other", tmp_path / "key"
    other.write_bytes(b"x" * 32)
    path.symlink_to(other)
    with pytest.raises(ResumeError):
        read_key(path)
    with pytest.raises(RunError, match="key must be a file in the run folder, got a link"):
        destroy_key(path)  # "destroyed" would be said of a key that survives
    assert other.read_bytes() == b"x" * 32
    path.unlink()
    destroy_key(path)
    assert not path.is_symlink()
