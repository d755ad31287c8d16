from dataclasses import replace

import pytest

from reldp.plan import PrivacyPlan
from reldp.reporting.rule_comparison import compare_rules, noise_multiplier_for, paper_plan

SMALL = PrivacyPlan(
    num_entities=5000,
    num_relations=10_000,
    max_degree=5,
    num_negatives=4,
    sample_rate=0.002,
    num_steps=10,
    noise_multiplier=0.8,
    delta=1e-5,
)


@pytest.fixture(scope="module")
def rows():
    return compare_rules(SMALL)


def test_every_row_is_what_its_own_plan_costs(rows):
    for row in rows:
        analysis = "best" if row.analysis == "claimed" else row.analysis
        plan = replace(
            SMALL,
            clipping=row.clipping,
            analysis=analysis,
            noise_multiplier=row.noise_multiplier,
        )
        assert row.epsilon == plan.epsilon(row.accountant)
        assert row.status == plan.status


def test_noise_per_tuple_is_the_same_in_every_row(rows):
    most_per_tuple = {"tuple": 1.0, "pair": 1.0, "frequency": 0.5}
    assert {row.noise_multiplier / most_per_tuple[row.clipping] for row in rows} == {0.8}
    # The most a tuple may keep under the frequency rule: its entities occur at least once.
    limits = replace(SMALL, clipping="frequency").clipping.thresholds(
        [[0, 1]], [[2, 3, 4, 5]], clip_norm=1.0
    )
    assert limits.max() == noise_multiplier_for("frequency", 1.0) == 0.5


def test_rows_that_a_setting_does_not_allow_are_left_out():
    without = {(r.clipping, r.analysis) for r in compare_rules(replace(SMALL, num_negatives=0))}
    assert ("pair", "replacement") not in without
    whole = PrivacyPlan(
        num_entities=1000,
        num_relations=20,
        max_degree=5,
        num_negatives=4,
        sample_rate=1.0,
        num_steps=2,
        noise_multiplier=5.0,
        delta=1e-5,
    )
    assert "anchored" not in {row.analysis for row in compare_rules(whole)}


def test_the_plans_own_rule_does_not_matter(rows):
    assert compare_rules(replace(SMALL, clipping="frequency")) == rows


def test_the_papers_default_is_the_papers():
    plan = paper_plan()
    assert (plan.num_entities, plan.num_relations, plan.num_steps) == (10**6, 5 * 10**6, 10**5)
    assert (plan.max_degree, plan.num_negatives, plan.sample_rate) == (5, 4, 1e-5)
    assert plan.delta == pytest.approx(1 / plan.num_relations)
    assert noise_multiplier_for("frequency", plan.noise_multiplier) == 0.5
