"""A suggested plan follows from bounds, and looking at a graph never releases its sizes unasked."""

from pathlib import Path
from typing import Any

import pytest

from reldp._plan_suggestion import Suggestion, suggest, suggest_settings, with_suggestions
from reldp.errors import GraphError, PlanError
from reldp.graph import EntityGraph, sizes
from reldp.graph.sizes import has_release
from reldp.plan import PrivacyPlan

PRIVATE = {"sizes": "private", "min_entities": None, "max_relations": None}
PUBLIC = {**PRIVATE, "sizes": "public"}


def ring(size: int, text: str) -> Any:
    pairs = [(i, (i + 1) % size) for i in range(size)]
    graph = EntityGraph.from_lists(list(range(size)), pairs, text=[text] * size)
    return graph.promise_degrees(2)


def suggested(capped: Any, given: dict[str, Any], folder: Path | None = None, **more: Any) -> Any:
    settings = {"sizes": given, "targets": (4.0,), "folder": folder, "release": False, **more}
    return suggest(capped, **settings)


def test_nothing_is_released_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "remembered", lambda *given: pytest.fail("a release was drawn"))
    capped = ring(5000, "unasked")
    suggestion = suggested(capped, PRIVATE, tmp_path)
    assert (suggestion.bounds, suggestion.settings, list(suggestion.plans)) == (None, None, [])
    assert "--release-sizes" in suggestion.note
    assert "about epsilon 0." in suggestion.note
    assert list(tmp_path.iterdir()) == []
    assert suggestion.to_json()["sizes"] is None


def test_a_release_is_drawn_when_asked_for_and_used_again(tmp_path: Path) -> None:
    capped = ring(5000, "asked for")
    assert not has_release(capped, tmp_path)
    first = suggested(capped, PRIVATE, tmp_path, release=True)
    assert has_release(capped, tmp_path)
    assert first.bounds.source == "private"
    assert first.bounds.min_entities < 5000 < first.bounds.max_relations
    again = suggested(capped, PRIVATE, tmp_path)
    assert again == first
    assert first.settings == suggest_settings(2, first.bounds.max_relations)
    (row,) = first.plans
    assert row["delta"] == 0.1 / first.bounds.min_entities
    assert row["noise_per_batch"] == row["noise_multiplier"] / first.settings.expected_batch_size


def test_declared_and_public_sizes_need_no_release() -> None:
    capped = ring(3000, "no release")
    public = suggested(capped, PUBLIC)
    assert (public.bounds.min_entities, public.bounds.max_relations) == (3000, 3000)
    declared = {"sizes": "declared", "min_entities": 2500, "max_relations": 40_000}
    suggestion = suggested(capped, declared)
    assert suggestion.settings == suggest_settings(2, 40_000)
    assert suggestion.plans[0]["delta"] == 0.1 / 2500
    assert not has_release(capped)


def test_why_there_is_no_plan_is_said() -> None:
    declared = {"sizes": "declared", "min_entities": 2500, "max_relations": 10}
    assert "max_relations" in suggested(ring(3000, "too many"), declared).note
    small = suggested(ring(60, "too small"), PRIVATE, release=True)
    assert "for this graph" in small.note
    assert small == Suggestion(note=small.note)


@pytest.mark.parametrize(
    ("num_relations", "batch", "steps"),
    [(1, 1, 2), (1000, 4, 620), (9000, 32, 700), (60_000, 256, 590)],
)
def test_suggested_settings_follow_the_size(num_relations: int, batch: int, steps: int) -> None:
    suggested = suggest_settings(2, num_relations)
    assert (suggested.max_degree, suggested.num_negatives) == (2, 4)
    assert suggested.expected_batch_size == batch
    assert suggested.num_steps == steps


def test_a_graph_without_relations_has_no_suggestion() -> None:
    with pytest.raises(GraphError, match="a relation to plan for"):
        suggest_settings(5, 0)


def test_what_is_given_takes_the_place_of_its_suggestion() -> None:
    sizes = {"max_degree": 2, "num_relations": 9000}
    assert with_suggestions({}, **sizes) == {
        "num_negatives": 4,
        "num_steps": 700,
        "expected_batch_size": 32.0,
    }
    assert with_suggestions({"sample_rate": 0.01, "num_steps": 7}, **sizes) == {
        "num_negatives": 4,
        "num_steps": 7,
        "sample_rate": 0.01,
    }
    whole = {"num_negatives": 1, "num_steps": 7, "expected_batch_size": 5}
    assert with_suggestions(whole, max_degree=2, num_relations=0) == whole


def test_a_target_alone_makes_the_plan_that_the_command_line_suggests(tmp_path: Path) -> None:
    capped = ring(5000, "a target alone")
    plan = PrivacyPlan.for_graph(capped, target_epsilon=4)
    assert 3.9 < plan.epsilon() <= 4
    suggestion = suggested(capped, PRIVATE)
    assert suggestion.bounds.max_relations == plan.num_relations
    settings = suggestion.settings
    assert plan.num_negatives == settings.num_negatives
    assert plan.num_steps == settings.num_steps
    assert plan.expected_batch_size == settings.expected_batch_size
    (row,) = suggestion.plans
    assert (row["noise_multiplier"], row["delta"]) == (plan.noise_multiplier, plan.delta)


def test_reldp_train_makes_the_same_plan(tmp_path: Path) -> None:
    from reldp.training.recipe import Recipe

    capped = ring(3000, "by recipe")
    capped.graph.write(tmp_path / "graph")
    data = {"graph": str(tmp_path / "graph"), "max_degree": 2, "promise_degrees": True}
    privacy = {"target_epsilon": 4.0, "sizes": "public"}
    recipe = Recipe.from_values({"data": data, "privacy": privacy})
    assert recipe.plan(capped) == PrivacyPlan.for_graph(capped, target_epsilon=4, sizes="public")


def test_every_suggestion_can_be_overridden() -> None:
    capped = ring(3000, "overridden")
    given = {
        "num_negatives": 2,
        "num_steps": 50,
        "expected_batch_size": 12.0,
        "delta": 1e-6,
        "clipping": "pair",
        "clip_norm": 0.5,
        "unit": "relation",
    }
    for name, value in given.items():
        plan = PrivacyPlan.for_graph(capped, target_epsilon=4, sizes="public", **{name: value})
        assert str(getattr(plan, name)) == str(value)
        assert plan.epsilon() <= 4
    noisy = PrivacyPlan.for_graph(capped, noise_multiplier=2.0, sizes="public")
    assert (noisy.noise_multiplier, noisy.num_negatives) == (2.0, 4)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "`target_epsilon` must be given where settings are suggested, got none"),
        ({"num_steps": 10}, "`target_epsilon` must be given"),
        ({"target_epsilon": "4"}, "`target_epsilon` must be"),
        ({"target_epsilon": 0}, "`target_epsilon` must be"),
        (
            {"target_epsilon": 4, "sizes": "declared"},
            "`min_entities` must be given for declared sizes",
        ),
        ({"target_epsilon": 4, "negatives": "public"}, "`pool_size` must be given"),
        ({"target_epsilon": 4, "num_step": 10}, "Did you mean num_steps"),
        ({"target_epsilon": 4, "num_steps": "ten"}, "`num_steps` must be an integer"),
        ({"target_epsilon": 4, "num_steps": None}, "`num_steps` must be an integer"),
    ],
)
def test_what_is_missing_or_wrong_is_one_clear_line(given: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanError, match=words) as caught:
        PrivacyPlan.for_graph(ring(3000, "wrong"), **{"sizes": "public", **given})
    assert "\n" not in str(caught.value)


def test_a_graph_that_is_not_capped_is_one_clear_line() -> None:
    graph = EntityGraph.from_lists([1, 2], [(1, 2)], text=["a", "b"])
    with pytest.raises(
        PlanError, match=r"must be a CappedGraph, got EntityGraph. Bound the degrees"
    ):
        PrivacyPlan.for_graph(graph, target_epsilon=4)  # type: ignore[arg-type]


def test_other_relations_have_a_configuration_of_their_own() -> None:
    matched = EntityGraph.from_lists(
        list(range(40_000)), [(i, i + 1) for i in range(0, 40_000, 2)], text=["matched"] * 40_000
    ).promise_degrees(1)
    plan = PrivacyPlan.for_graph(matched, target_epsilon=4, sizes="public", negatives="relations")
    assert (plan.num_negatives, plan.expected_batch_size) == (7, 128.0)
    assert plan.num_steps == 690  # 4.4 passes
    suggestion = suggested(matched, PUBLIC, negatives="relations")
    assert suggestion.settings.negatives == "relations"
    (row,) = suggestion.plans
    assert (row["negatives"], row["num_negatives"]) == ("relations", 7)
    assert row["noise_multiplier"] == plan.noise_multiplier
