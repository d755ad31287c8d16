"""What templates fix for every process of the fuzzer is as it was for the tests that come after."""

import os
from pathlib import Path

import pytest

import reldp.runs.budget
from reldp.auditing import step_audit, suite
from reldp.runs import key
from tests.fuzz import templates


@pytest.fixture(autouse=True, scope="module")
def restored():
    """Put the key, the cost of a budget, the length of audits and the state folder back."""
    before = key.new_key, reldp.runs.budget.composed_epsilon, os.environ.get("RELDP_STATE_DIR")
    cases = step_audit.step_cases
    audits = suite.audit_step, suite._MECHANISM_TRIALS, suite._EVALUATIONS
    yield
    suite.audit_step, suite._MECHANISM_TRIALS, suite._EVALUATIONS = audits
    step_audit.step_cases = cases
    templates.PLACE = Path("nowhere")  # the next module makes its own
    key.new_key, reldp.runs.budget.composed_epsilon, state = before
    os.environ.pop("RELDP_STATE_DIR", None)
    if state is not None:
        os.environ["RELDP_STATE_DIR"] = state
