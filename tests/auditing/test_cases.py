import pytest

from reldp.auditing.cases import step_cases
from reldp.plan import PrivacyPlan


def plan_of(**changes):
    settings = {
        "num_entities": 400, "num_relations": 300, "max_degree": 7, "num_negatives": 3,
        "sample_rate": 0.02, "num_steps": 9, "noise_multiplier": 2.0, "delta": 1e-3,
        "clip_norm": 0.4,
    }  # fmt: skip
    return PrivacyPlan(**{**settings, **changes})


@pytest.mark.parametrize("clipping", ["tuple", "pair", "frequency"])
def test_stress_cases_keep_what_decides_the_code(clipping):
    plan = plan_of(clipping=clipping)
    for case in step_cases(plan)[2:]:
        assert case.plan.clipping.name == clipping
        assert case.plan.clip_norm == (0.05 if case.name == "many other relations" else 0.4)
        assert case.plan.num_negatives == (1 if case.name == "negatives" else 3)


def test_every_claim_is_finite_and_says_something():
    for case in step_cases(plan_of())[2:]:
        for delta in case.deltas:
            claimed = PrivacyPlan.from_dict({**case.plan.to_dict(), "delta": delta}).epsilon()
            assert 0.05 < claimed < 3, case.name


def test_the_plans_own_deltas_are_the_default():
    assert step_cases(plan_of())[0].deltas == (1e-3, 1e-2, 5e-2)
    assert step_cases(plan_of(), (0.2,))[0].deltas == (0.2,)


def test_a_plan_with_a_degree_of_one_has_a_case_of_its_own_relations_too():
    assert "several relations" in {case.name for case in step_cases(plan_of(max_degree=1))}
