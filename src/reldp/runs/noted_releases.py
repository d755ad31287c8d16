"""Releases of private sizes that no folder of a graph holds, so that a budget which is made later counts them too.

A graph that was made in memory, or whose folder cannot be written, has its releases in the user's state folder only,
under names that follow from the capped graph (`reldp.graph.size_store`). A budget is made for the whole graph. So each
of them is noted here with a keyed hash of the whole graph, before it is stored. If a folder of the graph gets a copy
later, its name there is noted too, so that a budget which enters the releases of that folder counts it once.

Called by `reldp.graph.sizes`, by name. Public inside the package: `note_copy`, `note_release`, `noted_releases`.

>>> noted_releases("no such graph", "entity", ())
[]
"""

import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reldp.graph.size_release import Release
from reldp.graph.size_store import name_of_release, state_folder, stored_releases
from reldp.runs import schema
from reldp.runs.known_budgets import read_known, write_known
from reldp.runs.past_releases import PastRelease, past_release

__all__ = ["note_copy", "note_release", "noted_releases"]

FILE_NAME = "noted_sizes.private.json"
_REMEDY = "a backup, or remove it: releases that are in no folder of a graph are then not entered in new budgets."
_ENTRY = {"salt": schema.HASH, "graph": schema.TEXT, "values": schema.OBJECT}
_ENTRY |= {"copies": schema.OBJECT}


def note_release(release: Release, fingerprint: str, graph: str) -> None:
    """Note a release before it is stored; it is spent, whether or not anybody sees it.

    Args:
        release: The release.
        fingerprint: Of the capped graph; sensitive.
        graph: Of the graph before capping; sensitive.
    """
    salt = secrets.token_hex(32)
    entry = {
        "salt": salt,
        "graph": name_of_release(salt, graph),
        "values": release.values(),
        "copies": {},
    }
    name = name_of_release(salt, fingerprint)
    write_known(FILE_NAME, "releases", lambda state: _read(state) | {name: entry})


def note_copy(fingerprint: str, folder: Path) -> None:
    """Note the name of a release in the folder of a graph, which holds a copy of it now.

    Args:
        fingerprint: Of the capped graph; sensitive.
        folder: The folder.
    """
    noted = _read(state_folder())
    copy = name_of_release(stored_releases(folder)[0], fingerprint)
    names = [n for n, e in noted.items() if _is_of(n, e, fingerprint) and copy not in e["copies"]]

    def with_copy(state: Path) -> dict[str, Any]:
        entries = _read(state)
        for name in names:
            entries[name]["copies"][copy] = True
        return entries

    if names:
        write_known(FILE_NAME, "releases", with_copy)


def noted_releases(graph: str, unit: str, stored: Iterable[PastRelease]) -> list[PastRelease]:
    """Return the noted releases of a graph, with their cost for a unit of privacy.

    Args:
        graph: Fingerprint of the graph before capping; sensitive.
        unit: The unit of privacy.
        stored: Releases in the graph's folder, which are entered as well: those of which they are copies are left out.

    Raises:
        LedgerError: The file of the state folder is damaged.
    """
    stored_names = {release.name for release in stored}
    return [
        past_release(name, entry["salt"], Release.parsed(entry["values"]), unit)
        for name, entry in sorted(_read(state_folder()).items())
        if entry["graph"] == name_of_release(entry["salt"], graph)
        and stored_names.isdisjoint(entry["copies"])
    ]


def _is_of(name: str, entry: dict[str, Any], fingerprint: str) -> bool:
    return name == name_of_release(entry["salt"], fingerprint)


def _read(state: Path | None) -> dict[str, Any]:
    return read_known(
        state, FILE_NAME, "releases", lambda entry: schema.check(entry, _ENTRY), _REMEDY
    )
