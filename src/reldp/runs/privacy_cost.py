"""The privacy cost of what ran: epsilon of the steps that a ledger counts, not of those planned.

Public inside the package: `privacy_cost`, `cost_of_run`.

>>> from reldp.plan import PrivacyPlan
>>> plan = PrivacyPlan(num_entities=400, num_relations=400, max_degree=2, num_negatives=2,
...                    expected_batch_size=10, num_steps=3, noise_multiplier=2.0, delta=1e-4)
>>> privacy_cost(plan, "pld", 2).epsilon < privacy_cost(plan, "pld", 3).epsilon
True
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from reldp.errors import LedgerError, PlanError

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
    (theory.md 6). A run that was released as the best of a search has the epsilon of the search (theory.md 3.5).
    """
    if "search" in record.start:
        return _cost_of_search(plan, accountant, record.start["search"])
    completion = record.completion
    by_result = completion is not None and completion.get("stop_decided_by") == "result"
    return privacy_cost(plan, accountant, plan.num_steps if by_result else record.num_counted)


def _cost_of_search(
    plan: "PrivacyPlan", accountant: str, facts: Mapping[str, Any]
) -> "PrivacyCost":
    """Return the epsilon of a search; by Renyi divergences, whatever the accountant, if its size is secret."""
    from reldp.accounting.search import SearchSize
    from reldp.runs.budget_cost import search_epsilon

    named = ("runs",) if "runs" in facts else ("mean", "distribution")
    try:
        size = SearchSize.from_dict({name: facts[name] for name in named})
    except (KeyError, PlanError) as error:
        raise LedgerError(
            f"ledger.jsonl: start.search must be the size of a search: {error}"
        ) from None
    if size.runs is not None:
        return privacy_cost(plan, accountant, size.runs * plan.num_steps)
    cost = privacy_cost(plan, accountant, plan.num_steps)
    has_both = len((plan.event * plan.num_steps).analyses("best")) > 1
    return replace(
        cost,
        epsilon=search_epsilon(plan, size, plan.delta),
        accountant="rdp",
        analysis="best" if has_both else cost.analysis,  # the smaller at each order
    )
