"""Making the budget of a graph: refused for a copy of a graph that has one; with releases that were made before.

The graph in the folder is read only on a machine that knows graphs with a budget (`reldp.runs.budgeted_graphs`). One
that cannot be read as it is, because it needs ``--drop`` for instance, is compared when a run or a release starts.

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
from reldp.errors import ConfigError, GraphError, PlanError
from reldp.graph import EntityGraph
from reldp.runs.budget import NAME, Budget
from reldp.runs.budgeted_graphs import has_known_graphs, refuse_copied_graph
from reldp.runs.past_releases import PastRelease, enter_past_releases, past_releases

__all__ = ["new_budget"]


def new_budget(
    folder: str | Path,
    *,
    unit: str = "entity",
    limit: float | None = None,
    delta: float | None = None,
    adaptive: bool = False,
) -> Budget:
    """Make a budget in the folder of a graph, or any other.

    Args:
        folder: The folder.
        unit: Unit of privacy of all runs.
        limit: Largest epsilon of all runs, if any.
        delta: Delta of the limit.
        adaptive: Whether plans may be chosen by results of earlier runs.

    Raises:
        ConfigError: There is a budget, there was one that is gone, or the same graph has one elsewhere.
        PlanError: The limit is out of range, or less than what releases of sizes have spent.
        GraphError: The releases that are stored in the folder are damaged.
    """
    place = Path(folder)
    if has_known_graphs() and not (place / NAME).exists():
        _refuse_copy(place)
    check_choice("unit", unit, UNITS, error=ConfigError)
    past = past_releases(place, unit)
    if limit is not None and delta is not None and past:
        _refuse_limit(past, limit, delta)
    budget = Budget.create(place, unit=unit)
    try:
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


def _refuse_copy(folder: Path) -> None:
    """Refuse a folder with a graph whose budget this machine knows."""
    try:
        fingerprint = EntityGraph.read(folder).fingerprint
    except GraphError:  # no graph, or none that can be read without further options
        return
    refuse_copied_graph(fingerprint)
