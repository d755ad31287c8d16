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
from contextlib import suppress
from pathlib import Path

from reldp._validate import UNITS, check_choice, check_number
from reldp.errors import ConfigError, PlanError, ReldpError
from reldp.graph import EntityGraph
from reldp.graph.graph_names import graph_names
from reldp.runs.budget import NAME, Budget
from reldp.runs.budget_entries import limit_entry
from reldp.runs.budget_file import holds_budget
from reldp.runs.budget_place import id_of_budget
from reldp.runs.budgeted_graphs import (
    graph_in,
    is_known_budget,
    note_graph,
    note_lost,
    refuse_copied_graph,
)
from reldp.runs.known_budgets import empty_budgets, known_folder
from reldp.runs.noted_releases import noted_releases
from reldp.runs.past_releases import PastRelease, past_entries, past_releases

__all__ = ["new_budget"]


def new_budget(
    folder: str | Path,
    *,
    unit: str | None = None,
    limit: float | None = None,
    delta: float | None = None,
    adaptive: bool = False,
    lost: Sequence[str] = (),
) -> Budget:
    """Make a budget in the folder of a graph, or any other.

    Args:
        folder: The folder.
        unit: Unit of privacy of all runs; by default the owner for a graph with owners, and else the entity.
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
    if unit is not None:
        check_choice("unit", unit, UNITS, error=ConfigError)
    is_new = not (place / NAME).exists()
    if not is_new:
        _note_again(place)
    graph, replaced = (graph_in(place), empty_budgets(place)) if is_new else (None, [])
    names = None if graph is None else graph_names(graph)
    unit = _unit_of(graph, unit)
    if names is not None:
        refuse_copied_graph(names, lost=[*lost, *replaced], is_used=False)
    _check_lost(lost)
    past = past_releases(place, unit)
    if names is not None:
        past += noted_releases(names.exact, unit, past)
    limits = []
    if limit is not None and delta is not None:
        check_number("limit", limit, above=0, error=PlanError)
        check_number("delta", delta, above=0, below=1, error=PlanError)
        _refuse_limit(past, limit, delta)
        limits = [limit_entry(limit, delta, adaptive=adaptive)]
    budget = Budget.create(
        place, unit=unit, lost=lost, further=lambda new: [*past_entries(new, past), *limits]
    )
    try:
        note_lost([*lost, *replaced], budget.id)
        if names is not None:
            note_graph(budget.id, names)
    except BaseException:
        budget.close()
        raise
    return budget


def _note_again(place: Path) -> None:
    """Note the graph of a budget that is there: it may be of a process that ended before it did."""
    with suppress(ReldpError):
        graph, budget = graph_in(place), id_of_budget(place)
        if graph is not None:
            names = graph_names(graph)
            refuse_copied_graph(names, budget)
            note_graph(budget, names)


def _unit_of(graph: EntityGraph | None, unit: str | None) -> str:
    """Return the unit of privacy of runs on a graph, or the given one if there can be such runs."""
    has_owners = graph is not None and "owner" in graph.columns
    if unit is None:
        return "owner" if has_owners else "entity"
    if has_owners and unit != "owner":
        raise ConfigError(
            f"`unit` must be owner for a graph with owners, got {unit}. Leave it out, or remove the column 'owner' if "
            "entities are to be protected one by one."
        )
    return unit


def _refuse_limit(past: Sequence[PastRelease], limit: float, delta: float) -> None:
    """Refuse a limit below what is spent, before the budget is made."""
    if not past:
        return
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
