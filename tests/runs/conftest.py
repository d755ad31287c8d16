"""A budget for tests of runs, and fixtures of interrupted runs, shared with the tests of training."""

import pytest

from reldp.runs.budget import Budget
from reldp.runs.budget_entry import BudgetUse
from tests.training.conftest import addresses, folder, stopped_run

__all__ = ["addresses", "folder", "stopped_run", "use"]


@pytest.fixture
def use(tmp_path):
    """A new budget, and how a run is entered in it."""
    Budget.create(tmp_path / "budget").close()
    return BudgetUse(folder=tmp_path / "budget", fingerprint="f")
