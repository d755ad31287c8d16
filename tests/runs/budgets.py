"""What tests read of the budget of a run."""

from reldp.runs.budget import Budget


def entries(use, kind="run"):
    """The entries of a kind."""
    with Budget.open(use.folder, read_only=True) as budget:
        return [entry for entry in budget.entries if entry["kind"] == kind]
