"""What is said about the end of a run depends on who ended it and how its weights were chosen."""

from dataclasses import replace

import pytest

from reldp.reporting.certificate_form import certificate_form
from reldp.runs.certificate import Certificate
from reldp.runs.model_card import model_card
from reldp.runs.result_wording import GIVEN_SIZES, choice, early_end, part_condition, search
from reldp.runs.wording import shown
from tests.reporting.example import PLAN, ledger, sized_plan


@pytest.mark.parametrize(
    ("decided_by", "words"),
    [
        ("steps", "Their number was fixed without looking"),
        ("time", "Time decided when to end"),
        ("result", "epsilon is that of all planned steps"),
    ],
)
def test_an_early_end_says_what_decided_it(decided_by, words):
    (said,) = early_end(PLAN, 60, {"stopped_at": 60, "stop_decided_by": decided_by})
    assert said.startswith("Training was ended after 60 of 100 planned steps.")
    assert words in said
    assert early_end(PLAN, 100, {}) == []


def test_a_choice_names_the_step_and_whether_ids_are_shared():
    by = {"every": 5, "metric": "mrr", "graph_sha256": "ab" * 32, "shares_ids": True}
    (said,) = choice({"selection": by}, {"chosen": {"step": 1_234}})
    assert "after step 1,234" in said
    assert said.endswith("It shares ids with the private graph, and was declared public.")
    (said,) = choice({"selection": {**by, "shares_ids": False}}, {"chosen": {"step": 1}})
    assert "shares ids" not in said


def test_a_search_is_known_or_secret_and_given_its_bounds():
    (known,) = search(PLAN, {"search": {"runs": 4}})
    assert "the best of 4 runs" in known
    assert "given the released bounds" not in known
    secret = {"distribution": "logarithmic", "mean": 4.0, "candidates": 9}
    (drawn,) = search(sized_plan("private"), {"search": secret})
    assert "is secret, each with settings drawn from 9" in drawn
    assert "given the released bounds" in drawn
    assert search(PLAN, {}) == search(replace(PLAN, noise_multiplier=0.0), {"search": secret}) == []


@pytest.mark.parametrize("decided_by", ["steps", "time", "result"])
def test_a_part_of_the_steps_holds_given_private_sizes(decided_by):
    end = {"stopped_at": 60, "stop_decided_by": decided_by}
    (private,) = early_end(sized_plan("private"), 60, end)
    # By a result, epsilon is that of all planned steps: the target, if there was one.
    assert ("so it holds given them" in private) == (decided_by != "result")
    for sizes in ("public", "declared"):
        assert "given" not in early_end(sized_plan(sizes), 60, end)[0]


@pytest.mark.parametrize("sizes", ["private", "public"])
@pytest.mark.parametrize("decided_by", ["steps", "result", None])
def test_a_line_about_a_part_of_the_steps_has_the_condition(sizes, decided_by):
    steps = {"planned": 100, "counted": 60} | (
        {"stopped_at": 60, "stop_decided_by": decided_by} if decided_by else {}
    )
    said = part_condition({"plan": {"sizes": sizes}, "steps": steps})
    assert bool(said) == (sizes == "private" and decided_by == "steps")
    whole = {"plan": {"sizes": sizes}, "steps": steps | {"counted": 100}}
    assert part_condition(whole) == ""  # all steps are counted: epsilon is that of the plan


def certified(mode="private", **settings):
    plan = sized_plan(mode)
    return Certificate.from_ledger(plan, ledger(plan, **{"version": "0.9.0", **settings}))


@pytest.mark.parametrize(
    "settings",
    [
        {"counted": 60},
        {"counted": 60, "by": "time"},
        {"search": {"runs": 3, "candidates": 2}},
        {"search": {"mean": 3.0, "distribution": "logarithmic", "candidates": 2}},
    ],
)
def test_what_epsilon_is_given_is_said_wherever_epsilon_is(settings):
    made = certified(**settings)
    assert made.given == GIVEN_SIZES
    assert made.summary.endswith(f", given {GIVEN_SIZES}.")
    pages = (made.to_markdown(), model_card(made.values), certificate_form(made, []))
    for page in pages:
        assert f"given {GIVEN_SIZES}" in page
        assert "epsilon holds given" in page
    assert Certificate.from_json(made.to_json()).values == made.values
    whole = sized_plan("private").epsilon("pld")
    if "search" in settings:
        assert "planned_steps" not in made.values["guarantee"]["epsilon"]
    else:
        assert made.values["guarantee"]["epsilon"]["planned_steps"] == whole > made.epsilon
        for page in pages:
            assert "epsilon of all planned steps" in page
            assert shown(whole) in page


@pytest.mark.parametrize(
    ("mode", "settings"),
    [
        ("private", {}),
        ("private", {"counted": 60, "by": "result"}),
        ("public", {"counted": 60}),
        ("declared", {"search": {"runs": 3, "candidates": 2}}),
        ("private", {"counted": 60, "version": "0.8.0"}),
    ],
)
def test_epsilon_that_holds_as_it_is_has_no_condition_beside_it(mode, settings):
    made = certified(mode, **settings)
    assert made.given is None
    assert "given the released bounds on sizes" not in made.summary
    assert "planned_steps" not in made.values["guarantee"]["epsilon"]
    assert "epsilon holds given" not in made.to_markdown()
