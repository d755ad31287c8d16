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


def test_too_little_memory_is_refused():
    with pytest.raises(GraphError, match="at least 100MB, got 99MB"):
        BuildSettings(memory_limit="99MB")


@pytest.mark.parametrize(
    "threads", [0, 1025, 100_000, 10**20 - 1, pytest.param(10**5000, id="huge")]
)
def test_numbers_of_threads_that_no_build_uses_are_refused(threads):
    with pytest.raises(
        GraphError, match=r"^`threads` must be an integer from 1 to 1024, got"
    ) as got:
        BuildSettings(threads=threads)
    assert len(str(got.value)) < 160
    assert BuildSettings(threads=1024).num_threads == 1024


@pytest.mark.parametrize(
    "limit", ["9" * 23 + "GB", "9" * 5000, "1025TiB", 2**51, pytest.param(10**5000, id="huge")]
)
def test_more_memory_than_the_engine_can_count_is_refused(limit):
    with pytest.raises(GraphError, match=r"^`memory_limit` must be at most 1024TiB, got") as got:
        BuildSettings(memory_limit=limit)
    assert len(str(got.value)) < 200
    assert BuildSettings(memory_limit="1024TiB").memory_bytes == 2**50
