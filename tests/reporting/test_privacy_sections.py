"""Pictures and tables of a report show the numbers of the curves, rounded up and in words that are true."""

import re
from dataclasses import replace

import pytest

from reldp.reporting.page import percent
from reldp.reporting.privacy_curves import RATES, privacy_curves
from reldp.reporting.privacy_sections import attacker_section, odds_after, protection_section
from reldp.runs.wording import shown
from tests.reporting.example import PLAN, sized_plan
from tests.reporting.html import parsed, table


def curves_of(plan):
    cost = plan.privacy_cost("pld")
    return privacy_curves(plan, plan.num_steps, cost.epsilon, cost.analysis)


@pytest.fixture(scope="module")
def curves():
    return curves_of(sized_plan("private"))


def test_reading_points_are_those_of_both_questions(curves):
    text = attacker_section(curves)
    parsed(text)
    rows = table(text, "reading-points")[1:]
    assert rows == [
        [percent(r), percent(curves.power(r, "presence")), percent(curves.power(r, "absence"))]
        for r in RATES
    ]


def test_the_drawn_curve_is_never_below_the_computed_one(curves):
    """Heights are rounded upwards, by less than a tenth of a unit."""
    text = attacker_section(curves)
    drawn = re.search(r'<polyline class="line main" points="([^"]+)"', text).group(1)
    heights = [float(pair.split(",")[1]) for pair in drawn.split()]
    assert len(heights) == len(curves.curve)
    top, bottom = 30.0, 330.0 - 46.0  # 100 % and 0 % in the chart
    for height, (_, power) in zip(heights, curves.curve, strict=True):
        exact = bottom - power * (bottom - top)
        assert exact - 0.11 <= height <= exact + 1e-9


def test_tables_show_the_computed_epsilons_rounded_up(curves):
    text = protection_section(curves)
    parsed(text)
    assert [row[:2] for row in table(text, "epsilon-by-degree")[1:]] == [
        [str(d), shown(e)] for d, e in curves.by_degree
    ]
    assert table(text, "epsilon-by-delta")[1:] == [[shown(d), shown(e)] for d, e in curves.by_delta]
    assert table(text, "epsilon-by-steps")[1:] == [[f"{n:,}", shown(e)] for n, e in curves.by_steps]
    groups = table(text, "groups")[1:]
    assert [row[0] for row in groups] == ["2", "5", "10"]
    assert groups[0][1] == shown(2 * curves.epsilon)


def test_odds_are_prior_times_likelihood_ratio(curves):
    text = attacker_section(curves)
    alarm = curves.worst(0.01) / 0.01
    assert odds_after(alarm, 1) in text
    assert odds_after(alarm, 1000) in text
    assert f"at most {percent(curves.best_guess)} are right" in text


@pytest.mark.parametrize(
    ("factor", "against", "words"),
    [
        (1.0, 1, "1:1 (50\u00a0%)"),
        (4.79, 1, "4.8:1 (82.8\u00a0%)"),
        (54.2, 1, "55:1 (98.2\u00a0%)"),
        (1234.1, 1000, "1,240:1,000 (55.3\u00a0%)"),
        (2e12, 1, "1e+13:1 (100\u00a0%)"),
    ],
)
def test_odds_are_rounded_up(factor, against, words):
    assert odds_after(factor, against) == words


def test_a_condition_is_stated_for_private_sizes_only(curves):
    assert "hold given these bounds" in attacker_section(curves)
    assert "hold given these bounds" not in attacker_section(curves_of(PLAN))


def test_other_units_are_named():
    relation = protection_section(curves_of(replace(PLAN, unit="relation")))
    assert "Single relations are protected" in relation
    owner = curves_of(replace(PLAN, unit="owner"))
    assert "whether one owner was in" in attacker_section(owner)
    assert "An owner with 1 relation" in protection_section(owner)


def test_one_relation_at_most_is_a_table_of_one_row():
    text = protection_section(curves_of(replace(PLAN, max_degree=1)))
    parsed(text)
    assert len(table(text, "epsilon-by-degree")) == 2
    assert "at most 1 relation and" in text


def test_a_bound_of_one_relation_is_compared_with_no_smaller_one():
    text = protection_section(curves_of(replace(PLAN, max_degree=1)))
    assert "Every entity has at most 1 relation and epsilon" in text
    assert "with a smaller one" not in text
    assert "1 relations" not in text
    assert "with a smaller one" in protection_section(curves_of(PLAN))


def test_groups_with_declared_sizes_have_their_condition(curves):
    condition = "groups without which the graph still meets the declared bounds"
    assert condition in protection_section(curves_of(sized_plan("declared")))
    assert condition not in protection_section(curves)


def test_epsilon_of_a_part_of_the_steps_is_under_the_condition_too():
    plan = sized_plan("private")
    whole, cost = attacker_section(curves_of(plan)), plan.privacy_cost("pld")
    part = attacker_section(privacy_curves(plan, plan.num_steps - 1, cost.epsilon, cost.analysis))
    assert "without this condition if the target epsilon was fixed before" in whole
    assert "those of a part of the steps, and all other points" in part
    assert "without this condition" not in part
    for unit, words in (("entity", "numbers of entities and"), ("owner", "numbers of owners and")):
        assert words in attacker_section(curves_of(replace(plan, unit=unit)))
