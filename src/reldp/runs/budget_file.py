"""The file of a budget: lines chained by hashes, one writer at a time, and no line that was lost.

Opening waits for other processes. The file is read through the descriptor that holds the lock, and a file that was
replaced in the meantime is opened again. A last line without its end is kept if it is whole, because its
entry may have been seen, and cut off if it is not. A file that lacks a line that this machine knows
(`reldp.runs.known_budgets`) is refused. Opening a budget that was moved makes its new place known.

Public inside the package: `BudgetFile`, `NAME`, `LINK`, `holds_budget`, `restore`.

>>> BudgetFile.open(Path("nowhere"))
Traceback (most recent call last):
reldp.errors.ConfigError: The budget must exist, got no budget.jsonl in 'nowhere'. Make one with reldp budget init.
"""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reldp._real_path import path_text, real_path
from reldp.errors import ConfigError, LedgerError, RunError
from reldp.runs.durable import disk_errors, write_whole
from reldp.runs.known_budgets import known_folder, known_head, note, note_place
from reldp.runs.ledger import _FIRST_LINK, _line, _parse
from reldp.runs.run_folder import LEDGER_LIMIT
from reldp.runs.strict_json import parse_json

__all__ = ["LINK", "NAME", "BudgetFile", "holds_budget", "restore"]

NAME = "budget.jsonl"
LINK = "budget-folder.json"
"""In the folder of a graph that shares the budget of another folder."""

PATIENCE = 60.0  # seconds to wait for another process
_OWNER_ONLY = 0o600
_Entry = Mapping[str, Any]


class BudgetFile:
    """An open file; `append` writes an entry.

    Attributes:
        folder: Its folder.
        entries: All entries in order.
    """

    def __init__(self, folder: Path, descriptor: int, entries: list[_Entry], head: str) -> None:
        """Take over an open, locked file; use `create` or `open`."""
        self.folder, self.entries = folder, entries
        self._descriptor, self._head = descriptor, head
        budget = entries[0].get("id") if entries else None
        known = known_head(budget) if isinstance(budget, str) else None
        # The newest line that may be known: one of these, if no copy went on.
        self._known = {known or head}

    @classmethod
    def create(cls, folder: Path, *entries: _Entry) -> None:
        """Write a file with some entries, if there is none; it appears with all of them or not at all.

        Raises:
            ConfigError: There is one.
        """
        place = folder / NAME
        path_text(folder)  # is noted in the end; refused before there is a file
        with disk_errors(place):
            folder.mkdir(parents=True, exist_ok=True)
            # Written aside and linked: it appears whole, and never in place of another one.
            partial = folder / f".{NAME}.{os.getpid()}"
            partial.unlink(missing_ok=True)
            lines, head = [], _FIRST_LINK
            for entry in entries:
                line, head = _line(entry, head)
                lines.append(line)
            try:
                with open(
                    os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY), "wb"
                ) as file:
                    file.write(b"".join(lines))
                    file.flush()
                    os.fsync(file.fileno())
                _put(partial, place)
            except FileExistsError:
                raise ConfigError(
                    f"The budget must be new, got {NAME} in {str(folder)!r}. Use reldp budget show and reldp budget "
                    "limit."
                ) from None
            finally:
                partial.unlink(missing_ok=True)
        note(str(entries[0]["id"]), folder, len(lines), head)

    @classmethod
    def open(
        cls, folder: Path, *, read_only: bool = False, patience: float | None = None
    ) -> "BudgetFile":
        """Open the file of a folder; wait while another process has it open.

        Args:
            folder: The folder.
            read_only: Whether nothing will be appended; the file stays as it is.
            patience: Seconds to wait for another process; a minute if None.

        Raises:
            ConfigError: There is none.
            LedgerError: It was changed, is damaged, or lacks entries that were made.
            RunError: Another process has it open for too long.
        """
        place = folder / NAME
        if os.path.lexists(place) and (not place.is_file() or place.is_symlink()):
            raise ConfigError(
                f"The budget in {str(folder)!r} must be a regular file, got a link, a pipe or another thing named "
                f"{NAME}. Restore it from a copy."
            )
        if not os.path.lexists(place):
            raise ConfigError(
                f"The budget must exist, got no {NAME} in {str(folder)!r}. Make one with reldp budget init."
            )
        path_text(folder)
        descriptor = _opened(place, read_only, patience)
        try:
            if os.fstat(descriptor).st_size > LEDGER_LIMIT:
                raise LedgerError(f"{NAME} must have at most {LEDGER_LIMIT:,} bytes, got more.")
            data = b"".join(iter(lambda: os.read(descriptor, 1 << 20), b""))
            entries, head = _whole(data, descriptor, read_only)
            _refuse_older_copy(entries, data)
            _note_move(entries, folder)
            return cls(folder, descriptor, entries, head)
        except LedgerError as error:
            os.close(descriptor)
            words = str(error).replace("The ledger", NAME).replace("ledger.jsonl", NAME)
            raise LedgerError(words) from None
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def id(self) -> str:
        """The random id of the budget."""
        return str(self.entries[0]["id"])

    def append(self, entry: _Entry) -> None:
        """Write one line and wait until it is on the disk; all or nothing.

        Raises:
            LedgerError: A copy of the file went on while this one was open; nothing is written.
        """
        plain = json.loads(json.dumps(entry, allow_nan=False))
        line, head = _line(plain, self._head)
        place = self.folder / NAME
        with disk_errors(place):
            before = os.fstat(self._descriptor).st_size
            try:
                write_whole(self._descriptor, line)
                os.fsync(self._descriptor)
            except BaseException:
                os.ftruncate(self._descriptor, before)
                raise
            earlier = self._head
            self.entries.append(plain)
            self._head = head
            # From here on the line may be known, and stays whatever interrupts this: without it the file would count as
            # an older copy. A copy of the file has a lock of its own, and may have gone on while this one was open.
            self._known.add(head)
            if not note(self.id, self.folder, len(self.entries), head, before=self._known):
                os.ftruncate(self._descriptor, before)
                self.entries.pop()
                self._head = earlier
                raise _older_copy()

    def close(self) -> None:
        """Let another process open the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def holds_budget(folder: Path, budget: str) -> bool:
    """Return whether a folder has the budget of an id; one that cannot be read is not there."""
    try:
        place = folder / NAME
        if not place.is_file():
            return False
        with open(place, "rb") as file:
            entry = parse_json(file.readline(LEDGER_LIMIT), NAME)
    except (OSError, RunError, ValueError):
        return False
    return isinstance(entry, dict) and entry.get("id") == budget


def restore(lost: list[str]) -> str:
    """Return what to do about budgets that are gone from a folder, for messages."""
    options = " ".join(f"--lost-budget {budget}" for budget in lost)
    return (
        "Restore it: what is spent stays spent. If it was moved, show its new place: reldp budget show FOLDER. "
        "For other data, use another folder. If it is gone for good, make a new one that says so: reldp budget init "
        f"GRAPH {options}"
    )


def _put(partial: Path, place: Path) -> None:
    """Give a file its name, if no other file has it."""
    try:
        os.link(partial, place)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if os.path.lexists(place):
            raise FileExistsError from None
        os.replace(partial, place)
    descriptor = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _opened(place: Path, read_only: bool, patience: float | None) -> int:
    """Return a locked descriptor of the file that has this name now."""
    deadline = time.monotonic() + (PATIENCE if patience is None else patience)
    while True:
        with disk_errors(place, "opened"):
            descriptor = os.open(place, os.O_RDONLY if read_only else os.O_RDWR | os.O_APPEND)
        try:
            _lock(descriptor, read_only, deadline)
            with disk_errors(place, "opened"):
                is_current = os.path.samestat(os.fstat(descriptor), os.stat(place))
        except BaseException:
            os.close(descriptor)
            raise
        if is_current:
            return descriptor
        os.close(descriptor)  # it was replaced while this process waited


def _lock(descriptor: int, read_only: bool, deadline: float) -> None:
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return
    kind = fcntl.LOCK_SH if read_only else fcntl.LOCK_EX
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise RunError(
                    f"{NAME} must have one writer, got a second. Another process has this budget open. Wait until it "
                    "ends, or stop it."
                ) from None
            time.sleep(0.05)


def _whole(data: bytes, descriptor: int, read_only: bool) -> tuple[list[_Entry], str]:
    """Return entries and head; give a whole last line its end, and cut off a part of one."""
    if data and not data.endswith(b"\n"):
        try:
            entries, head, _ = _parse(data + b"\n", half_line_allowed=False)
        except LedgerError:
            pass
        else:
            if not read_only:
                with disk_errors(Path(NAME)):
                    os.write(descriptor, b"\n")
                    os.fsync(descriptor)
            return entries, head
    entries, head, size = _parse(data, half_line_allowed=True)
    if not read_only and entries and size != len(data):
        os.ftruncate(descriptor, size)
    return entries, head


def _refuse_older_copy(entries: list[_Entry], data: bytes) -> None:
    """Refuse a file without a line that this machine knows it had."""
    budget = entries[0].get("id") if entries else None
    newest = known_head(budget) if isinstance(budget, str) else None
    if newest is not None and f'"hash":"{newest}"'.encode() not in data:
        raise _older_copy()


def _older_copy() -> LedgerError:
    return LedgerError(
        f"{NAME} must hold every entry that was made, got an older copy of it, or one of two that were "
        "continued. Restore the newest one."
    )


def _note_move(entries: list[_Entry], folder: Path) -> None:
    """Make the place of a budget known that is not where this machine saw it last."""
    budget = entries[0].get("id") if entries else None
    last = known_folder(budget) if isinstance(budget, str) else None
    if last is not None and last != real_path(folder) and not holds_budget(last, str(budget)):
        note_place(str(budget), folder)
