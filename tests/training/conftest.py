"""What several tests of training need."""

import pytest

from reldp.noise import Streams
from tests.training.interrupted import stopped
from tests.training.small import small_parts


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A run that stopped before its seventh step."""
    return stopped(monkeypatch, tmp_path / "run", *small_parts())


@pytest.fixture
def addresses(monkeypatch):
    """(key, branch, step) of every noise stream that is asked for."""
    seen = set()
    stream = Streams.stream

    def watched(self, purpose, branch, step, lane=0):
        if "noise" in purpose or "gauss" in purpose:
            seen.add((self._key, branch, step))
        return stream(self, purpose, branch, step, lane)

    monkeypatch.setattr(Streams, "stream", watched)
    return seen
