"""Which graphs this machine knows to belong to a budget, so that a copy of a graph without its budget is noticed.

A graph folder that is copied by hand without budget.jsonl has no budget, and its runs would be counted nowhere.
When a graph gets a budget, and whenever a run or a release of sizes is entered, the user's state folder keeps keyed
hashes of the graph's names (`reldp.graph.graph_names`) beside the id of the budget. A run on the same graph (the same
entities and relations, in whatever folder, format, order or degree bound) without a budget, or with another one, is
then refused. It is also refused if the budget is not where it was: it may have been moved, or be on a disk that is not
mounted. Where it is gone for good, a new budget that names it as lost takes its place, and the lost one is refused if
it is found again. Other machines know nothing of this, and neither does anybody of a graph that was changed: graphs
with common entities share a budget by declaration (`reldp.runs.budget_place`).

Public inside the package: `is_known_budget`, `is_noted`, `names_in`, `note_graph`, `note_lost`,
`refuse_copied_graph`.

>>> refuse_copied_graph(GraphNames("0" * 64))
"""

import hashlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from reldp.errors import ConfigError, GraphError, RunError
from reldp.graph import EntityGraph
from reldp.graph.graph_names import GraphNames, graph_names
from reldp.graph.size_store import state_folder
from reldp.graph.sources import DROPPABLE
from reldp.runs import schema
from reldp.runs.budget_file import holds_budget
from reldp.runs.known_budgets import known_folder, read_known, write_known

__all__ = [
    "is_known_budget",
    "is_noted",
    "names_in",
    "note_graph",
    "note_lost",
    "refuse_copied_graph",
]

FILE_NAME = "budget_graphs.private.json"
_MANY = 20_000


def graph_in(folder: Path) -> EntityGraph | None:
    """Return the graph in a folder; None if there is no graph that any command could read.

    What needs ``--drop`` is dropped: every command that reads the graph drops the same, or refuses it.
    """
    try:
        return EntityGraph.read(folder, drop=DROPPABLE)
    except GraphError:
        return None


def names_in(folder: Path) -> GraphNames | None:
    """Return the names of the graph in a folder; None if there is no graph that any command could read."""
    graph = graph_in(folder)
    return None if graph is None else graph_names(graph)


def note_graph(budget: str, names: GraphNames) -> None:
    """Remember that a graph belongs to a budget; a state folder that cannot be written remembers nothing."""
    with suppress(OSError, RunError):
        if _hashed(budget, names.exact) in _read(state_folder()):
            return
    related = names.relations
    also = [] if related is None else [_hashed(budget, _related(related))]
    _note(dict.fromkeys([_hashed(budget, names.exact), *also], budget))


def note_lost(lost: Collection[str], budget: str) -> None:
    """Remember that a budget takes the place of others, which were declared lost."""
    known = _read(state_folder())
    names = {_lost(one): budget for one in lost if _lost(one) not in known}
    if names:
        _note(names)


def is_noted(budget: str, fingerprint: str) -> bool:
    """Return whether this machine knows that a graph belongs to a budget."""
    return _hashed(budget, fingerprint) in _read(state_folder())


def is_known_budget(budget: str) -> bool:
    """Return whether this machine knows a budget of this id."""
    return known_folder(budget) is not None or budget in _read(state_folder()).values()


def refuse_copied_graph(
    names: GraphNames,
    used: str | None = None,
    lost: Collection[str] = (),
    *,
    is_used: bool = True,
) -> None:
    """Refuse a graph without a budget, or with another one, if this machine knows the budget of the same graph.

    Args:
        names: Of the graph, before capping; sensitive.
        used: Id of the budget that the graph is used with; one that it was entered in is accepted.
        lost: Ids of budgets that the one in use declares lost.
        is_used: Whether the graph is going to be used, so that a budget can be named for it; no new one is made.

    Raises:
        ConfigError: It does, or the budget in use was declared lost.
        LedgerError: The file of known graphs is damaged.
    """
    known = _read(state_folder())
    if not known:
        return
    if used is not None:
        if (newer := _current(used, known)) != used:
            _refuse_replaced(newer)
        if _hashed(used, names.exact) in known:
            return
    budgets = {_current(one, known) for one in _budgets_of(names, known)}
    places = {one: known_folder(one) for one in sorted(budgets)}
    there = {o: p for o, p in places.items() if p is not None and holds_budget(p, o)}
    if used in budgets or (not there and budgets <= set(lost)):
        return
    got = "got none in its folder" if used is None else "got another one"
    if not there:
        missing = {o: p for o, p in places.items() if o not in lost}
        _refuse_without_budget(missing, got, is_used=is_used)
    place = next(iter(there.values()))
    how = (
        f"{_named('Name it with', is_used)} reldp budget share GRAPH --with {place}"
        if used is None
        else f"Use that one: name it with `budget`, or copy the graph without its budget files and declare the copy: "
        f"reldp budget share COPY --with {place}"
    )
    raise ConfigError(
        f"The graph must be used with its budget, {got}, and the same graph has one in {str(place)!r}, where its "
        f"runs must be counted. {how}"
    )


def _named(words: str, is_used: bool) -> str:
    """Return what may be done with the budget of a graph: it can be named where the graph is used."""
    return f"{words} `budget`, or declare it:" if is_used else "Declare the graph:"


def _refuse_without_budget(places: Mapping[str, Path | None], got: str, *, is_used: bool) -> None:
    """Refuse a graph whose budget is not where it was."""
    seen = [f" It was last in {str(place)!r}." for place in places.values() if place is not None]
    options = " ".join(f"--lost-budget {budget}" for budget in places)
    raise ConfigError(
        f"The graph must be used with its budget, {got}, and that of the same graph is not where it was.{''.join(seen)}"
        f" If it was moved: {_named('name its new folder with', is_used)} reldp budget share GRAPH --with FOLDER. "
        "If its disk is not mounted, mount it. If it is gone for good, make a new one that says so: reldp budget init "
        f"GRAPH {options}"
    )


def _refuse_replaced(budget: str) -> None:
    """Refuse a budget that was declared lost."""
    place = known_folder(budget)
    where = "" if place is None else f" in {str(place)!r}"
    raise ConfigError(
        f"The budget must not be one that was declared lost, got one that another{where} took the place of. Enter runs "
        "of this one there, with reldp budget enter, copy the graph without its budget files, and declare the copy: "
        "reldp budget share COPY --with FOLDER"
    )


def _budgets_of(names: GraphNames, known: Mapping[str, str]) -> list[str]:
    """Return the ids of the budgets of a graph: of its exact content, or else of its relations."""
    budgets = set(known.values())
    exact = [one for one in budgets if _hashed(one, names.exact) in known]
    if exact or (related := names.relations) is None:
        return exact
    return [one for one in budgets if _hashed(one, _related(related)) in known]


def _current(budget: str, known: Mapping[str, str]) -> str:
    """Return the budget that took the place of another one; itself, if none did."""
    seen = set()
    while budget not in seen and _lost(budget) in known:
        seen.add(budget)
        budget = known[_lost(budget)]
    return budget


def _related(name: str) -> str:
    return f"relations {name}"


def _lost(budget: str) -> str:
    return _hashed(budget, "lost")


def _hashed(budget: str, name: str) -> str:
    """Return a name for a graph that shows nothing about it to somebody without the id of the budget."""
    key = hashlib.sha256(f"reldp graph of a budget {budget}".encode()).digest()
    return hashlib.blake2b(name.encode(), key=key, digest_size=16).hexdigest()


def _note(names: dict[str, str]) -> None:
    write_known(
        FILE_NAME, "graphs", lambda state: dict(list(_read(state).items())[-_MANY:]) | names
    )


def _read(state: Path | None) -> Mapping[str, str]:
    """Return ids of budgets by the names of graphs."""
    remedy = "a backup, or remove it: copies of graphs are then not noticed."
    return read_known(state, FILE_NAME, "graphs", _check_id, remedy)


def _check_id(budget: object) -> None:
    schema.check({"budget": budget}, {"budget": schema.TEXT})
