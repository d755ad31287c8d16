"""A folder that is written from a graph with a budget names that budget: no copy forgets what was spent."""

import errno
import os

import numpy as np
import pytest

from reldp.cli.main import main
from reldp.errors import ConfigError, GraphError
from reldp.graph import EntityGraph, budget_link
from reldp.graph.store import build as build_module
from reldp.graph.store import build_store
from reldp.runs.budget import Budget
from reldp.runs.budget_place import find_budget, share_budget
from tests.training.small import small_graph


@pytest.fixture
def graph(tmp_path):
    small_graph().write(tmp_path / "graph")
    return EntityGraph.read(tmp_path / "graph")


def test_copies_and_parts_belong_to_the_budget(graph, tmp_path, capsys):
    graph.write(tmp_path / "before")
    assert find_budget(tmp_path / "before") is None
    Budget.create(graph.folder).close()
    graph.write(tmp_path / "copy")
    half = np.arange(graph.num_entities) % 2 == 0
    graph.select_entities(half).write(tmp_path / "part")
    graph.cap_degrees(2, seed=0).write(tmp_path / "capped")
    assert main(["prepare", "store", str(graph.folder), "-o", str(tmp_path / "store")]) == 0
    capsys.readouterr()
    stored = EntityGraph.read(tmp_path / "store")
    for folder in (
        *(tmp_path / name for name in ("copy", "part", "capped", "store")),
        stored.select_entities(half).folder,
        stored.cap_degrees(2, seed=0).to_graph().folder,
    ):
        assert find_budget(folder) == graph.folder


def test_a_folder_with_another_budget_is_refused(graph, tmp_path):
    Budget.create(graph.folder).close()
    Budget.create(tmp_path / "other").close()
    with pytest.raises(ConfigError, match="would be forgotten"):
        graph.write(tmp_path / "other")


def spend(folder, release="a"):
    """Enter something in the budget of a folder."""
    with Budget.open(find_budget(folder)) as budget:
        budget.enter_release(0.1, 1e-9, (release * 32)[:32])


def spent(folder):
    with Budget.open(find_budget(folder)) as budget:
        return len(budget.charges)


@pytest.mark.parametrize("has_links", [True, False])
def test_a_store_that_is_built_again_keeps_its_budget(graph, tmp_path, monkeypatch, has_links):
    store = tmp_path / "store"
    build_store(graph.folder, store)
    Budget.create(store).close()
    spend(store)
    if not has_links:

        def refuse(*_, **__):
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(budget_link.os, "link", refuse)
    build_store(graph.folder, store, overwrite=True)
    assert spent(store) == 1
    spend(store, "b")
    assert spent(store) == 2
    assert not list(tmp_path.glob(".store*"))


def test_what_is_entered_while_a_store_is_put_into_place_is_in_it(graph, tmp_path, monkeypatch):
    store = tmp_path / "store"
    build_store(graph.folder, store)
    Budget.create(store).close()
    put = build_module.put

    def late(folder, target):
        with Budget.open(target) as opened:
            put(folder, target)
            opened.enter_release(0.1, 1e-9, "c" * 32)  # by a process that has the old file open

    monkeypatch.setattr(build_module, "put", late)
    build_store(graph.folder, store, overwrite=True)
    assert spent(store) == 1


def test_a_store_that_is_built_again_shares_the_same_budget(graph, tmp_path):
    store, ledger = tmp_path / "store", tmp_path / "ledger"
    build_store(graph.folder, store)
    Budget.create(ledger).close()
    share_budget(store, ledger)
    small_graph(seed=3).write(graph.folder, overwrite=True)
    build_store(graph.folder, store, overwrite=True)
    assert find_budget(store) == ledger
    spend(store)
    assert spent(ledger) == 1


def test_a_store_from_python_names_the_budget_of_its_source(graph, tmp_path):
    Budget.create(graph.folder).close()
    build_store(graph.folder, tmp_path / "store")
    assert find_budget(tmp_path / "store") == graph.folder
    Budget.create(tmp_path / "other").close()
    build_store(graph.folder, tmp_path / "store", overwrite=True)
    assert find_budget(tmp_path / "store") == graph.folder


def test_a_store_with_another_budget_is_refused_before_it_is_built(graph, tmp_path, monkeypatch):
    store = tmp_path / "store"
    build_store(graph.folder, store)
    Budget.create(store).close()
    Budget.create(graph.folder).close()
    monkeypatch.setattr(build_module, "_build", lambda *_, **__: pytest.fail("it was built"))
    with pytest.raises(ConfigError, match="must have the budget of its source, or none, got"):
        build_store(graph.folder, store, overwrite=True)
    assert spent(store) == spent(graph.folder) == 0


@pytest.mark.parametrize("name", ["notes.txt", "runs/r1/ledger.jsonl"])
def test_what_is_no_part_of_a_store_is_never_lost(graph, tmp_path, name):
    store = tmp_path / "store"
    build_store(graph.folder, store)
    EntityGraph.read(store).cap_degrees(2, seed=0)  # kept beside the store, and made again
    build_store(graph.folder, store, overwrite=True)
    place = store / name
    os.makedirs(place.parent, exist_ok=True)
    place.write_text("mine")
    with pytest.raises(GraphError, match=r"must hold nothing else, got '(notes\.txt|runs)', which"):
        build_store(graph.folder, store, overwrite=True)
    assert place.read_text() == "mine"
