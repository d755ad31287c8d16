"""Progress of a build."""

import pytest

from reldp.graph.store import progress as module
from reldp.graph.store.progress import Progress, Tick, reporting


def test_a_phase_reports_its_beginning_its_end_and_now_and_then(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    seen = []
    with Progress(seen.append).phase("reading", 100) as advance:
        for _ in range(10):
            now[0] += 0.2
            advance(10)
    assert [tick.done for tick in seen] == [0, 30, 60, 90, 100]
    assert seen[2].rate == pytest.approx(50)
    assert seen[2].seconds_left == pytest.approx(0.8)


def test_nothing_is_estimated_from_nothing():
    assert Tick(phase="x", done=0, total=10, unit="rows", seconds=1).seconds_left is None
    assert Tick(phase="x", done=5, total=0, unit="rows", seconds=1).seconds_left is None
    assert Tick(phase="x", done=5, total=9, unit="rows", seconds=0).rate == 0


def test_an_error_passes_through():
    with pytest.raises(ValueError, match="no"), Progress().phase("x"):
        raise ValueError("no")


def test_progress_that_nobody_asked_for_is_reported_where_it_is_set():
    seen, own = [], []
    with reporting(seen.append):
        with Progress().phase("x", 2) as advance:
            advance(2)
        with Progress(own.append).phase("y"):
            pass
    with Progress().phase("z"):
        pass
    assert [(tick.phase, tick.done, tick.ended) for tick in seen] == [
        ("x", 0, False),
        ("x", 2, True),
    ]
    assert [tick.phase for tick in own] == ["y", "y"]
