"""A few hundred cases of every target end well; a target that crashes, hangs or says nothing is caught."""

import os
import signal

import pytest

from reldp.errors import GraphError
from tests.fuzz import commands, runner
from tests.fuzz.runner import TARGETS, fuzz

SLOW = {commands.audit, commands.settings, commands.plan_file, commands.half_run}


def test_no_case_ends_badly():
    quick = {target: 1 for target in TARGETS if target not in SLOW}
    found = fuzz(cases=360, seed=1, targets=quick)
    assert found["failures"] == []
    assert found["cases"] == 360
    for target in quick:
        assert f"{target.__name__}: refused" in found["counts"]


@pytest.mark.parametrize(
    ("end", "error"),
    [
        ("traceback", KeyError("x")),
        ("traceback", GraphError("")),
        ("traceback", GraphError("a\nb")),
        ("refused", GraphError("One line.")),
    ],
)
def test_an_end_is_named(end, error):
    def bad(random, home):
        raise error

    found = fuzz(cases=2, targets={bad: 1})
    assert found["ends"] == {end: 2}
    assert len(found["failures"]) == (0 if end == "refused" else 2)


def test_hangs_crashes_and_memory_are_caught_and_the_next_case_runs(monkeypatch):
    monkeypatch.setattr(runner, "LARGEST", 50_000)

    def busy(random, home):
        while True:
            pass

    def idle(random, home):
        os.mkfifo(home / "pipe")
        (home / "pipe").read_bytes()

    def crash(random, home):
        os.kill(os.getpid(), signal.SIGKILL)

    def large(random, home):
        return bytes(bytearray(200_000_000))

    ends = ((large, "memory"), (crash, "crash"), (idle, "hang"), (busy, "hang"))
    for target, end in ends:
        if target is idle:
            monkeypatch.setattr(runner, "STUCK", 1.0)
        if target is busy:
            monkeypatch.setattr(runner, "STUCK", 20.0)
            monkeypatch.setattr(runner, "PATIENCE", 0.2)
        found = fuzz(cases=2, targets={target: 1})
        assert found["failures"][0]["end"] == end
        assert found["cases"] == 2


def test_a_case_follows_from_its_number():
    chosen = {target: 1 for target in TARGETS if target.__name__ in ("plan", "recipe")}
    one = fuzz(cases=40, seed=3, targets=chosen)["counts"]
    parts = [fuzz(cases=20, seed=3, first=first, targets=chosen) for first in (0, 20)]
    for name, count in one.items():
        assert sum(part["counts"].get(name, 0) for part in parts) == count
