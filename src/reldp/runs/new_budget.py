"""Making the budget of a graph: refused for a copy of a graph that has one.

The graph in the folder is read only on a machine that knows graphs with a budget (`reldp.runs.budgeted_graphs`). One
that cannot be read as it is, because it needs ``--drop`` for instance, is compared when a run or a release starts.

Public inside the package: `new_budget`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as home, new_budget(home) as budget:
...     budget.charges
[]
"""

from pathlib import Path

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.runs.budget import NAME, Budget
from reldp.runs.budgeted_graphs import has_known_graphs, refuse_copied_graph

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
        PlanError: The limit is out of range.
    """
    place = Path(folder)
    if has_known_graphs() and not (place / NAME).exists():
        _refuse_copy(place)
    budget = Budget.create(place, unit=unit)
    try:
        if limit is not None and delta is not None:
            budget.set_limit(limit, delta, adaptive=adaptive)
    except BaseException:
        budget.close()
        raise
    return budget


def _refuse_copy(folder: Path) -> None:
    """Refuse a folder with a graph whose budget this machine knows."""
    try:
        fingerprint = EntityGraph.read(folder).fingerprint
    except GraphError:  # no graph, or none that can be read without further options
        return
    refuse_copied_graph(fingerprint)
