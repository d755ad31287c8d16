"""The privacy cost of what ran: epsilon of the steps that a ledger counts, not of those planned.

Public inside the package: `privacy_cost`, `cost_of_run`.

>>> from reldp.plan import PrivacyPlan
>>> plan = PrivacyPlan(num_entities=400, num_relations=400, max_degree=2, num_negatives=2,
...                    expected_batch_size=10, num_steps=3, noise_multiplier=2.0, delta=1e-4)
>>> privacy_cost(plan, "pld", 2).epsilon < privacy_cost(plan, "pld", 3).epsilon
True
"""

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reldp.accounting import PrivacyCost
    from reldp.plan import PrivacyPlan
    from reldp.runs.ledger_state import LedgerRecord

__all__ = ["cost_of_run", "privacy_cost"]


@lru_cache(maxsize=256)
def privacy_cost(plan: "PrivacyPlan", accountant: str, num_steps: int) -> "PrivacyCost":
    """Return epsilon of some steps of a plan; cached, because accounting takes a second.

    Args:
        plan: The privacy plan.
        accountant: ``"pld"`` or ``"rdp"``.
        num_steps: How many of its steps.
    """
    return plan.privacy_cost(accountant, num_steps)


def cost_of_run(plan: "PrivacyPlan", accountant: str, record: "LedgerRecord") -> "PrivacyCost":
    """Return epsilon of a run: of every step of every branch that its ledger counts.

    A run that was ended early by a decision that saw its results has the epsilon of all planned steps: the
    number of steps is then an output, and smaller numbers have no claim to a smaller epsilon
    (theory.md 6).
    """
    completion = record.completion
    by_result = completion is not None and completion.get("stop_decided_by") == "result"
    return privacy_cost(plan, accountant, plan.num_steps if by_result else record.num_counted)
