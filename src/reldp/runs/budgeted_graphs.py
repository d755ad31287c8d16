"""Which graphs this machine knows to belong to a budget, so that a copy of a graph without its budget is noticed.

A graph folder that is copied by hand without budget.jsonl has no budget, and its runs would be counted nowhere.
Whenever a run or a release of sizes is entered, the user's state folder keeps a keyed hash of the graph beside the id
of the budget. A run on the same graph (the same entities and relations, in whatever folder, format or degree bound)
without a budget, or with another one, is then refused, as long as the budget is where it was. Other machines know
nothing of this, and neither does anybody of a graph that was changed: graphs with common entities share a budget by
declaration (`reldp.runs.budget_place`).

Public inside the package: `has_known_graphs`, `is_noted`, `note_graph`, `refuse_copied_graph`.

>>> refuse_copied_graph("0" * 64)
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from reldp.errors import ConfigError, RunError
from reldp.graph.size_store import state_folder
from reldp.runs import schema
from reldp.runs.budget_file import NAME
from reldp.runs.durable import write_durably
from reldp.runs.known_budgets import known_folder, locked_state, read_known

__all__ = ["has_known_graphs", "is_noted", "note_graph", "refuse_copied_graph"]

FILE_NAME = "budget_graphs.private.json"
_MANY = 20_000


def note_graph(budget: str, fingerprint: str) -> None:
    """Remember that a graph belongs to a budget; a state folder that cannot be written remembers nothing."""
    state = state_folder()
    if state is None:
        return
    with suppress(OSError, RunError):
        name = _hashed(budget, fingerprint)
        if name in _read(state):
            return
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked_state(state):
            known = dict(list(_read(state).items())[-_MANY:]) | {name: budget}
            text = json.dumps({"format": 1, "graphs": known}, indent=1) + "\n"
            write_durably(state / FILE_NAME, text.encode(), mode=0o600)


def is_noted(budget: str, fingerprint: str) -> bool:
    """Return whether this machine knows that a graph belongs to a budget."""
    return _hashed(budget, fingerprint) in _read(state_folder())


def has_known_graphs() -> bool:
    """Return whether this machine knows a graph with a budget, so that comparing with them is worth reading one."""
    return bool(_read(state_folder()))


def refuse_copied_graph(fingerprint: str, used: str | None = None) -> None:
    """Refuse a graph without a budget, or with another one, if this machine knows the budget of the same graph.

    Args:
        fingerprint: Of the graph, before capping; sensitive.
        used: Id of the budget that the graph is used with; one that it was entered in is accepted.

    Raises:
        ConfigError: It does, and the budget is there.
        LedgerError: The file of known graphs is damaged.
    """
    known = _read(state_folder())
    if used is not None and _hashed(used, fingerprint) in known:
        return
    for budget in sorted(set(known.values())):
        place = known_folder(budget) if _hashed(budget, fingerprint) in known else None
        if place is None or not (place / NAME).is_file():
            continue
        if used is not None:
            raise ConfigError(
                f"The graph must be used with its budget, got another one, and the same graph has one in "
                f"{str(place)!r}, where its runs must be counted. Use that one: name it with `budget`, or copy the "
                f"graph without its budget files and declare the copy: reldp budget share COPY --with {place}"
            )
        raise ConfigError(
            f"The graph must be used with its budget, got none in its folder, and the same graph has one in "
            f"{str(place)!r}. Name it with `budget`, or declare it: reldp budget share GRAPH --with {place}"
        )


def _hashed(budget: str, fingerprint: str) -> str:
    """Return a name for a graph that shows nothing about it to somebody without the id of the budget."""
    key = hashlib.sha256(f"reldp graph of a budget {budget}".encode()).digest()
    return hashlib.blake2b(fingerprint.encode(), key=key, digest_size=16).hexdigest()


def _read(state: Path | None) -> Mapping[str, str]:
    """Return ids of budgets by the names of graphs."""
    remedy = "a backup, or remove it: copies of graphs are then not noticed."
    return read_known(state, FILE_NAME, "graphs", _check_id, remedy)


def _check_id(budget: object) -> None:
    schema.check({"budget": budget}, {"budget": schema.TEXT})
