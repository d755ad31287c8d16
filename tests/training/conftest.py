"""What several tests of training need."""

import shutil

import pytest

from reldp.noise import Streams
from tests.training.interrupted import stopped
from tests.training.small import small_parts


@pytest.fixture(scope="session")
def stopped_run(tmp_path_factory):
    """A run that stopped before its seventh step, to be copied."""
    with pytest.MonkeyPatch.context() as patch:
        return stopped(patch, tmp_path_factory.mktemp("stopped") / "run", *small_parts())


@pytest.fixture
def folder(stopped_run, tmp_path):
    """A copy of the run that stopped before its seventh step: the only one that a test sees."""
    return shutil.copytree(stopped_run, tmp_path / "run")


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
