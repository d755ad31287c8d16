"""A release of private sizes is entered before anybody sees it, and refused before it is drawn."""

from dataclasses import replace

import numpy as np
import pytest

from reldp.errors import ConfigError, PlanError
from reldp.graph import EntityGraph, size_release
from reldp.graph.graph_names import graph_names
from reldp.graph.size_release import draw_release, largest_cost, release_target
from reldp.plan import PrivacyPlan
from reldp.runs.budget import Budget
from reldp.runs.budget_cost import composed_epsilon
from reldp.runs.budget_entry import BudgetUse, enter, release_id
from reldp.runs.release_entry import ReleaseEntry, named_budget
from reldp.runs.run_folder import RunFolder

SIZE = 20_000


@pytest.fixture
def capped(tmp_path, monkeypatch):
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "state"))
    ids = list(range(SIZE))
    graph = EntityGraph.from_lists(
        ids, [(i, (i + 1) % SIZE) for i in ids], features=np.zeros((SIZE, 1), dtype=np.float32)
    )
    graph.write(tmp_path / "graph")
    return EntityGraph.read(tmp_path / "graph").promise_degrees(2)


def make_plan(capped, folder=None):
    return PrivacyPlan.for_graph(
        capped, sizes="private", sizes_folder=folder, target_epsilon=2.0, delta=1e-6, num_steps=10,
        expected_batch_size=16, num_negatives=2,
    )  # fmt: skip


def charges(folder):
    with Budget.open(folder, read_only=True) as budget:
        return budget.charges


def test_a_release_is_entered_once_and_its_runs_share_it(capped):
    folder = capped.graph.folder
    Budget.create(folder).close()
    plan = make_plan(capped)
    assert make_plan(capped) == plan  # the release is reused
    (entered,) = charges(folder)
    assert (entered.epsilon, entered.delta) == (plan.sizes_epsilon, plan.sizes_delta)
    with Budget.open(folder) as budget:
        budget.enter_run("1" * 32, plan, release=entered.release)
        assert budget.epsilon(plan.delta) == plan.epsilon()


def test_a_release_beyond_the_limit_is_not_drawn(capped, monkeypatch):
    folder = capped.graph.folder
    with Budget.create(folder) as budget:
        budget.set_limit(0.1, 1e-6)
    monkeypatch.setattr(size_release, "discrete_laplace", lambda rate: 1 / 0)
    # The epsilon of the run is not known before its sizes are: the message names that of the release.
    said = r"stay within epsilon 0\.1 at delta 1e-06, got up to [\d.]+ with a release of private sizes alone, to which"
    with pytest.raises(PlanError, match=said):
        make_plan(capped)
    assert charges(folder) == []
    assert not (folder / "sizes.private.json").exists()


@pytest.mark.parametrize(
    ("adaptive", "settings", "said"),
    [
        (False, {}, r"`delta` must be given where the budget .* Use --delta: 1e-06"),
        (True, {}, r"`delta` must be given where .* Use --delta: less than 1e-06, of which each"),
        (False, {"delta": 1e-6, "target_epsilon": 9.0}, r"`target_epsilon` must be at most 3, .*9"),
        (True, {"delta": 2e-6}, r"`delta` must be at most 1e-06, which earlier runs leave"),
        (True, {"delta": 1e-7, "target_epsilon": 9.0}, r"`target_epsilon` must be at most 3, .*9"),
    ],
)
def test_a_run_that_the_limit_cannot_admit_releases_nothing(
    capped, monkeypatch, adaptive, settings, said
):
    folder = capped.graph.folder
    with Budget.create(folder) as budget:
        budget.set_limit(3.0, 1e-6, adaptive=adaptive)
    monkeypatch.setattr(size_release, "discrete_laplace", lambda rate: 1 / 0)
    with pytest.raises(PlanError, match=said):
        PrivacyPlan.for_graph(capped, **{"sizes": "private", "target_epsilon": 2.0, **settings})
    assert charges(folder) == []
    assert not (folder / "sizes.private.json").exists()


def test_a_refused_run_leaves_no_folder(capped, tmp_path):
    folder = capped.graph.folder
    with Budget.create(folder) as budget:
        budget.set_limit(3.0, 1e-6)
    # As the default delta of a small graph is, a part of which is set aside.
    plan = replace(make_plan(capped), delta=5e-6, sizes_delta=2e-6)
    use = BudgetUse(folder=folder, fingerprint=capped.fingerprint)
    with pytest.raises(PlanError, match="got infinite with this run"):
        enter(RunFolder(tmp_path / "run"), plan, use)
    assert not (tmp_path / "run").exists()
    assert len(charges(folder)) == 1


def test_a_release_costs_what_it_costs_for_the_unit_of_the_budget(capped):
    folder = capped.graph.folder
    Budget.create(folder).close()
    with pytest.raises(ConfigError, match="`unit` must be entity in this budget, got relation"):
        PrivacyPlan.for_graph(capped, sizes="private", target_epsilon=2.0, unit="relation")
    assert charges(folder) == []


def test_a_second_release_of_the_same_graph_is_added(capped, tmp_path):
    folder = capped.graph.folder
    plan = make_plan(capped)  # before the budget
    with Budget.create(folder) as budget:
        name = release_id(budget.id, capped.fingerprint, plan.num_entities, plan.num_relations)
        budget.enter_run("1" * 32, plan, release=name, is_spent=True)
    for place in (folder, tmp_path / "state"):
        (place / "sizes.private.json").unlink(missing_ok=True)
    again = make_plan(capped)
    with Budget.open(folder, read_only=True) as budget:
        alone = composed_epsilon(budget.charges[:1], 1e-4)
        assert again != plan
        assert budget.epsilon(1e-4) >= alone + 0.99 * again.sizes_epsilon


def test_a_named_budget_gets_the_release_of_a_graph_without_one(capped, tmp_path):
    Budget.create(tmp_path / "named").close()
    with named_budget(tmp_path / "named"):
        plan = make_plan(capped)
    assert [c.epsilon for c in charges(tmp_path / "named")] == [plan.sizes_epsilon]
    with pytest.raises(ConfigError, match="must be used with its budget"):
        ReleaseEntry.of(capped, capped.graph.folder)  # it was used with one


@pytest.mark.parametrize("delta", [None, 1e-9])
@pytest.mark.parametrize("target", [0.01, 2.0, 99.0])
def test_no_release_costs_more_than_the_largest_cost(capped, target, delta):
    wanted = release_target(target)
    epsilon, failure = largest_cost(wanted, delta)
    small = EntityGraph.from_lists(["a", "b"], [("a", "b")], text=["x", "y"]).promise_degrees(1)
    for graph in (capped, small):
        for _ in range(20):
            release = draw_release(graph, wanted, delta)
            assert release.epsilon("entity") <= epsilon
            assert release.delta <= failure


@pytest.mark.parametrize("drawn", [False, True])
def test_releases_of_a_graph_without_a_budget_are_entered_in_a_named_one_at_its_first_use(
    capped, tmp_path, drawn
):
    """With and without a further release, of another cap, that is drawn for the budget."""
    place, named = capped.graph.folder, tmp_path / "named"
    plan = make_plan(capped, place)
    Budget.create(named).close()
    if drawn:
        with named_budget(named):
            make_plan(capped.graph.promise_degrees(3), place)
    use = BudgetUse(
        folder=named,
        fingerprint=capped.fingerprint,
        names=graph_names(capped.graph),
        graph=place,
    )
    for name in ("one", "two", "one"):
        enter(RunFolder(tmp_path / name), plan, use)
    entered = charges(named)
    sizes = [charge for charge in entered if charge.plan is None]
    assert len(sizes) == 1 + drawn
    runs = [charge for charge in entered if charge.plan is not None]
    assert len(runs) == 2
    assert {charge.release for charge in runs} == {sizes[0].release}  # counted once
    assert sizes[0].epsilon == plan.sizes_epsilon


def test_a_rule_without_a_proof_is_refused_before_sizes_are_released(capped, monkeypatch):
    folder = capped.graph.folder
    Budget.create(folder).close()  # no limit is needed
    monkeypatch.setattr(size_release, "discrete_laplace", lambda rate: 1 / 0)
    with pytest.raises(PlanError, match="must cover plans with a proof"):
        PrivacyPlan.for_graph(
            capped, sizes="private", target_epsilon=2.0, delta=1e-6, num_steps=10,
            expected_batch_size=16, num_negatives=2, clipping="frequency",
        )  # fmt: skip
    assert charges(folder) == []
    with pytest.raises(ZeroDivisionError):  # with a proof the release is drawn
        make_plan(capped)
