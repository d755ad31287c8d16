"""Releases of private sizes that were made before their graph had a budget.

They are stored beside the graph (`reldp.graph.size_store`) under keyed hashes, and cost epsilon like any other. They
are entered when the graph gets a budget, each with the key of its name, so that a run that uses one is recognized by
the fingerprint of its graph (`known_release`) and both count once.

Public inside the package: `PastRelease`, `enter_at_first_use`, `enter_noted_releases`, `enter_past_releases`,
`enter_releases_of`, `known_release`, `past_entries`, `past_release`, `past_releases`, `stated_bounds`.

>>> past_releases("nowhere", "entity")
[]
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reldp.errors import PlanError
from reldp.graph.size_release import Release
from reldp.graph.size_store import name_of_release, stored_releases
from reldp.runs.budget_entries import release_entry
from reldp.runs.budget_file import LINK, NAME
from reldp.runs.budgeted_graphs import is_noted
from reldp.runs.release_name import release_id

if TYPE_CHECKING:
    from reldp.runs.budget import Budget

__all__ = [
    "PastRelease",
    "enter_at_first_use",
    "enter_noted_releases",
    "enter_past_releases",
    "enter_releases_of",
    "known_release",
    "past_entries",
    "past_release",
    "past_releases",
    "stated_bounds",
]


@dataclass(frozen=True, kw_only=True)
class PastRelease:
    """A release that is stored beside a graph.

    Attributes:
        name: Its name in the file.
        salt: The key of the name.
        bounds: Bounds on the sizes that plans use.
        epsilon: Its privacy cost.
        delta: The probability that a bound fails.
    """

    name: str
    salt: str
    bounds: tuple[int, int]
    epsilon: float
    delta: float


def past_releases(folder: str | Path, unit: str) -> list[PastRelease]:
    """Return the releases that are stored in a folder, with their cost for a unit of privacy.

    Raises:
        GraphError: The file is damaged.
    """
    salt, entries = stored_releases(Path(folder))
    made = []
    for name, values in sorted(entries.items()):
        made.append(past_release(name, salt, Release.parsed(values), unit))
    return made


def past_release(name: str, salt: str, release: Release, unit: str) -> PastRelease:
    """Return a release under its name, which follows from the salt, with its cost for a unit of privacy."""
    return PastRelease(
        name=name,
        salt=salt,
        bounds=stated_bounds(release),
        epsilon=release.epsilon(unit),
        delta=release.delta,
    )


def enter_past_releases(budget: "Budget", releases: Sequence[PastRelease]) -> None:
    """Enter releases in a budget, whatever its limit: they are spent. One that is there is not entered again."""
    known = {entry["release"] for entry in budget.entries if entry["kind"] == "sizes"}
    for release in releases:
        name = release_id(budget.id, release.name, *release.bounds)
        if name not in known:
            budget.enter_release(release.epsilon, release.delta, name, salt=release.salt)


def past_entries(budget: str, releases: Sequence[PastRelease]) -> list[dict[str, Any]]:
    """Return the entries of releases in a new budget, given its id."""
    return [
        release_entry(
            one.epsilon, one.delta, release_id(budget, one.name, *one.bounds), salt=one.salt
        )
        for one in releases
    ]


def enter_releases_of(graph: Path, budget: "Budget", place: Path) -> None:
    """Enter the releases of a graph in a budget elsewhere.

    Args:
        graph: The folder of the graph.
        budget: The budget.
        place: Its folder. A copy of the graph there has releases that were entered.
    """
    known = {(one.salt, one.name) for one in past_releases(place, budget.unit)}
    past = past_releases(graph, budget.unit)
    enter_past_releases(budget, [one for one in past if (one.salt, one.name) not in known])


def enter_at_first_use(graph: Path | None, fingerprint: str, budget: "Budget", place: Path) -> None:
    """Enter the releases of a graph without a budget that is used with a named one for the first time.

    Later releases are entered when they are drawn, under names that the stored ones do not tell.

    Args:
        graph: The folder of the graph, if it has one.
        fingerprint: Of the graph, before capping; sensitive.
        budget: The budget.
        place: Its folder.
    """
    if graph is not None and any(os.path.lexists(graph / name) for name in (NAME, LINK)):
        return
    if not is_noted(budget.id, fingerprint):
        if graph is not None:
            enter_releases_of(graph, budget, place)
        enter_noted_releases(fingerprint, graph, budget)


def enter_noted_releases(fingerprint: str, graph: Path | None, budget: "Budget") -> None:
    """Enter the releases of a graph that are in the state folder only.

    Args:
        fingerprint: Of the graph, before capping; sensitive.
        graph: The folder of the graph, if it has one, whose own releases are entered as well.
        budget: The budget.
    """
    stored = [] if graph is None else past_releases(graph, budget.unit)
    noted = import_module("reldp.runs.noted_releases").noted_releases  # it is built on this module
    enter_past_releases(budget, noted(fingerprint, budget.unit, stored))


def known_release(budget: "Budget", fingerprint: str, bounds: tuple[int, int]) -> str | None:
    """Return the name of a release that was entered later, if it is that of a capped graph with these bounds."""
    for entry in budget.entries:
        if entry["kind"] == "sizes" and "salt" in entry:
            stored = name_of_release(str(entry["salt"]), fingerprint)
            if entry["release"] == release_id(budget.id, stored, *bounds):
                return str(entry["release"])
    return None


def stated_bounds(release: Release) -> tuple[int, int]:
    """Return the bounds on entities and relations that plans use; the noisy numbers of one that none can use."""
    try:
        return release.bounds(0)[:2]
    except PlanError:  # too noisy to be used, and drawn all the same
        return release.entities, release.relations
