"""Other relations are drawn at a bound of 1, unless a setting that does not fit is given."""

import pytest

from reldp.runs.run_folder import plan_bytes
from reldp.training.negative_defaults import ENTITY_DEGREE, degree_and_negatives
from reldp.training.recipe import Recipe
from tests.training.small import small_graph, small_plan


def settled(**given: dict[str, object]) -> tuple[int, str]:
    values = Recipe.from_values(given).values
    return values["data"]["max_degree"], values["privacy"]["negatives"]


def test_a_recipe_that_says_nothing_draws_other_relations():
    assert settled() == (1, "relations")
    assert settled(data={"max_degree": 1}) == (1, "relations")
    assert settled(privacy={"num_negatives": 3}) == (1, "relations")


def test_what_is_given_stays():
    assert settled(data={"max_degree": 3}) == (3, "entities")
    assert settled(privacy={"negatives": "entities"}) == (ENTITY_DEGREE, "entities")
    assert settled(privacy={"negatives": "relations"}) == (1, "relations")
    assert settled(data={"max_degree": 2}, privacy={"negatives": "relations"}) == (2, "relations")


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("learning", "loss", "hinge"),
        ("learning", "pairing", "all"),
        ("privacy", "clipping", "pair"),
        ("privacy", "unit", "relation"),
        ("privacy", "analysis", "replacement"),
        ("privacy", "enabled", False),
        ("privacy", "min_unprotected", 10),
        ("data", "promise_degrees", True),
        ("data", "public_pool", "pool"),
        ("privacy", "sizes", "declared"),
    ],
)
def test_a_setting_that_does_not_fit_draws_entities(section, name, value):
    assert settled(**{section: {name: value}}) == (ENTITY_DEGREE, "entities")


def test_a_resumed_run_keeps_its_negatives_unless_others_are_given(tmp_path):
    graph, run = small_graph(), tmp_path / "run"
    graph.write(tmp_path / "graph")
    run.mkdir()
    (run / "plan.json").write_bytes(plan_bytes(small_plan(graph.cap_degrees(3, seed=0))))
    privacy = {"target_epsilon": 8.0, "sizes": "public", "num_steps": 2, "delta": 1e-4}
    privacy |= {"expected_batch_size": 4.0, "num_negatives": 2}
    given = {"data": {"graph": str(tmp_path / "graph")}, "privacy": privacy}
    fresh = Recipe.from_values(given).trainer()
    assert (fresh.plan.max_degree, fresh.plan.negatives) == (1, "relations")
    resumed = Recipe.from_values(given).trainer(resumed=run)
    assert (resumed.plan.max_degree, resumed.plan.negatives) == (3, "entities")
    given["data"]["max_degree"] = 1
    assert Recipe.from_values(given).trainer(resumed=run).plan.max_degree == 1


def test_declared_sizes_with_a_bound_on_relations_draw_them():
    given = {"sizes": "declared", "min_relations": 50}
    assert settled(privacy=given) == (1, "relations")
    assert degree_and_negatives(None, None, **given) == (1, "relations")
