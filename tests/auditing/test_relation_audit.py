"""Audits of plans whose negatives are other relations: the audited relation shows where it is drawn."""

from dataclasses import replace

import numpy as np
import pytest

from reldp.auditing import audit_step
from reldp.auditing.cases import step_cases
from reldp.auditing.designs import ZERO_ELSEWHERE
from reldp.auditing.mechanism import real_parts, run_steps
from reldp.auditing.neighbors import worst_pair
from reldp.auditing.real_step import Job, run_job
from reldp.auditing.roles import crowded_pair
from reldp.plan import PrivacyPlan
from reldp.sampling.indices import IndexSampler

KEY = bytes(range(32))


def plan_of(**changes):
    settings = {
        "num_entities": 90, "num_relations": 40, "pool_size": 40, "max_degree": 1, "num_negatives": 2,
        "sample_rate": 0.15, "num_steps": 20, "noise_multiplier": 1e-4, "delta": 0.01, "negatives": "relations",
    }  # fmt: skip
    return PrivacyPlan(**{**settings, **changes})


@pytest.mark.parametrize("unit", ["entity", "owner", "relation"])
def test_the_mechanism_is_touched_by_draws_as_often_as_theory_says(unit):
    """i ~ Bin(1, gamma); k l of all relations are drawn, one in l of them for the relation's own tuple."""
    plan, count = plan_of(unit=unit, noise_multiplier=1.0), 3000
    pair = worst_pair(plan)
    parts = real_parts(plan, pair.with_entity, KEY)
    steps = run_steps(parts, pair, pair.with_entity, ZERO_ELSEWHERE, first=0, count=count)
    expected = 0.15 + 2 * 0.15 * 40 / 41
    deviation = steps.sums.std() / np.sqrt(count)
    assert abs(steps.sums.mean() - expected) < 4 * deviation
    assert expected - 0.15 > 8 * deviation  # sampled relations alone would be noticed


@pytest.mark.parametrize("unit", ["entity", "owner", "relation"])
def test_the_step_is_touched_by_draws_and_by_nothing_else(unit):
    plan = plan_of(unit=unit)

    def outputs(design, present):
        job = Job(plan=plan, graph="crowded", design=design, present=present, key=KEY, count=100)
        return run_job(job)

    still = outputs("zero elsewhere", True).along
    touched = np.round(still)
    assert np.abs(still - touched).max() < 0.01
    assert set(touched) == {0.0, 1.0, 2.0}
    # Sampled alone, it would be in 15 % of the steps; with its draws it is in about 38 %.
    assert (touched > 0).mean() > 0.28
    assert np.abs(outputs("zero elsewhere", False).along).max() < 0.01
    opposing = outputs("opposing elsewhere", False)
    assert -opposing.along.sum() / opposing.sizes.sum() > 0.9


def test_relations_share_few_entities_where_they_are_drawn():
    roles = crowded_pair(plan_of())
    relations = roles.pair.without_entity.relations
    assert len(np.unique(relations)) == relations.size
    assert roles.dimensions.max() == 8
    many = crowded_pair(plan_of(num_relations=200, sample_rate=0.01)).pair.without_entity.relations
    assert len(np.unique(many, axis=0)) == 200
    assert np.bincount(many.ravel()).max() <= 6
    few = crowded_pair(plan_of(num_entities=12, num_relations=30, pool_size=10, sample_rate=0.01))
    assert few.pair.without_entity.num_relations == 30


def test_a_stress_case_draws_relations_and_claims_something():
    (case,) = [case for case in step_cases(plan_of()) if case.name == "other relations"]
    assert case.plan.negatives == "relations"
    assert 0.05 < replace(case.plan, delta=case.deltas[0]).epsilon() < 3
    entities = plan_of(negatives="entities", pool_size=None)
    assert "other relations" not in {case.name for case in step_cases(entities)}


def test_relations_that_are_drawn_for_several_tuples_are_refuted(monkeypatch):
    settings = {"trials": 100, "addresses": 100, "key": KEY, "cases": ["other relations"]}
    honest = audit_step(plan_of(noise_multiplier=1.0), **settings)
    assert not honest.refuted, honest.verdict
    right = IndexSampler.draw

    def often(self, step, branch=0):
        draw = right(self, step, branch)
        return replace(draw, places=self.pool_size - 1 - draw.places // 8)

    monkeypatch.setattr(IndexSampler, "draw", often)
    assert audit_step(plan_of(noise_multiplier=1.0), **settings).refuted
