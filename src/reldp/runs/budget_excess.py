"""Refusing what would exceed the limit of a budget, with the reason and what to do.

An entry without a proof, or without noise, makes every sum infinite, whatever comes after it. It is named then: no
smaller delta and no larger limit would help.

Inside the package: `refuse_excess`, `refuse_infinite_limit`, `shown_epsilon`, `without_proof`, `NO_GUARANTEE`.

>>> shown_epsilon(1.00001)
'1.0001'
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from reldp.errors import PlanError
from reldp.plan import PrivacyPlan
from reldp.runs.budget_cost import Charge, composed_epsilon
from reldp.runs.budget_limits import is_adaptive, limits

__all__ = [
    "NO_GUARANTEE",
    "refuse_excess",
    "refuse_infinite_limit",
    "shown_epsilon",
    "without_proof",
]

_Entry = Mapping[str, Any]
NO_GUARANTEE = (
    "nothing is guaranteed without noise, or with a clipping rule whose epsilon has no proof"
)


def refuse_excess(
    entries: Sequence[_Entry],
    charges: Sequence[Charge],
    charge: Charge,
    spent: str = "{} with this run",
    remedy: str = "Use more noise or fewer steps",
) -> None:
    """Refuse a charge beyond the limit of a budget, if it has one.

    Args:
        entries: The entries of the budget.
        charges: What they cost.
        charge: What would be entered.
        spent: What brings the budget to which epsilon.
        remedy: What to do.

    Raises:
        PlanError: The limit would be exceeded.
    """
    held = limits(entries)
    if not held:
        return
    delta, max_epsilon = float(held[-1]["delta"]), float(held[-1]["epsilon"])
    is_added = is_adaptive(entries)
    total = composed_epsilon([*charges, charge], delta, adaptive=is_added)
    if total <= max_epsilon:
        return
    limit = f"The budget must stay within epsilon {max_epsilon:g} at delta {delta:g}"
    if charge.plan is not None and charge.plan.noise_multiplier == 0:
        raise PlanError(
            f"{limit}, got infinite with this run, which adds no noise. Train without privacy on public data only: no "
            "limit admits it here."
        )
    if culprit := without_proof(entries):
        raise PlanError(
            f"{limit}, got infinite because of {culprit}: {NO_GUARANTEE}. It stays entered, so that no limit admits a "
            "further run on this data."
        )
    how = " Deltas are added as well: use a smaller delta for each run." if is_added else ""
    if total == math.inf:
        how += " An infinite epsilon mostly means that a run's delta is not below the budget's: use --delta."
    raise PlanError(
        f"{limit}, got {spent.format(shown_epsilon(total))}. {remedy}, or raise the limit.{how}"
    )


def refuse_infinite_limit(entries: Sequence[_Entry], epsilon: float, delta: float) -> NoReturn:
    """Refuse a limit for entries that no epsilon covers.

    Raises:
        PlanError: Always.
    """
    limit = f"`limit` must cover what is spent, got {epsilon:g} at delta {delta:g}"
    if culprit := without_proof(entries):
        raise PlanError(
            f"{limit}, which {culprit} exceeds: {NO_GUARANTEE}. It stays entered, so that no limit can be set."
        )
    raise PlanError(
        f"{limit}, where no epsilon does. Mostly a run's delta is not below it: use a larger delta."
    )


def shown_epsilon(epsilon: float) -> str:
    """Return an epsilon for messages, rounded up."""
    return "infinite" if math.isinf(epsilon) else f"{math.ceil(epsilon * 1e4) / 1e4:g}"


def without_proof(entries: Sequence[_Entry]) -> str:
    """Return the first entry that guarantees nothing, in words; empty if there is none."""
    for entry in entries:
        if "plan" not in entry:
            continue
        plan = PrivacyPlan.from_dict(dict(entry["plan"]))
        if plan.noise_multiplier == 0 or plan.status != "proven":
            kind = str(entry.get("purpose", "search"))
            return f"the entry of {entry['date']} ({kind}, {plan.num_steps:,} steps)"
    return ""
