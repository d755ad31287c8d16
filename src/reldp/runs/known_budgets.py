"""What this machine knows about budgets: where each was, and its newest entry.

A budget that was restored from an older copy, or continued in two copies, lacks entries that were made. The user's
state folder (`reldp.graph.size_store.state_folder`) therefore keeps, for every budget that was changed here, its
folder, its number of lines and the hash of its last line. A budget whose lines lack that hash is refused. Copies
on other machines are not known here.

Public inside the package: `note`, `note_place`, `known_head`, `known_folder`, `lost_budgets`, `empty_budgets`,
`lost_record`, `StateFolderWarning`, and for other files of the state folder `read_known` and `write_known`.

>>> known_head("0" * 32) is None
True
"""

import json
import os
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from reldp._real_path import path_text, real_path
from reldp.errors import LedgerError, RunError
from reldp.graph.size_store import state_folder
from reldp.runs import schema
from reldp.runs.durable import write_durably
from reldp.runs.plain_files import read_plain
from reldp.runs.strict_json import parse_json

__all__ = [
    "StateFolderWarning",
    "empty_budgets",
    "known_folder",
    "known_head",
    "lost_budgets",
    "lost_record",
    "note",
    "note_place",
    "read_known",
    "write_known",
]

_WARNED: set[Path | None] = set()
FILE_NAME = "budgets.private.json"
_LARGEST = 10**8  # bytes
_MANY = 500
# A link would make the file somewhere else, and a named pipe would wait.
_LOCK_FLAGS = (
    os.O_RDWR
    | os.O_CREAT
    | os.O_CLOEXEC
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
)
_ENTRY = {"folder": schema.TEXT, "lines": schema.SIZE, "head": schema.HASH}


class StateFolderWarning(UserWarning):
    """The user's state folder cannot be written, so that budgets are not known here."""


def note(
    budget: str, folder: Path, lines: int, head: str, *, before: Collection[str] | None = None
) -> bool:
    """Remember the newest entry of a budget; a state folder that cannot be written remembers nothing.

    Args:
        budget: Its id.
        folder: Its folder.
        lines: Number of its lines.
        head: Hash of the newest one.
        before: Hashes of which one is known until now, if any is; None for a new budget.

    Returns:
        Whether no other one was known. It stays known then: a copy of the budget went on.
    """
    different: list[str] = []

    def changed(entry: Any) -> Any:
        if entry is not None and before is not None and entry["head"] not in before:
            different.append(str(entry["head"]))
            return None
        return {"folder": path_text(folder), "lines": lines, "head": head}

    _update(budget, changed)
    return not different


def note_place(budget: str, folder: Path) -> None:
    """Remember the new place of a budget that was moved; one that this machine does not know stays unknown."""
    _update(budget, lambda entry: entry and entry | {"folder": path_text(folder)})


def known_head(budget: str) -> str | None:
    """Return the hash of the newest line of a budget that this machine knows."""
    entry = _read(state_folder()).get(budget)
    return None if entry is None else str(entry["head"])


def known_folder(budget: str) -> Path | None:
    """Return the folder that a budget was in when it was used here."""
    entry = _read(state_folder()).get(budget)
    return None if entry is None else Path(entry["folder"])


def lost_budgets(folder: Path) -> list[str]:
    """Return the ids of budgets that were in a folder when they were used here."""
    return sorted(name for name, entry in _in_folder(folder).items() if entry["lines"] > 1)


def empty_budgets(folder: Path) -> list[str]:
    """Return the ids of budgets that were made in a folder here and never used: with them, nothing is lost."""
    return sorted(name for name, entry in _in_folder(folder).items() if entry["lines"] <= 1)


def _in_folder(folder: Path) -> dict[str, Any]:
    place = str(real_path(folder))
    return {n: entry for n, entry in _read(state_folder()).items() if entry["folder"] == place}


def lost_record(budget: str) -> dict[str, Any]:
    """Return what this machine knows about a budget that is gone."""
    entry = _read(state_folder()).get(budget)
    if entry is None:
        return {"id": budget}
    return {"id": budget, "folder": entry["folder"], "entries": entry["lines"]}


def _update(budget: str, change: Callable[[Any], Any]) -> None:
    """Change what is known of a budget; None leaves it."""

    def changed(state: Path) -> dict[str, Any] | None:
        known = _pruned(_read(state))
        entry = change(known.get(budget))
        return None if entry is None else dict(sorted((known | {budget: entry}).items()))

    write_known(FILE_NAME, "budgets", changed)


def _pruned(known: dict[str, Any]) -> dict[str, Any]:
    """Return what is known; if it is much, without budgets that are gone and were never used.

    One that was used stays known, wherever it is: the disk with it may not be mounted.
    """
    if len(known) < _MANY:
        return known
    return {
        name: entry
        for name, entry in known.items()
        if entry["lines"] > 1 or Path(entry["folder"]).is_dir()
    }


def _read(state: Path | None) -> dict[str, Any]:
    """Return what is known by the id of a budget."""
    remedy = "a backup, or remove it: copies and older states of budgets are then not noticed."
    return read_known(
        state, FILE_NAME, "budgets", lambda entry: schema.check(entry, _ENTRY), remedy
    )


def read_known(
    state: Path | None, name: str, kind: str, check: Callable[[Any], None], remedy: str
) -> dict[str, Any]:
    """Return the entries of a file in the state folder; none if there is no file.

    Args:
        state: The state folder.
        name: Name of the file.
        kind: The key of its entries.
        check: Refuses an entry of another form with a `SchemaError`.
        remedy: What a damaged file is restored from, in the message.

    Raises:
        LedgerError: The file is damaged.
    """
    if state is None or not os.path.lexists(state / name):
        return {}
    try:
        content = parse_json(read_plain(state / name, limit=_LARGEST), name)
        schema.check(content, {"format": schema.SIZE, kind: schema.OBJECT})
        for entry in content[kind].values():
            check(entry)
    except (RunError, schema.SchemaError, AttributeError, TypeError) as error:
        raise LedgerError(
            f"{name} in the state folder must be whole, got damage: {str(error).rstrip('.')}. Restore it from {remedy}"
        ) from None
    return dict(content[kind])


def write_known(name: str, kind: str, change: Callable[[Path], dict[str, Any] | None]) -> None:
    """Change a file in the state folder, one process at a time; a folder that cannot be written stays as it is.

    Args:
        name: Name of the file.
        kind: The key of its entries.
        change: Returns the entries that the file will have, given the state folder; None leaves the file.
    """
    state = state_folder()
    if state is None:
        _warn(state, "there is no home")
        return
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(state):
            entries = change(state)
            if entries is not None:
                text = json.dumps({"format": 1, kind: entries}, indent=1) + "\n"
                write_durably(state / name, text.encode(), mode=0o600)
    except (OSError, RunError) as error:
        _warn(state, str(error.strerror if isinstance(error, OSError) else error).rstrip("."))


def _warn(state: Path | None, reason: str) -> None:
    """Say once that nothing can be remembered, and what that means."""
    if state in _WARNED:
        return
    _WARNED.add(state)
    where = "" if state is None else f" {str(state)!r}"
    warnings.warn(
        f"The state folder{where} cannot be written ({reason}), so this machine does not notice copies of a graph "
        "without their budget, nor budgets that were put back to an older state. Set RELDP_STATE_DIR to a folder that "
        "can be written.",
        StateFolderWarning,
        stacklevel=2,
    )


@contextmanager
def _locked(state: Path) -> Iterator[None]:
    """Let one process at a time change files of the state folder."""
    descriptor = os.open(state / "budgets.private.lock", _LOCK_FLAGS, 0o600)
    try:
        with suppress(ImportError):  # a system without such locks
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
