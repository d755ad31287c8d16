"""Making the budget of a graph: refused for a copy of a graph that has one; with releases that were made before.

The graph in the folder is read, and known from then on (`reldp.runs.budgeted_graphs`): a copy that was made before
belongs to the same budget. A graph that comes into the folder later is known when its first run or release is entered.

Public inside the package: `new_budget`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as home, new_budget(home) as budget:
...     budget.charges
[]
"""

import math
from collections.abc import Sequence
from pathlib import Path

from reldp._validate import UNITS, check_choice
from reldp.errors import ConfigError, PlanError
from reldp.runs.budget import NAME, Budget
from reldp.runs.budget_file import holds_budget
from reldp.runs.budgeted_graphs import (
    is_known_budget,
    names_in,
    note_graph,
    note_lost,
    refuse_copied_graph,
)
from reldp.runs.known_budgets import empty_budgets, known_folder
from reldp.runs.past_releases import PastRelease, enter_past_releases, past_releases

__all__ = ["new_budget"]


def new_budget(
    folder: str | Path,
    *,
    unit: str = "entity",
    limit: float | None = None,
    delta: float | None = None,
    adaptive: bool = False,
    lost: Sequence[str] = (),
) -> Budget:
    """Make a budget in the folder of a graph, or any other.

    Args:
        folder: The folder.
        unit: Unit of privacy of all runs.
        limit: Largest epsilon of all runs, if any.
        delta: Delta of the limit.
        adaptive: Whether plans may be chosen by results of earlier runs.
        lost: Ids of earlier budgets of the same data that are gone for good; the new one names them.

    Raises:
        ConfigError: There is a budget, there was one that is gone, or the same graph has one elsewhere; or a lost
            budget is not known, or not lost.
        PlanError: The limit is out of range, or less than what releases of sizes have spent.
        GraphError: The releases that are stored in the folder are damaged.
    """
    place = Path(folder)
    check_choice("unit", unit, UNITS, error=ConfigError)
    is_new = not (place / NAME).exists()
    names, replaced = (names_in(place), empty_budgets(place)) if is_new else (None, [])
    if names is not None:
        refuse_copied_graph(names, lost=[*lost, *replaced])
    _check_lost(lost)
    past = past_releases(place, unit)
    if limit is not None and delta is not None and past:
        _refuse_limit(past, limit, delta)
    budget = Budget.create(place, unit=unit, lost=lost)
    try:
        note_lost([*lost, *replaced], budget.id)
        if names is not None:
            note_graph(budget.id, names)
        enter_past_releases(budget, past)
        if limit is not None and delta is not None:
            budget.set_limit(limit, delta, adaptive=adaptive)
    except BaseException:
        budget.close()
        raise
    return budget


def _refuse_limit(past: Sequence[PastRelease], limit: float, delta: float) -> None:
    """Refuse a limit below what is spent, before the budget is made."""
    spent = math.fsum(release.epsilon for release in past)
    if spent > limit or math.fsum(release.delta for release in past) >= delta:
        raise PlanError(
            f"`limit` must cover the releases of private sizes that were made before, epsilon {spent:.4g}, got "
            f"{limit:g} at delta {delta:g}. Use a larger one: what is spent stays spent."
        )


def _check_lost(lost: Sequence[str]) -> None:
    """Refuse budgets as lost that this machine does not know, or that are where they were."""
    for budget in lost:
        if not is_known_budget(budget):
            raise ConfigError(
                f"`lost_budget` must be the id of a budget that this machine knows, got {budget[:80]!r}. The message "
                "that refuses the graph shows it."
            )
        place = known_folder(budget)
        if place is not None and holds_budget(place, budget):
            raise ConfigError(
                f"`lost_budget` must be gone, got one that is in {str(place)!r}. Use it: reldp budget share GRAPH "
                f"--with {place}"
            )
