"""Copies of a graph belong to its budget: a folder that is written from a graph with a budget names that budget.

Parts of a graph and other versions of it share its entities, so their runs count in the same budget
(`reldp.runs.budget_place`, which is built on plans and graphs, and so is imported by name).

Private to the package: `carry_budget`.

>>> carry_budget(None, Path("nowhere"))
"""

from importlib import import_module
from pathlib import Path

from reldp._real_path import real_path

__all__ = ["carry_budget"]


def carry_budget(source: Path | None, target: Path) -> None:
    """Declare that the graph in a folder shares the budget of the graph that it was made from, if that has one.

    Raises:
        ConfigError: The folder has another budget.
    """
    if source is None or real_path(source) == real_path(target):
        return
    place = import_module("reldp.runs.budget_place")
    if place.find_budget(source) is not None:
        place.share_budget(target, source, is_written=True)
