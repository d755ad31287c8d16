"""A plan with private sizes must have those that were released for its graph."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from reldp.errors import ConfigError
from reldp.graph.size_release import Release
from reldp.graph.size_store import FILE_NAME, DifferentReleasesWarning, remembered
from reldp.graph.sizes import stored_bounds
from reldp.plan import PrivacyPlan
from reldp.training import Trainer
from reldp.training.fit import check_fit
from tests.training.small import small_encoder, small_graph

SETTINGS = {"num_negatives": 2, "expected_batch_size": 4.0, "num_steps": 3, "noise_multiplier": 2.0}
PLAIN = small_graph().cap_degrees(1, seed=0)
MARKED = small_graph(protected=[i % 2 == 0 for i in range(300)]).promise_degrees(4)


def release_of(capped, **changes):
    """A release that is precise enough for a small graph; its noise is -1, 2 and 0."""
    values = {
        "entities": capped.num_units - 1,
        "relations": capped.num_relations + 2,
        "unprotected": int(np.count_nonzero(~capped.protected_units)),
        "coarse_rate": 10**6,
        "entity_rate": 10**9,
        "relation_rate": 2 * 10**9,
        "failure": 1e-7,
        "max_degree": capped.max_degree,
    }
    return Release(**{**values, **changes})


def store(capped, folder, **changes):
    remembered(
        capped.fingerprint, [folder], Release.parsed, lambda: release_of(capped, **changes).values()
    )


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """A state folder with one release of each graph."""
    folder = tmp_path / "state"
    monkeypatch.setenv("RELDP_STATE_DIR", str(folder))
    monkeypatch.setattr("reldp.graph.sizes._GIVEN_FOLDERS", set())
    for capped in (PLAIN, MARKED):
        store(capped, folder)
    return folder


def plan_for(capped, **changes):
    return PrivacyPlan.for_graph(capped, **{**SETTINGS, **changes})


def refusal(capped, plan):
    with pytest.raises(ConfigError) as caught:
        check_fit(capped, plan)
    return str(caught.value)


@pytest.mark.parametrize(
    ("capped", "changes"),
    [
        (PLAIN, {"negatives": "relations"}),
        (PLAIN, {"negatives": "relations", "delta": 1e-4}),
        (PLAIN, {"negatives": "relations", "unit": "relation"}),
        (PLAIN, {"negatives": "entities"}),
        (PLAIN, {"negatives": "public", "pool_size": 10**6}),
        (MARKED, {"negatives": "unprotected"}),
        (MARKED, {"negatives": "unprotected", "unit": "relation"}),
    ],
)
def test_plans_that_were_made_for_the_graph_fit(capped, changes):
    plan = plan_for(capped, **changes)
    assert plan.sizes == "private"
    check_fit(capped, plan)
    check_fit(capped, PrivacyPlan.from_json(plan.to_json()))


def test_a_trainer_does_not_certify_less_than_the_release_costs():
    honest = plan_for(PLAIN, negatives="relations")
    sharper = {"pool_size": PLAIN.num_relations, "sizes_epsilon": 1e-9, "sizes_delta": 1e-30}
    forged = replace(honest, **sharper)
    assert forged.epsilon() < honest.epsilon()
    with pytest.raises(ConfigError, match=r"Make the plan with PrivacyPlan\.for_graph"):
        Trainer(small_encoder(), PLAIN, forged, progress=False)


@pytest.mark.parametrize("negatives", ["entities", "relations"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_entities", 290),
        ("num_relations", PLAIN.num_relations + 1),
        ("sizes_epsilon", 1e-9),
        ("sizes_epsilon", 10.0),
        ("sizes_delta", 1e-30),
        ("pool_size", PLAIN.num_relations),
    ],
)
def test_each_size_and_cost_is_that_of_the_release(negatives, name, value):
    if negatives == "entities" and name == "pool_size":
        name, value = "num_entities", 300
    changes = {name: value, "sample_rate": None}
    if negatives == "entities":
        changes["pool_size"] = None
    said = refusal(PLAIN, replace(plan_for(PLAIN, negatives=negatives), **changes))
    assert f"`{name}` of the plan must be that of the private sizes" in said
    assert not any(number in said for number in ("300", str(PLAIN.num_relations)))


def test_the_pool_of_unprotected_entities_is_that_of_the_release():
    plan = plan_for(MARKED, negatives="unprotected")
    assert plan.pool_size < 150
    assert "`pool_size` of the plan" in refusal(MARKED, replace(plan, pool_size=150))


def test_the_cost_for_another_unit_is_not_taken():
    plan = plan_for(PLAIN, negatives="relations", unit="relation")
    assert "`sizes_epsilon` of the plan" in refusal(PLAIN, replace(plan, unit="entity"))


def test_a_plan_without_a_release_of_its_graph_is_refused(tmp_path, monkeypatch):
    """Bounds that nobody released are not private, and those of another graph say nothing about this one."""
    plan = plan_for(PLAIN, negatives="relations")
    other_seed = small_graph().cap_degrees(1, seed=1)
    assert "got no release of its sizes here" in refusal(other_seed, plan)
    other_graph = small_graph(seed=1).cap_degrees(1, seed=0)
    assert "got no release of its sizes here" in refusal(other_graph, plan)
    exact = {"num_entities": 300, "num_relations": PLAIN.num_relations, "pool_size": None}
    cost = {"sizes_epsilon": 1e-9, "sizes_delta": 1e-12, "sample_rate": None}
    by_hand = replace(plan, negatives="entities", **exact, **cost)
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "elsewhere"))
    for capped in (PLAIN, other_seed):
        assert "copy sizes.private.json from where it was made" in refusal(capped, by_hand)
    with pytest.raises(ConfigError, match="got no release of its sizes here"):
        Trainer(small_encoder(), PLAIN, by_hand, progress=False)
    assert not (tmp_path / "elsewhere").exists()


def test_a_release_that_is_copied_into_the_folder_of_the_graph_will_do(
    tmp_path, monkeypatch, state
):
    plan = plan_for(PLAIN, negatives="relations")
    small_graph().write(tmp_path / "graph")
    opened = small_graph().read(tmp_path / "graph").cap_degrees(1, seed=0)
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "elsewhere"))
    assert "got no release of its sizes here" in refusal(opened, plan)
    shutil.copy(state / FILE_NAME, tmp_path / "graph")
    check_fit(opened, plan)
    too_many = replace(plan, num_entities=301, sample_rate=None)
    assert "`num_entities` of the plan must be that of the private" in refusal(opened, too_many)


def test_the_first_of_several_processes_compares(tmp_path, monkeypatch):
    """Another machine may have a release of its own: the plan is the first's."""
    plan = plan_for(PLAIN, negatives="relations")
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "elsewhere"))
    store(PLAIN, tmp_path / "elsewhere", entities=296)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert "`num_entities` of the plan" in refusal(PLAIN, plan)
    monkeypatch.setenv("RANK", "1")
    check_fit(PLAIN, plan)


def test_any_stored_release_of_the_graph_will_do(tmp_path):
    small_graph().write(tmp_path / "graph")
    opened = small_graph().read(tmp_path / "graph").cap_degrees(1, seed=0)
    assert opened.fingerprint == PLAIN.fingerprint
    old = plan_for(PLAIN, negatives="relations")
    store(opened, tmp_path / "graph", entities=296)
    with pytest.warns(DifferentReleasesWarning):
        new = plan_for(opened, negatives="relations", sizes_folder=tmp_path / "graph")
    assert new.num_entities == old.num_entities - 3
    for plan in (old, new):
        check_fit(opened, plan)
        check_fit(PLAIN, plan)  # made in memory; the folder was given to for_graph
    assert "of the plan must be" in refusal(opened, replace(new, sizes_epsilon=0.1))


def test_bounds_of_a_release_are_not_declared_ones():
    """The release costs epsilon, which a plan with declared sizes would leave out."""
    plan = plan_for(PLAIN, negatives="relations")
    free = {"sizes": "declared", "sizes_epsilon": 0.0, "sizes_delta": 0.0}
    words = "got declared bounds that are those of the private sizes"
    assert words in refusal(PLAIN, replace(plan, **free))
    check_fit(PLAIN, replace(plan, **free, num_entities=plan.num_entities - 1))
    check_fit(PLAIN, replace(plan, **free, sample_rate=None, num_relations=plan.num_relations + 1))


def test_a_release_that_is_too_noisy_for_bounds_has_no_plan(state, tmp_path, monkeypatch):
    plan = plan_for(PLAIN, negatives="relations")
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "noisy"))
    store(PLAIN, tmp_path / "noisy", entity_rate=10**7)
    assert stored_bounds(PLAIN, "entity") == [None]
    assert "`sizes` of the plan" in refusal(PLAIN, plan)


@pytest.mark.parametrize(
    ("noisy", "words"), [({"entities": 400}, "lower bound"), ({"relations": 50}, "upper bound")]
)
def test_a_release_beyond_its_margin_is_refused_without_exact_sizes(
    tmp_path, monkeypatch, noisy, words
):
    """The bounds of a release fail with a small probability, which is a part of delta."""
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "beyond"))
    store(PLAIN, tmp_path / "beyond", **noisy)
    said = refusal(PLAIN, plan_for(PLAIN, negatives="entities"))
    assert words in said
    assert "to nobody" in said
    assert not any(number in said for number in ("300", str(PLAIN.num_relations)))
