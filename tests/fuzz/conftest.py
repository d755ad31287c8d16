"""What templates fix for every process of the fuzzer is as it was for the tests that come after."""

import os

import pytest

import reldp.runs.budget
from reldp.runs import key


@pytest.fixture(autouse=True, scope="module")
def restored():
    """Put the key, the cost of a budget and the state folder back."""
    before = key.new_key, reldp.runs.budget.composed_epsilon, os.environ.get("RELDP_STATE_DIR")
    yield
    key.new_key, reldp.runs.budget.composed_epsilon, state = before
    os.environ.pop("RELDP_STATE_DIR", None)
    if state is not None:
        os.environ["RELDP_STATE_DIR"] = state
