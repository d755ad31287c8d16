"""Settings of a build."""

import os

import pytest

from reldp.errors import GraphError
from reldp.graph.store import settings as module
from reldp.graph.store.settings import BuildSettings, parse_bytes


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("500MB", 5 * 10**8),
        ("6 GiB", 6 * 2**30),
        ("1.5g", 15 * 10**8),
        ("200000000", 2 * 10**8),
        (7, 7),
    ],
)
def test_sizes_in_the_usual_notations(text, number):
    assert parse_bytes(text) == number


@pytest.mark.parametrize("text", ["", "much", "-1GB", "1 PB", "GB"])
def test_other_words_are_refused(text):
    with pytest.raises(GraphError, match="must be a size such as 6GB, got"):
        parse_bytes(text)


def test_defaults_come_from_the_machine(monkeypatch):
    machine = module.machine_memory()
    monkeypatch.setattr(module, "machine_memory", lambda: 40 * 10**9)
    assert BuildSettings().memory_bytes == 10**10
    assert BuildSettings().engine_bytes == 5 * 10**9
    assert BuildSettings().num_threads == len(os.sched_getaffinity(0))
    assert machine > 10**8


@pytest.mark.parametrize("values", [{"memory_limit": "99MB"}, {"threads": 0}])
def test_too_little_is_refused(values):
    with pytest.raises(GraphError, match="at least"):
        BuildSettings(**values)
