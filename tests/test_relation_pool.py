"""Plans and runs whose negatives are other relations (theory.md 2.6)."""

import json
from dataclasses import replace

import numpy as np
import pytest

from reldp.auditing.audit import steps_alone
from reldp.cli import output
from reldp.cli.main import main
from reldp.clipping import TupleClipping
from reldp.errors import ConfigError, PlanError
from reldp.graph import EntityGraph
from reldp.graph.sizes import SizeBounds
from reldp.losses import InfoNCELoss
from reldp.losses.matryoshka import MatryoshkaLoss
from reldp.plan import PrivacyPlan
from reldp.reporting import verify
from reldp.runs import wording
from reldp.runs.certificate_text import size_rows
from reldp.training import Trainer
from reldp.training.recipe import Recipe
from reldp.training.size_cost import size_cost
from tests.training.small import small_encoder, small_graph, small_plan

NUMBERS = {"num_entities": 5_000, "num_relations": 2_000, "max_degree": 1, "num_negatives": 3}
STEPS = {"num_steps": 100, "delta": 1e-5, "sample_rate": 0.02, "noise_multiplier": 1.5}


class OfOthers(TupleClipping):
    """A rule from outside, whose sensitivity is not proven."""


def plan_of(**changes):
    pool = {} if changes.get("negatives") == "entities" else {"pool_size": 2_000}
    return PrivacyPlan(**{**NUMBERS, **STEPS, "negatives": "relations", **pool, **changes})


def test_the_pool_is_the_relations_and_costs_what_as_many_entities_would():
    plan = plan_of()
    assert plan.pool_size == 2_000
    assert plan.negatives_per_tuple == 6
    same = plan_of(negatives="entities", num_entities=2_000)
    assert same.negatives_per_tuple == 3
    assert plan.event == same.event
    assert plan.epsilon() == same.epsilon()
    assert plan.epsilon() > plan_of(negatives="public", pool_size=10**6).epsilon()
    assert plan.status == "proven"


def test_the_relation_itself_is_in_the_pool_where_it_is_the_unit():
    plan = plan_of(unit="relation", max_degree=7)
    assert (plan.event.num_negatives, plan.event.max_degree) == (3, 1)
    assert plan.epsilon() == plan_of().epsilon()
    assert plan_of(unit="relation", negatives="entities").event.num_negatives == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_degree": 2}, "`max_degree` must be 1 when negatives are other relations, got 2"),
        (
            {"max_degree": 2, "unit": "owner"},
            "`max_degree` must be 1 when negatives are other relations",
        ),
        ({"clipping": OfOthers()}, "`clipping` must be tuple when negatives are other relations"),
        ({"clipping": "pair"}, "`clipping` must be tuple when negatives are other relations"),
        ({"clipping": "frequency"}, "`clipping` must be tuple when negatives are other relations"),
        ({"pool_size": None}, "`pool_size` must be given when negatives are relations"),
        (
            {"pool_size": 2_001},
            "`pool_size` must be at most num_relations when negatives are other relations",
        ),
    ],
)
def test_what_the_theorem_does_not_cover_is_refused(changes, message):
    with pytest.raises(PlanError, match=message):
        plan_of(**changes)


def test_a_plan_round_trips_and_has_a_hash_of_its_own():
    plan = plan_of()
    assert PrivacyPlan.from_json(plan.to_json()) == plan
    assert plan.hash != plan_of(negatives="entities").hash


@pytest.fixture(scope="module")
def large():
    size = 20_000
    graph = EntityGraph.from_lists(
        list(range(2 * size)),
        [(2 * i, 2 * i + 1) for i in range(size)],
        features=np.zeros((2 * size, 1), dtype=np.float32),
    )
    return graph.promise_degrees(1)


def test_bounds_of_a_graph_bound_its_relations_on_both_sides(large):
    """False alarm: the bounds fail with probability below 1e-7."""
    settings = {"negatives": "relations", "num_negatives": 3, "expected_batch_size": 32}
    plan = PrivacyPlan.for_graph(large, num_steps=50, target_epsilon=4.0, **settings)
    assert plan.sizes == "private"
    assert 18_000 < plan.pool_size < 20_000 < plan.num_relations < 22_000
    middle = (plan.pool_size + plan.num_relations) / 2
    assert abs(middle - 20_000) < (plan.num_relations - plan.pool_size) / 2
    declared = {"sizes": "declared", "min_entities": 30_000, "max_relations": 25_000}
    plan = PrivacyPlan.for_graph(large, num_steps=50, pool_size=15_000, **declared, **settings)
    assert plan.pool_size == 15_000
    for pool, message in (
        ({"pool_size": 20_001}, "`pool_size` must be at most the number of relations"),
        ({}, "`pool_size` must be given when sizes are declared and negatives are relations"),
    ):
        with pytest.raises(PlanError, match=message):
            PrivacyPlan.for_graph(large, num_steps=50, **pool, **declared, **settings)


@pytest.mark.parametrize("sizes", ["public", "private"])
def test_a_pool_that_follows_from_the_graph_is_not_given(large, sizes):
    with pytest.raises(PlanError, match=f"`pool_size` must not be given for {sizes} sizes"):
        PrivacyPlan.for_graph(
            large, sizes=sizes, negatives="relations", pool_size=15_000, target_epsilon=4.0
        )


@pytest.fixture(scope="module")
def capped():
    return small_graph().cap_degrees(1, seed=0)


def test_a_run_learns_from_all_relations_of_a_tuple_and_certifies(capped, tmp_path):
    plan = small_plan(capped, negatives="relations", expected_batch_size=10.0)
    assert plan.pool_size == capped.num_relations
    result = Trainer(small_encoder(), capped, plan, progress=False).fit(tmp_path / "run")
    assert verify(tmp_path / "run")
    words = (tmp_path / "run" / "certificate.md").read_text()
    assert (
        "Each tuple has one relation of the batch and 3 other relations; every endpoint of these"
        in words
    )
    assert "for any one entity with its at most one relation, in the" in result.certificate.summary
    assert "theory.md 2.6" in words
    assert result.certificate.values["training"]["pairing"] == "relations"


def test_a_pool_that_is_not_the_graphs_is_refused(capped):
    plan = small_plan(capped, negatives="relations", expected_batch_size=2.0)
    smaller = replace(plan, sizes="declared", pool_size=100)
    Trainer(small_encoder(), capped, smaller, progress=False)
    larger = {"num_relations": 400, "pool_size": 400, "expected_batch_size": None}
    with pytest.raises(ConfigError, match="`pool_size` of the plan must be a lower bound"):
        Trainer(small_encoder(), capped, replace(smaller, **larger), progress=False)
    for changes in (larger, {"pool_size": plan.pool_size - 1}):
        with pytest.raises(ConfigError, match="of the plan must be the graph's"):
            Trainer(small_encoder(), capped, replace(plan, **changes), progress=False)


def test_pairs_of_relations_need_relations(capped):
    plan = small_plan(capped, num_negatives=2)
    with pytest.raises(ConfigError, match="`pairing` relations needs a plan whose negatives are"):
        Trainer(small_encoder(), capped, plan, pairing="relations", progress=False)
    with pytest.raises(ConfigError, match="`pairing` relations needs a plan whose negatives are"):
        Trainer(small_encoder(), capped, plan, loss=InfoNCELoss(pairing="relations"))
    for inner in (
        InfoNCELoss(pairing="relations"),
        MatryoshkaLoss(InfoNCELoss(pairing="relations"), [3]),
    ):
        with pytest.raises(ConfigError, match="`pairing` relations needs a plan whose negatives"):
            Trainer(small_encoder(), capped, plan, loss=MatryoshkaLoss(inner, [4, 2]))
    with pytest.raises(ConfigError, match="`loss` must be infonce with pairing relations"):
        Trainer(small_encoder(), capped, plan, loss="hinge", pairing="relations")


def test_an_upper_bound_on_the_relations_is_not_taken_for_the_pool(capsys):
    """With fewer relations than the bound each is drawn more often: the pool needs a lower bound of its own."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in {**NUMBERS, **STEPS}.items()]
    assert main(["account", "--negatives", "relations", *words]) == 2
    assert "`pool_size` must be given" in capsys.readouterr().err.replace(
        "--pool-size", "`pool_size`"
    )
    assert main(["account", "--negatives=relations", "--pool-size=1500", "--json", *words]) == 0
    assert json.loads(capsys.readouterr().out)["epsilon"] >= plan_of(pool_size=1_500).epsilon()
    assert plan_of(pool_size=1_500).epsilon() > plan_of().epsilon()
    assert main(["account", "--compare", "--negatives=relations", "--pool-size=1500", *words]) == 0


def test_the_bounds_that_neighbors_must_meet_are_stated():
    plan = replace(plan_of(pool_size=1_500), sizes="declared")
    assert "from 1,500 to 2,000 relations" in wording.sizes(plan)
    rows = dict(size_rows(plan.to_dict(), {"all_protected": True}))
    assert rows["relations used"] == "1,500 to 2,000 (declared bounds)"
    assert output._graph(plan) == "at least 5,000 entities, from 1,500 to 2,000 relations"
    assert output._negatives(plan) == "every endpoint of 3 other relations, for each relation"
    bounds = SizeBounds(
        min_entities=5_000,
        max_relations=2_000,
        source="private",
        expected_entities=5_100,
        expected_relations=1_750,
    )
    released = replace(plan, sizes="private", sizes_epsilon=0.1, sizes_delta=1e-9)
    said = size_cost(released, bounds, None)
    assert "at least 5,000 entities and from 1,500 to 2,000 relations" in said
    owned = replace(plan, unit="owner")
    assert wording._by_owner(owned) == ""
    assert wording._by_owner(replace(owned, negatives="unprotected")) != ""
    assert "from 1,500 to 2,000 relations" in wording._within(plan)


def test_a_recipe_declares_a_lower_bound_for_the_pool(tmp_path):
    small_graph().write(tmp_path / "graph")
    privacy = {
        "sizes": "declared",
        "min_entities": 200,
        "max_relations": 200,
        "negatives": "relations",
        "num_negatives": 2,
        "target_epsilon": 8.0,
        "num_steps": 2,
        "expected_batch_size": 2.0,
    }
    data = {"graph": str(tmp_path / "graph"), "max_degree": 1}
    recipe = Recipe.from_values({"data": data, "privacy": {**privacy, "min_relations": 100}})
    capped = small_graph().cap_degrees(1, seed=0)
    assert recipe.plan(capped).pool_size == 100
    with pytest.raises(ConfigError, match="`min_relations` must be given for declared sizes"):
        Recipe.from_values({"data": data, "privacy": privacy}).plan(capped)


def test_audits_keep_the_pool_of_a_plan_with_bounds():
    plan = plan_of(sizes="private", sizes_epsilon=0.1, sizes_delta=1e-7, pool_size=1_800)
    assert steps_alone(plan).pool_size == 1_800
