"""Where the budget of a graph is: in its folder, or in one that several graphs were declared to share.

Graphs whose entities overlap, such as two versions of the same data, must share a budget: an entity that is in both
is exposed by the runs on both. A small file in the graph's folder, budget-folder.json, names the folder of the
shared budget. reldp cannot know that graphs overlap; the owner declares it.

Public inside the package: `find_budget`, `share_budget`.

>>> find_budget("nowhere") is None
True
"""

import json
from pathlib import Path

from reldp.errors import ConfigError
from reldp.runs.budget import NAME
from reldp.runs.durable import write_durably
from reldp.runs.plain_files import read_plain
from reldp.runs.strict_json import parse_json

__all__ = ["find_budget", "share_budget"]

_LINK = "budget-folder.json"
_LIMIT = 2**16


def find_budget(graph: str | Path | None) -> Path | None:
    """Return the folder of the budget of a graph's folder; None if it has none.

    Raises:
        ConfigError: The graph names a budget that is not there, or has two.
    """
    folder = None if graph is None else Path(graph)
    if folder is None or not folder.is_dir():
        return None
    has_own = (folder / NAME).exists()
    if not (folder / _LINK).exists():
        return folder if has_own else None
    values = parse_json(read_plain(folder / _LINK, limit=_LIMIT), _LINK)
    named = values.get("folder") if isinstance(values, dict) else None
    if not isinstance(named, str) or has_own:
        raise ConfigError(f"{_LINK} must name one folder, of a graph without a budget of its own.")
    place = folder / named
    try:
        is_there = (place / NAME).exists()
    except (OSError, ValueError):  # a name that no file can have
        is_there = False
    if not is_there:
        raise ConfigError(
            f"{_LINK} must name a folder with {NAME}, got {named[:80]!r}, which has none. Move it back, or declare "
            "the new place with reldp budget share."
        )
    return place


def share_budget(graph: str | Path, budget: str | Path) -> None:
    """Declare that runs on a graph are entered in the budget of another folder.

    Raises:
        ConfigError: There is no such folder or budget, or the graph has a budget of its own.
    """
    folder, place = Path(graph), Path(budget)
    if not folder.is_dir():
        raise ConfigError(f"GRAPH must be a folder, got {str(graph)!r}.")
    if not (place / NAME).exists():
        raise ConfigError(f"`with` must be a folder with {NAME}, got {str(budget)!r}.")
    if (folder / NAME).exists():
        raise ConfigError(
            f"GRAPH must have no budget of its own, got one with {NAME}. Its runs would be in two budgets."
        )
    text = json.dumps({"folder": str(place.resolve())}) + "\n"
    write_durably(folder / _LINK, text.encode(), mode=0o600)
