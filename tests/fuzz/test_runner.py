"""A few hundred cases of every target end well; a target that crashes, hangs or says nothing is caught."""

import os
import signal

import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from tests.fuzz import calls, commands, runner
from tests.fuzz.damage import COMPRESSIONS
from tests.fuzz.runner import TARGETS, fuzz

# Their cases take a tenth of a second or more: the undamaged case stands for them.
SLOW = {commands.audit, commands.settings, commands.plan_file, commands.half_run}
SLOW |= {commands.options, commands.one_option}


def test_no_case_ends_badly_and_every_quick_target_accepts_some_and_refuses_some():
    quick = {target: 1 for target in TARGETS if target not in SLOW}
    found = fuzz(cases=400, seed=1, targets=quick)
    assert found["failures"] == []
    assert found["cases"] == 400
    for target in quick:
        assert f"{target.__name__}: refused" in found["counts"]
        assert f"{target.__name__}: accepted" in found["counts"]


def test_the_undamaged_case_of_every_target_is_accepted():
    found = fuzz(cases=len(TARGETS), undamaged=True)
    assert found["counts"] == {f"{target.__name__}: accepted": 1 for target in TARGETS}


def test_a_target_whose_undamaged_case_is_refused_is_seen():
    def vacuous(random, home):
        commands._count(calls.call("audit", "--trials", "2"))

    assert fuzz(cases=1, targets={vacuous: 1}, undamaged=True)["counts"] == {"vacuous: refused": 1}


def test_the_commands_that_one_option_is_added_to_work_without_it():
    def right(random, home):
        for path, words in commands.right_commands(home):
            assert calls.call(*path, *words)[0], path

    found = fuzz(cases=1, targets={right: 1})
    assert found["ends"] == {"accepted": 1}, found["failures"]


@pytest.mark.parametrize("end", COMPRESSIONS)
def test_what_compresses_is_read_again(tmp_path, end):
    (tmp_path / f"entities.csv{end}").write_bytes(COMPRESSIONS[end](b"id,text\na,one\nb,two\n"))
    (tmp_path / f"relations.csv{end}").write_bytes(COMPRESSIONS[end](b"source,target\na,b\n"))
    assert EntityGraph.read(tmp_path).num_relations == 1


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
