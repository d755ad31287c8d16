"""Settings about negatives that contradict each other are refused, before sizes are released."""

import pytest

from reldp.errors import ConfigError, PlanError, ReldpError
from reldp.graph import sizes
from reldp.training.negative_pool import check_pairing, declared_pool, named_bound
from reldp.training.recipe import Recipe
from tests.training.small import small_graph


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("pool") / "graph"
    small_graph().write(place)
    return str(place)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"privacy": {"negatives": "entities"}, "learning": {"pairing": "relations"}},
            "`pairing` relations needs a plan whose negatives are relations, got negatives from entities",
        ),
        (
            {"privacy": {"negatives": "relations"}, "data": {"public_pool": "folder"}},
            "`data.public_pool` must be left out unless negatives are public, got one with 'relations'",
        ),
        (
            {"privacy": {"negatives": "public"}},
            "`data.public_pool` must name a graph of public entities",
        ),
        (
            {"privacy": {"negatives": "relations", "min_relations": 100}},
            "`min_relations` must be given for declared sizes with negatives = relations, and only",
        ),
    ],
)
def test_contradictions_are_found_before_sizes_are_released(folder, sections, message, monkeypatch):
    monkeypatch.setattr(sizes, "remembered", lambda *given: pytest.fail("a release was drawn"))
    data = {"graph": folder, "max_degree": 1, **sections.get("data", {})}
    data |= {"public_pool": folder} if "public_pool" in data else {}
    privacy = {"noise_multiplier": 2.0, "sizes": "private", **sections["privacy"]}
    made = Recipe.from_values({**sections, "data": data, "privacy": privacy})
    with pytest.raises(ReldpError, match=message):
        made.trainer()


def test_pairs_of_relations_need_relations():
    check_pairing("relations", "relations")
    check_pairing("all", "entities")
    with pytest.raises(ConfigError, match="`pairing` relations"):
        check_pairing("relations", "public")


def bounds(**given):
    return {
        "negatives": "relations",
        "max_relations": 200,
        "min_relations": 100,
        "min_unprotected": None,
        **given,
    }


def test_a_declared_bound_is_the_pool():
    assert declared_pool(bounds(), sizes="declared") == 100
    assert declared_pool(bounds(min_relations=200), sizes="declared") == 200
    unprotected = bounds(negatives="unprotected", min_relations=None, min_unprotected=300)
    assert declared_pool(unprotected, sizes="declared") == 300
    assert declared_pool(bounds(min_relations=None), sizes="private") is None


def test_bounds_that_contradict_each_other_say_nothing_about_the_data(folder):
    with pytest.raises(ConfigError) as caught:
        declared_pool(bounds(min_relations=201), sizes="declared")
    assert str(caught.value).startswith(
        "`min_relations` must be at most max_relations, 200, got 201"
    )
    assert "depends on the data" not in str(caught.value)


def test_a_false_bound_is_named_as_in_the_recipe(folder):
    privacy = {
        "sizes": "declared", "min_entities": 200, "max_relations": 1_000, "min_relations": 900,
        "negatives": "relations", "noise_multiplier": 2.0,
    }  # fmt: skip
    made = Recipe.from_values({"data": {"graph": folder, "max_degree": 1}, "privacy": privacy})
    with pytest.raises(
        PlanError, match="`min_relations` must be at most the number of relations, and is not"
    ):
        made.plan(made.capped())


def test_only_pools_with_a_bound_are_renamed():
    with pytest.raises(PlanError, match="`pool_size`"), named_bound("public"):
        raise PlanError("`pool_size` must be given.")
    with pytest.raises(PlanError, match="`min_unprotected`"), named_bound("unprotected"):
        raise PlanError("`pool_size` must be given.")
