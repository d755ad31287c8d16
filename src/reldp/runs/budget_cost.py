"""Epsilon of everything that is spent on the same data: runs of different plans, and searches.

Steps of all runs are composed by their privacy-loss distributions, which gives less than the sum of their epsilons.
This needs that the plans were fixed without looking at results of earlier runs on the data (theory.md 3.5).
For plans that were chosen after looking, the epsilons and deltas of the runs are added, which is always valid.

The release of private sizes is added for every run, although runs of one graph and cap may share it. Searches
(`reldp.accounting.search`) are added, each with its own part of delta. A run counts with all of its planned
steps, whether or not it took them.

Public inside the package: `Charge`, `composed_epsilon`.

>>> composed_epsilon([], 1e-6)
0.0
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from reldp.accounting.events import Composition
from reldp.accounting.pld import PLDAccountant
from reldp.accounting.search import SearchSize, search_cost
from reldp.plan import PrivacyPlan

__all__ = ["Charge", "composed_epsilon"]


@dataclass(frozen=True, kw_only=True)
class Charge:
    """A run, or a search that releases its best run.

    Attributes:
        plan: The plan of the run, or of every run of the search.
        search: The distribution of the number of runs; None for a single run.
    """

    plan: PrivacyPlan
    search: SearchSize | None = None


def composed_epsilon(charges: Sequence[Charge], delta: float, *, adaptive: bool = False) -> float:
    """Return an epsilon at delta that covers all charges together.

    Args:
        charges: The runs and searches.
        delta: The delta of the whole.
        adaptive: Whether plans were chosen by looking at results of earlier runs.

    Returns:
        Epsilon; infinite if delta is too small, or a run has no noise.
    """
    if not charges:
        return 0.0
    rest = delta - sum(charge.plan.sizes_delta for charge in charges)
    if rest <= 0:
        return math.inf
    sizes = sum(charge.plan.sizes_epsilon for charge in charges)
    searches = [charge for charge in charges if charge.search is not None]
    runs = [charge.plan for charge in charges if charge.search is None]
    groups = [[plan] for plan in runs] if adaptive else [runs] if runs else []
    share = rest / (len(groups) + len(searches))
    steps = sum(_steps_epsilon(plans, share) for plans in groups)
    selected = sum(
        search_cost(_steps([charge.plan]), charge.search, share).epsilon
        for charge in searches
        if charge.search is not None
    )
    return sizes + steps + selected


def _steps(plans: Sequence[PrivacyPlan]) -> Composition:
    """Return all steps of some plans; equal ones are merged."""
    steps = Composition(())
    for plan in plans:
        steps = steps + plan.event * plan.num_steps
    return steps


def _steps_epsilon(plans: Sequence[PrivacyPlan], delta: float) -> float:
    return PLDAccountant().epsilon(_steps(plans), delta).epsilon
