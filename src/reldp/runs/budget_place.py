"""Where the budget of a graph is: in its folder, or in one that several graphs were declared to share.

Graphs whose entities overlap, such as two versions of the same data, must share a budget: an entity that is in both
is exposed by the runs on both. A small file in the graph's folder, budget-folder.json, names the folder of the
shared budget and its id. reldp cannot know that graphs overlap; the owner declares it.

Public inside the package: `budget_for`, `budget_of_graph`, `find_budget`, `id_of_budget`, `share_budget`.

>>> find_budget("nowhere") is None
True
"""

import json
import os
from pathlib import Path

from reldp._real_path import path_text
from reldp.errors import ConfigError
from reldp.graph.graph_names import GraphNames
from reldp.runs.budget import Budget
from reldp.runs.budget_file import LINK, NAME, holds_budget, restore
from reldp.runs.budgeted_graphs import names_in, note_graph, note_lost, refuse_copied_graph
from reldp.runs.durable import write_durably
from reldp.runs.known_budgets import known_folder, lost_budgets
from reldp.runs.past_releases import enter_noted_releases, enter_releases_of
from reldp.runs.plain_files import read_plain
from reldp.runs.strict_json import parse_json

__all__ = ["budget_for", "budget_of_graph", "find_budget", "id_of_budget", "share_budget"]

_LIMIT = 2**16


def find_budget(graph: str | Path | None) -> Path | None:
    """Return the folder of the budget of a graph's folder; None if it has none.

    Raises:
        ConfigError: The graph names a budget that is not there, has two, or lost the one that it had.
    """
    folder = None if graph is None else Path(graph)
    if folder is None:
        return None
    if not folder.is_dir():
        if lost_budgets(folder):
            raise ConfigError(
                f"The folder of the graph must be there, since it has a budget, got none: {folder.name!r}."
            )
        return None
    has_own = os.path.lexists(folder / NAME)
    if os.path.lexists(folder / LINK):
        if has_own:
            raise ConfigError(f"{LINK} must be in a graph without a budget of its own, got both.")
        return _linked(folder)
    if not has_own and (lost := lost_budgets(folder)):
        raise ConfigError(
            f"The graph in {folder.name!r} must have its budget, got none: {NAME} was there and is gone. "
            f"{restore(lost)}"
        )
    return folder if has_own else None


def budget_for(graph: str | Path | None, named: str | Path | None) -> Path | None:
    """Return the folder of the budget that a run belongs to: the graph's, or a named one if it has none.

    Raises:
        ConfigError: The graph has a budget, and another one is named.
    """
    current = find_budget(graph)
    if named is None or current is None:
        return current if named is None else Path(named)
    if id_of_budget(current) != id_of_budget(Path(named)):
        raise ConfigError(
            f"`budget` must be that of the graph, got {str(named)!r}. A run counts in the budget of its graph; reldp "
            "budget share declares a common one for graphs that have none."
        )
    return current


def budget_of_graph(
    graph: str | Path | None, named: str | Path | None, names: GraphNames
) -> Path | None:
    """Return what `budget_for` does, if this machine knows no other budget of the same graph.

    Args:
        graph: The folder of the graph, if it has one.
        named: The folder of a budget that was named, if any.
        names: Of the graph, before capping; sensitive.

    Raises:
        ConfigError: The graph has a budget, and another one is used, or none.
    """
    place = budget_for(graph, named)
    if place is None:
        refuse_copied_graph(names)
        return None
    with Budget.open(place, read_only=True) as budget:
        used, lost = budget.id, budget.lost_ids
    refuse_copied_graph(names, used, lost)
    note_lost(lost, used)
    return place


def share_budget(graph: str | Path, budget: str | Path, *, is_written: bool = False) -> None:
    """Declare that runs on a graph are entered in the budget of another folder, with releases of its sizes so far.

    Args:
        graph: The folder of the graph.
        budget: The folder of the budget, or one that shares it.
        is_written: Whether reldp has just written the graph from one with this budget. There are no copies of it that
            a machine would have to know.

    Raises:
        ConfigError: There is no such folder or budget, or the graph has another budget.
    """
    folder = Path(graph)
    if not folder.is_dir():
        raise ConfigError(f"GRAPH must be a folder, got {str(graph)!r}.")
    place = find_budget(budget)
    if place is None:
        raise ConfigError(f"`with` must be a folder with {NAME}, got {str(budget)!r}.")
    if not _is_replaced(folder, place) and (current := find_budget(graph)) is not None:
        if id_of_budget(current) == id_of_budget(place):
            _refuse_copied_budget(current, place)
            return
        raise ConfigError(
            "GRAPH must have no budget, got one: what was entered there would be forgotten."
        )
    names = None if is_written else names_in(folder)
    with Budget.open(place) as opened:
        if names is not None:
            refuse_copied_graph(names, opened.id, opened.lost_ids)
        enter_releases_of(folder, opened, place)
        if names is not None:
            enter_noted_releases(names.exact, folder, opened)
        text = json.dumps({"folder": path_text(place), "id": opened.id}) + "\n"
    # First: a graph with a link, whose copies nobody knows, would not be noted again.
    if names is not None:
        note_graph(opened.id, names)
    write_durably(folder / LINK, text.encode(), mode=0o600)


def _refuse_copied_budget(current: Path, place: Path) -> None:
    """Refuse to share a budget with a folder that holds a copy of its file, where entries would go."""
    if not os.path.samefile(current / NAME, place / NAME):
        raise ConfigError(
            f"GRAPH must have no budget of its own, got a copy of this one, {str(current / NAME)!r}. Delete the copy "
            "if nothing was entered there, and share again; else share the other way round."
        )


def _is_replaced(folder: Path, place: Path) -> bool:
    """Return whether the budget in a place took the place of a lost one that a graph's link names."""
    if not os.path.lexists(folder / LINK):
        return False
    _, linked = _link(folder)
    with Budget.open(place, read_only=True) as budget:
        return linked in budget.lost_ids


def _link(folder: Path) -> tuple[str, str]:
    """Return the folder and the id that a link names."""
    values = parse_json(read_plain(folder / LINK, limit=_LIMIT), LINK)
    parts = (values.get("folder"), values.get("id")) if isinstance(values, dict) else (None, None)
    if not isinstance(parts[0], str) or not isinstance(parts[1], str):
        raise ConfigError(f"{LINK} must name the folder and the id of a budget, got damage.")
    return parts[0], parts[1]


def _linked(folder: Path) -> Path:
    """Return the folder that a link names, or that its budget was moved to.

    Raises:
        ConfigError: The budget there is neither the declared one nor one that took its place when it was lost.
    """
    named, declared = _link(folder)
    place = folder / named
    try:
        is_there = os.path.lexists(place / NAME)
    except (OSError, ValueError):  # a name that no file can have
        is_there = False
    moved = None if is_there else known_folder(declared)
    if moved is not None and holds_budget(moved, declared):
        return moved
    if not is_there:
        raise ConfigError(
            f"{LINK} must name a folder with {NAME}, got {named[:80]!r}, which has none. If it was moved, show its "
            f"new place: reldp budget show FOLDER. If it was declared lost, declare the one that took its place: reldp "
            "budget share GRAPH --with FOLDER"
        )
    with Budget.open(place, read_only=True) as budget:
        is_declared = declared in (budget.id, *budget.lost_ids)
    if not is_declared:
        raise ConfigError(
            f"{LINK} must name the budget that was declared, got another one in {named[:80]!r}. Restore "
            f"{NAME} there."
        )
    return place


def id_of_budget(folder: Path) -> str:
    """Return the id of the budget in a folder."""
    with Budget.open(folder, read_only=True) as budget:
        return budget.id
