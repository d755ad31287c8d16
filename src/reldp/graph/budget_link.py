"""Copies of a graph belong to its budget: a folder that is written from a graph with a budget names that budget.

Parts of a graph and other versions of it share its entities, so their runs count in the same budget
(`reldp.runs.budget_place`, which is built on plans and graphs, and so is imported by name).

A folder that takes the place of another one, as a store that is built again, keeps its budget.

Private to the package: `BUDGET_FILES`, `carry_budget`, `kept_budget`, `refuse_two_budgets`.

>>> carry_budget(None, Path("nowhere"))
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path

from reldp._real_path import real_path
from reldp.errors import ConfigError

__all__ = ["BUDGET_FILES", "carry_budget", "kept_budget", "refuse_two_budgets"]

BUDGET_FILES = ("budget.jsonl", "budget-folder.json")
"""The ledger of a budget, and the file that names the folder of one; `reldp.runs.budget_file` writes them."""


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


def refuse_two_budgets(source: Path, target: Path) -> None:
    """Refuse to write a graph into a folder that has another budget, before anything is written.

    Raises:
        ConfigError: Both have one, and these are not the same.
    """
    place = import_module("reldp.runs.budget_place")
    folders = [place.find_budget(folder) for folder in (source, target)]
    if None not in folders and len({place.id_of_budget(folder) for folder in folders}) > 1:
        raise ConfigError(
            "The output must have the budget of its source, or none, got another. Write to another folder."
        )


@contextmanager
def kept_budget(old: Path, new: Path) -> Iterator[None]:
    """Give the budget of a graph folder to one that replaces it, before it is in place.

    Both folders have the same file, so that an entry which another process makes meanwhile is in both. On a file system
    without hard links the file is copied, and locked until the new folder is in place.

    Args:
        old: The folder; it may be missing, or have no budget.
        new: A folder without budget.

    Raises:
        LedgerError: The budget is damaged.
    """
    ledger, link = BUDGET_FILES
    with ExitStack() as held:
        if (old / link).is_file():
            _copy(old / link, new / link)
        if (old / ledger).is_file():
            try:
                os.link(old / ledger, new / ledger, follow_symlinks=False)
            except OSError:
                budget = import_module("reldp.runs.budget").Budget
                held.enter_context(budget.open(old))
                _copy(old / ledger, new / ledger)
        yield


def _copy(source: Path, target: Path) -> None:
    write = import_module("reldp.runs.durable").write_durably
    write(target, source.read_bytes(), mode=0o600)
