"""A refusal names what brings a budget above its limit, and what helps."""

from dataclasses import replace

import pytest

from reldp.errors import PlanError
from reldp.runs.budget import Budget
from reldp.runs.budget_cost import Charge
from reldp.runs.budget_excess import refuse_excess, shown_epsilon
from tests.runs.test_budget_cost import PLAN

LIMIT = {"kind": "limit", "epsilon": 9.0, "delta": 1e-6, "adaptive": False, "date": "2026-01-02"}


def run_entry(plan, purpose="train"):
    return {"kind": "run", "plan": plan.to_dict(), "purpose": purpose, "date": "2026-01-03"}


def test_without_a_limit_nothing_is_refused():
    refuse_excess([], [], Charge(plan=replace(PLAN, noise_multiplier=0.0)))


@pytest.mark.parametrize("change", [{"clipping": "frequency"}, {"noise_multiplier": 0.0}])
@pytest.mark.parametrize("is_first", [False, True])
def test_an_entry_without_proof_or_noise_is_named(change, is_first):
    bad = replace(PLAN, **change)
    entered = [run_entry(PLAN), run_entry(bad, "entered later")]
    charges = [Charge(plan=PLAN), Charge(plan=bad)]
    entries = [*entered, LIMIT] if is_first else [LIMIT, *entered]
    with pytest.raises(PlanError) as said:
        refuse_excess(entries, charges, Charge(plan=PLAN))
    words = str(said.value)
    assert f"because of the entry of 2026-01-03 (entered later, {PLAN.num_steps:,} steps)" in words
    assert "no limit admits a further run" in words
    assert "delta is not below" not in words


def test_a_delta_that_is_too_small_is_still_named():
    small = {**LIMIT, "delta": 1e-30}
    with pytest.raises(PlanError, match="a run's delta is not below the budget's"):
        refuse_excess([{**small, "adaptive": True}], [], Charge(plan=PLAN))


def test_a_limit_cannot_be_set_for_an_entry_without_proof(tmp_path):
    Budget.create(tmp_path).close()
    with Budget.open(tmp_path) as budget:
        budget.enter_run("a" * 32, replace(PLAN, clipping="frequency"), is_spent=True)
        with pytest.raises(
            PlanError, match=r"which the entry of .* exceeds: nothing is guaranteed"
        ):
            budget.set_limit(9.0, 1e-6)


def test_shown_epsilons_are_rounded_up():
    assert shown_epsilon(float("inf")) == "infinite"
    assert shown_epsilon(2.00001) == "2.0001"
