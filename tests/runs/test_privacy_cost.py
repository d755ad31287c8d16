"""Epsilon is that of the steps a ledger counts, abandoned ones included."""

import pytest

from reldp.runs.ledger_state import LedgerRecord
from reldp.runs.privacy_cost import cost_of_run, privacy_cost
from tests.training.small import small_graph, small_plan

PLAN = small_plan(small_graph().promise_degrees(4), num_steps=12, noise_multiplier=3.0)


def record(*reserved):
    entries = [{"kind": "start", "format": 2, "num_steps": 12}]
    entries += [{"kind": "reserve", "branch": 0, "first": a, "stop": b} for a, b in reserved]
    return LedgerRecord.check(entries, head="")


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_it_is_the_plans_epsilon_of_so_many_steps(accountant):
    assert privacy_cost(PLAN, accountant, 12) == PLAN.privacy_cost(accountant, 12)
    assert privacy_cost(PLAN, accountant, 5).epsilon < privacy_cost(PLAN, accountant, 12).epsilon


def test_a_run_pays_for_counted_steps_and_not_for_planned_ones():
    assert cost_of_run(PLAN, "pld", record((0, 4), (4, 7))) == privacy_cost(PLAN, "pld", 7)


def test_a_step_that_is_executed_again_is_paid_for_once():
    assert cost_of_run(PLAN, "pld", record((0, 6), (4, 7))) == privacy_cost(PLAN, "pld", 7)


def test_an_abandoned_branch_is_paid_for():
    entries = [
        {"kind": "start", "format": 2, "num_steps": 12},
        {"kind": "reserve", "branch": 0, "first": 0, "stop": 6},
        {"kind": "resume", "branch": 1, "step": 0, "reason": "threads was 1, is 2"},
        {"kind": "reserve", "branch": 1, "first": 0, "stop": 3},
    ]
    checked = LedgerRecord.check(entries, head="")
    assert cost_of_run(PLAN, "rdp", checked) == privacy_cost(PLAN, "rdp", 9)
