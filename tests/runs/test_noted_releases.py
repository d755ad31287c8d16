"""Releases that only the state folder has are entered in a budget that is made later, once."""

import dataclasses
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from reldp.errors import PlanError
from reldp.graph import EntityGraph
from reldp.graph.graph_names import graph_names
from reldp.graph.size_store import _Store
from reldp.graph.splits import split_entities
from reldp.graph.store import build_store
from reldp.plan import PrivacyPlan
from reldp.runs.budget import Budget
from reldp.runs.budget_entry import release_of
from reldp.runs.budget_place import share_budget
from reldp.runs.new_budget import new_budget
from reldp.runs.noted_releases import FILE_NAME, noted_releases
from reldp.runs.past_releases import enter_at_first_use

COUNT = 4000
SETTINGS = {"negatives": "entities", "num_negatives": 2, "expected_batch_size": 16, "num_steps": 5}


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr("reldp.graph.sizes._GIVEN_FOLDERS", set())
    return tmp_path / "state"


def made(seed=0):
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(COUNT, 3)).astype(np.float32)
    ring = [(i, (i + 1) % COUNT) for i in range(COUNT)]
    return EntityGraph.from_lists(list(range(COUNT)), ring, features=features)


def release(graph, bound, folder=None, *, in_memory=True):
    """Release sizes of a graph in memory, or of one in a folder."""
    held = dataclasses.replace(graph, folder=None) if folder is None and in_memory else graph
    capped = held.cap_degrees(bound, seed=0)
    target = {"target_epsilon": 4.0, "delta": 1e-6}
    return capped, PrivacyPlan.for_graph(capped, sizes_folder=folder, **target, **SETTINGS)


def kinds(budget):
    return [entry["kind"] for entry in budget.entries]


@pytest.fixture
def graph(tmp_path, state):
    made().write(tmp_path / "graph")
    return EntityGraph.read(tmp_path / "graph")


@pytest.mark.parametrize("how", ["init", "share", "first use", "in memory"])
def test_they_are_entered_with_the_budget_and_a_run_that_uses_one_shares_it(graph, tmp_path, how):
    plans = [release(graph, bound) for bound in (1, 2)]
    release(made(seed=1), 1)  # of another graph
    names = graph_names(graph)
    if how == "init":
        new_budget(graph.folder, limit=8.0, delta=1e-5).close()
        place = graph.folder
    else:
        place = tmp_path / "budget"
        new_budget(place.mkdir() or place).close()
        if how == "share":
            share_budget(graph.folder, place)
        else:
            folder = graph.folder if how == "first use" else None
            with Budget.open(place) as budget:
                enter_at_first_use(folder, names.exact, budget, place)
                enter_at_first_use(folder, names.exact, budget, place)
    with Budget.open(place) as budget:
        assert kinds(budget).count("sizes") == 2
        entered = {charge.release for charge in budget.charges}
        assert {release_of(budget, plan, capped.fingerprint) for capped, plan in plans} == entered
        spent = sum(plan.sizes_epsilon for _, plan in plans)
        assert budget.epsilon(1e-5) == pytest.approx(spent, rel=1e-9)


def test_a_limit_must_cover_them(graph):
    release(graph, 1)
    with pytest.raises(PlanError, match="must cover the releases of private sizes"):
        new_budget(graph.folder, limit=0.01, delta=1e-5)


def test_one_that_comes_into_the_folder_of_the_graph_counts_once(graph):
    capped, plan = release(graph, 1)
    again = release(graph, 1, folder=graph.folder)[1]
    assert again == plan
    with new_budget(graph.folder) as budget:
        assert kinds(budget) == ["budget", "sizes"]
        assert release_of(budget, plan, capped.fingerprint) == budget.charges[0].release


def test_one_that_comes_into_another_folder_still_counts(graph, tmp_path):
    """A copy of the graph has it then; the budget is made for the first folder."""
    capped, plan = release(graph, 1)
    copy = tmp_path / "copy"
    made().write(copy)
    release(EntityGraph.read(copy), 1, folder=copy)
    with new_budget(graph.folder) as budget:
        assert kinds(budget) == ["budget", "sizes"]
        assert release_of(budget, plan, capped.fingerprint) == budget.charges[0].release


def test_one_that_is_stored_in_the_folder_of_the_graph_is_not_noted(graph, state):
    release(graph, 1, folder=graph.folder)
    assert not (state / FILE_NAME).exists()


def test_a_graph_from_a_folder_has_it_there_for_other_users_and_later_budgets(
    graph, state, tmp_path, monkeypatch
):
    capped, plan = release(graph, 1, in_memory=False)
    assert not (state / FILE_NAME).exists()
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "of another user"))
    assert release(EntityGraph.read(graph.folder), 1, in_memory=False)[1] == plan
    with new_budget(graph.folder) as budget:
        assert kinds(budget) == ["budget", "sizes"]
        assert release_of(budget, plan, capped.fingerprint) == budget.charges[0].release


def test_a_stop_after_the_first_place_leaves_it_in_the_folder_of_the_graph(graph, monkeypatch):
    """A release in the state folder alone would be unknown to a later budget."""
    added = []
    add = _Store.add

    def stop(store, *values):
        if added:
            raise KeyboardInterrupt
        added.append(store)
        add(store, *values)

    with monkeypatch.context() as patch:
        patch.setattr(_Store, "add", stop)
        with pytest.raises(KeyboardInterrupt):
            release(graph, 1, in_memory=False)
    with new_budget(graph.folder) as budget:
        assert kinds(budget) == ["budget", "sizes"]


def test_one_that_a_budget_has_is_not_noted(graph, state):
    new_budget(graph.folder).close()
    release(graph, 1, in_memory=False)
    assert not (state / FILE_NAME).exists()
    with Budget.open(graph.folder) as budget:
        assert kinds(budget) == ["budget", "sizes"]


def test_a_stop_before_it_is_stored_leaves_it_noted(graph, monkeypatch):
    """Its numbers may have been seen."""

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("reldp.graph.size_store._Store.add", stop)
    with pytest.raises(KeyboardInterrupt):
        release(graph, 1)
    assert len(noted_releases(graph_names(graph).exact, "entity", ())) == 1


def test_without_the_state_folder_nothing_is_known(graph, state):
    release(graph, 1)
    shutil.rmtree(state)
    assert noted_releases(graph_names(graph).exact, "entity", ()) == []


def test_one_that_is_stored_in_another_folder_counts_in_the_budget_of_the_graph(graph, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    capped, plan = release(graph, 1, folder=other, in_memory=False)
    with new_budget(graph.folder) as budget:
        assert kinds(budget) == ["budget", "sizes"]
        assert release_of(budget, plan, capped.fingerprint) == budget.charges[0].release
    monitored = release(graph, 2, folder=other, in_memory=False)[1]  # entered when it is drawn
    with Budget.open(graph.folder) as budget:
        assert kinds(budget) == ["budget", "sizes", "sizes"]
        spent = plan.sizes_epsilon + monitored.sizes_epsilon
        assert budget.epsilon(1e-5) == pytest.approx(spent, rel=1e-9)


def test_another_user_who_names_another_folder_spends_the_budget_of_the_graph(
    graph, tmp_path, monkeypatch
):
    new_budget(graph.folder).close()
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "of another user"))
    (tmp_path / "other").mkdir()
    release(graph, 1, folder=tmp_path / "other", in_memory=False)
    with Budget.open(graph.folder) as budget:
        assert kinds(budget) == ["budget", "sizes"]


@pytest.mark.parametrize("is_writable", [True, False])
def test_one_of_a_part_of_a_store_counts_in_the_budget_of_the_store(
    graph, tmp_path, monkeypatch, is_writable
):
    store = build_store(graph.folder, tmp_path / "store")
    if not is_writable:
        access = os.access

        def without(path, mode, **given):
            return access(path, mode, **given) and not (
                mode == os.W_OK and Path(path) == store.folder
            )

        monkeypatch.setattr(os, "access", without)
    half = split_entities(store, {"train": 0.9, "test": 0.1}, seed=7)["train"]
    part = split_entities(half, {"train": 0.9, "test": 0.1}, seed=8)["train"]
    plans = [release(held, 1, in_memory=False)[1] for held in (half, part)]
    monkeypatch.undo()
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "state"))
    with new_budget(store.folder) as budget:
        assert kinds(budget) == ["budget", "sizes", "sizes"]
        spent = sum(plan.sizes_epsilon for plan in plans)
        assert budget.epsilon(1e-5) == pytest.approx(spent, rel=1e-9)
