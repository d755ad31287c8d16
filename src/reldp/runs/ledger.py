"""The ledger: a record of every step of a run, on disk before the step runs.

``ledger.jsonl`` holds one entry per line, each with the SHA-256 of itself and of the previous line,
so a changed, removed or reordered line breaks the chain. The last hash is the *head*; the certificate
quotes it, which reveals missing lines at the end. Kinds of entries:

| kind | meaning |
|---|---|
| ``start`` | hash of the plan, commitment to the data, encoder, noise source, versions, first checkpoint, day |
| ``reserve`` | steps first..stop-1 of a branch may run: written before the first of them does |
| ``overflow`` | a step whose batch could not be drawn and was empty (theory.md 1) |
| ``checkpoint`` | SHA-256 of the checkpoint file before a step: the only one to resume from |
| ``resume`` | the run resumes: in the same branch (the same bits again) or in a new one |
| ``complete`` | the run is complete: steps counted, hashes of model and weights, key destroyed, day |
| ``abandon`` | the run ended without a model: steps counted, key destroyed, day |
| ``audit`` | the results of an audit of the complete run |
| ``release`` | the search of the complete run has released it: the number whose hash is in its start |

Guarantees (theory.md 6): a step of a branch counts once, however often it is executed again;
an abandoned branch stays counted; reserved steps count whether they ran or not, so that the ledger
never counts too few; more steps than planned are refused. The ledger is public: start and completion carry
the day, other entries no time, because the time that steps take depends on the data. One process
writes at a time. No step relies on a line that was half written when the machine stopped; `open` cuts
it off.

Public: `Ledger` (appends), `LedgerRecord` (a checked ledger), `read_ledger`, `parse_ledger`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as home:
...     with Ledger.create(Path(home) / "ledger.jsonl", {"num_steps": 10}) as ledger:
...         ledger.reserve(0, 6)
...         ledger.reserve(4, 8)  # executed again from a checkpoint at step 4
...         ledger.record.num_counted
8
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reldp.errors import LedgerError, RunError
from reldp.runs.durable import disk_errors, lock_or_refuse, write_durably, write_whole
from reldp.runs.ledger_state import FORMAT, LedgerRecord, LedgerState
from reldp.runs.plain_files import read_plain
from reldp.runs.run_folder import LEDGER_LIMIT
from reldp.runs.strict_json import parse_json

__all__ = ["Ledger", "LedgerRecord", "completion_hash", "fixed_day", "parse_ledger", "read_ledger"]

_FIRST_LINK = "0" * 64
_END = 200  # bytes; more than a hash takes
_Entry = Mapping[str, Any]


class Ledger:
    """Append entries; made by `create` and `open`, closed by ``with``."""

    def __init__(self, path: Path, descriptor: int, entries: list[_Entry], head: str) -> None:
        """Take over an open, locked file; use `create` or `open`."""
        self._path = path
        self._descriptor = descriptor
        if not entries:
            raise LedgerError("The ledger must have a start, got no entry.")
        self._entries = entries
        self._head = head
        self._state = LedgerState().apply(entries)
        self._record: LedgerRecord | None = None
        self._end = self._end_of_file()

    @classmethod
    def create(cls, path: str | Path, facts: Mapping[str, Any]) -> "Ledger":
        """Create a ledger.

        Args:
            path: The file.
            facts: What the run is: ``num_steps``, the maximum number of counted steps, and the other
                keys of `reldp.runs.schema.START`.

        Raises:
            LedgerError: The file exists.
        """
        place = Path(path)
        if place.exists():
            raise LedgerError(f"`path` must be new, got {place.name!r}. Open it to resume.")
        entry = {"kind": "start", "format": FORMAT, **facts, "date": _today()}
        LedgerRecord.check([entry], _FIRST_LINK)
        write_durably(place, _line(entry, _FIRST_LINK)[0])
        return cls.open(place)

    @classmethod
    def open(cls, path: str | Path) -> "Ledger":
        """Open the ledger of a run to append to it; cut off a half-written last line.

        Raises:
            LedgerError: The chain is broken, or an entry impossible.
            RunError: Another process is writing.
        """
        place = Path(path)
        with disk_errors(place, "opened"):
            descriptor = os.open(place, os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0))
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise RunError(f"{place.name} must be a regular file, got something else.")
            lock_or_refuse(
                descriptor,
                place.name,
                "Another process has this run open. Wait until it ends, or stop it.",
            )
            entries, head, size = _parse(
                read_plain(place, limit=LEDGER_LIMIT), half_line_allowed=True
            )
            if entries:  # what has no whole line is no ledger of a run, and stays as it is
                os.ftruncate(descriptor, size)
            return cls(place, descriptor, entries, head)
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def record(self) -> LedgerRecord:
        """The entries so far."""
        # Made once for each line: it is asked for after every step.
        if self._record is None or self._record.head != self._head:
            self._record = self._state.record(tuple(self._entries), self._head)
        return self._record

    @property
    def hashes(self) -> list[str]:
        """The hashes of all lines in order; the last one is the head."""
        self._refuse_other_content()
        os.lseek(self._descriptor, 0, os.SEEK_SET)  # not by its path: the file may have been moved
        data = b"".join(iter(lambda: os.read(self._descriptor, 1 << 20), b""))
        return [str(json.loads(line)["hash"]) for line in data.split(b"\n")[: len(self._entries)]]

    @property
    def head(self) -> str:
        """The hash of the last line."""
        return self._head

    @property
    def num_counted(self) -> int:
        """Steps of all branches that are counted."""
        return self._state.num_counted

    @property
    def num_left(self) -> int:
        """Planned steps that are not counted yet; reserved steps are counted, whether or not they have run."""
        return self._state.num_planned - self._state.num_counted

    @property
    def branch(self) -> int:
        """Number of the branch that steps run in."""
        return len(self._state.branches) - 1

    @property
    def next_uncounted_step(self) -> int:
        """The first step of this branch that is not counted; all steps below it are."""
        return self._state.branches[-1].stop

    def reserve(self, first: int, stop: int) -> None:
        """Count steps first..stop-1 of this branch; write nothing if all are counted."""
        if stop > self.next_uncounted_step:
            self._append({"kind": "reserve", "branch": self.branch, "first": first, "stop": stop})

    def overflow(self, step: int) -> None:
        """Record that the step's batch could not be drawn; once, however often it is executed."""
        if (self.branch, step) not in self._state.overflows:
            self._append({"kind": "overflow", "branch": self.branch, "step": step})

    def checkpoint(self, step: int, sha256: str, *, stopped_by: str | None = None) -> None:
        """Name the checkpoint file before `step`, which must already be flushed to the disk.

        Args:
            step: The next step.
            sha256: Hash of the file.
            stopped_by: What asked for a stop here, if anything did.
        """
        entry = {"kind": "checkpoint", "branch": self.branch, "step": step, "sha256": sha256}
        self._append(entry if stopped_by is None else {**entry, "stopped_by": stopped_by})

    def resume(
        self,
        step: int,
        *,
        new_branch_reason: str | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Record that the run resumes from its newest checkpoint, the one before `step`.

        Args:
            step: The next step.
            new_branch_reason: Why re-executed steps would have different bits. It opens a new branch and
                abandons the steps that the old one counted beyond `step`. None keeps the branch.
            facts: Further public values, such as the machine.
        """
        branch = self.branch + (new_branch_reason is not None)
        entry = {"kind": "resume", "branch": branch, "step": step, **(facts or {})}
        self._append(entry if new_branch_reason is None else {**entry, "reason": new_branch_reason})

    def complete(self, facts: Mapping[str, Any]) -> None:
        """Record that the run is complete, with the hashes of its results."""
        counted = self.num_counted
        self._append({"kind": "complete", "num_counted": counted, **facts, "date": _today()})

    def abandon(self) -> None:
        """Record that the run ended without a model, after its key was destroyed."""
        counted = self.num_counted
        entry = {"kind": "abandon", "num_counted": counted, "key": "destroyed", "date": _today()}
        self._append(entry)

    def release(self, number: str) -> None:
        """Record that the search of the complete run has released it as its best one.

        Args:
            number: The number whose SHA-256 is in the start, in hexadecimal digits.
        """
        self._append({"kind": "release", "number": number})

    def append_audit(self, facts: Mapping[str, Any]) -> None:
        """Append the results of an audit; the run must be complete.

        Args:
            facts: The results as plain JSON values; `LedgerRecord.audits` returns them.
        """
        self._append({"kind": "audit", "audit": dict(facts)})

    def _append(self, entry: _Entry) -> None:
        """Write one line and wait until it is on the disk; all or nothing."""
        line, head = _line(entry, self._head)
        self.check_place()
        # Refused before it is written: an impossible entry must never reach the file.
        state = self._state.apply([entry])
        with disk_errors(self._path):
            size = os.fstat(self._descriptor).st_size
            before_it = len(self._entries), self._state, self._head
            try:
                write_whole(self._descriptor, line)
                os.fsync(self._descriptor)
                self._entries.append(entry)
                self._state, self._head = state, head
                self._end = self._end_of_file()
            except BaseException:  # also Ctrl-C, after which the loop of a user may go on
                os.ftruncate(self._descriptor, size)
                number, self._state, self._head = before_it
                self._end = self._end_of_file()
                del self._entries[number:]
                raise

    def check_place(self) -> None:
        """Refuse to go on when the file was moved or changed, as by an older state that is copied over it.

        The key and the model would stay behind in another folder, and lines would not follow from one another.

        Raises:
            RunError: The path leads to no file, to another one, or to one that somebody else has written.
        """
        try:
            named, opened = os.stat(self._path), os.fstat(self._descriptor)
            is_in_place = os.path.samestat(named, opened)
        except OSError:
            is_in_place = False
        if not is_in_place:
            raise RunError(
                f"{self._path.name} must stay in its place while the run is open, got one that was moved or "
                "replaced. Run the same command with the folder's new place."
            )
        self._refuse_other_content()

    def _refuse_other_content(self) -> None:
        if self._end_of_file() != self._end:
            raise RunError(
                f"{self._path.name} must be written by the run alone while it is open, got other content. Somebody "
                "put another state of the run in its place: restore the newest one, and run the same command."
            )

    def _end_of_file(self) -> tuple[int, bytes]:
        """Return the size of the open file, and the bytes at its end, which have a hash."""
        size = os.fstat(self._descriptor).st_size
        return size, os.pread(self._descriptor, _END, max(0, size - _END))

    def close(self) -> None:
        """Let another process write."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def read_ledger(path: str | Path, *, half_line_allowed: bool = False) -> LedgerRecord:
    """Return the record of a ledger, checked to the last byte; change nothing.

    Args:
        path: The ledger.
        half_line_allowed: Whether a half-written line at the end is left out, as `Ledger.open` does: for what is asked
            before a run goes on.

    Raises:
        LedgerError: The file is not there, was changed, or holds an impossible entry.
    """
    place = Path(path)
    try:
        data = read_plain(place, limit=LEDGER_LIMIT)
        return parse_ledger(data[: data.rfind(b"\n") + 1] if half_line_allowed else data)
    except RunError as error:
        raise LedgerError(str(error)) from None


def completion_hash(record: LedgerRecord) -> str | None:
    """Return the hash of the line that completes a run, which audits and a release leave as it is; None before it."""
    head = _FIRST_LINK
    for entry in record.entries:
        _, head = _line(entry, head)
        if entry["kind"] == "complete":
            return head
    return None


def parse_ledger(data: bytes) -> LedgerRecord:
    """Return the record of a ledger's content, checked to the last byte.

    Raises:
        LedgerError: The content was changed, or holds an impossible entry.
    """
    entries, head, _ = _parse(data, half_line_allowed=False)
    return LedgerRecord.check(entries, head)


def _parse(data: bytes, *, half_line_allowed: bool) -> tuple[list[_Entry], str, int]:
    """Return the entries, the last hash, and the number of bytes of whole lines."""
    entries: list[_Entry] = []
    head = _FIRST_LINK
    whole = data.rfind(b"\n") + 1
    if whole != len(data) and not half_line_allowed:
        raise LedgerError(
            "The ledger must end with a whole line, got a part of one, as a crash may leave it. Run the interrupted "
            "command again, which cuts the part off: no step relies on it."
        )
    for number, text in enumerate(data[:whole].split(b"\n")[:-1], start=1):
        try:
            entry = dict(parse_json(text, f"ledger.jsonl line {number}"))
            stated = entry.pop("hash")
            line, head = _line(entry, head)
        except (ValueError, KeyError, TypeError):
            raise LedgerError(
                f"The ledger's line {number} must be a JSON object with a hash, got something else. The "
                "file was damaged: restore it from a copy."
            ) from None
        except RunError as error:
            raise LedgerError(str(error)) from None
        if stated != head or line != text + b"\n":
            raise LedgerError(
                f"The ledger's line {number} must follow from the lines before it, got a hash that "
                "does not. A line was changed, removed or added."
            )
        entries.append(entry)
    return entries, head, whole


def _line(entry: _Entry, previous: str) -> tuple[bytes, str]:
    """Return the entry as a line, and its hash, which covers the previous hash."""
    body = _canonical(entry)
    digest = hashlib.sha256(previous.encode() + b"\n" + body).hexdigest()
    return _canonical({**entry, "hash": digest}) + b"\n", digest


def _canonical(entry: _Entry) -> bytes:
    return json.dumps(entry, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


_DAY: ContextVar[str | None] = ContextVar("day", default=None)


@contextmanager
def fixed_day(day: str) -> Iterator[None]:
    """Give new entries one day: the days of a run must not show its place among the runs of a search."""
    token = _DAY.set(day)
    try:
        yield
    finally:
        _DAY.reset(token)


def _today() -> str:
    return _DAY.get() or datetime.now(UTC).date().isoformat()
