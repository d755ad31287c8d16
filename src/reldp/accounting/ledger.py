"""The ledger: what a run did, step by step, on disk before its effect can be seen.

``ledger.jsonl`` holds one entry per line, each with the SHA-256 of itself and of the line before,
so a changed, removed or reordered line breaks the chain (a shortened end is caught by the head that
the certificate quotes). Kinds of entries:

| kind | meaning |
|---|---|
| ``start`` | what the run is: plan, graph, encoder, noise source, versions |
| ``reserve`` | steps first..stop-1 of a branch may run: written before the first of them does |
| ``overflow`` | a step whose batch could not be drawn and was empty (theory.md section 1) |
| ``resume`` | the run goes on: in the same branch (bitwise replay) or in a new one |
| ``complete`` | the run is over; hashes of what came out |

Guarantees (theory.md section 6): a step of a branch counts once, however often it is replayed; an
abandoned branch stays counted; reserved steps count whether they ran or not, so an error is always
towards more; more steps than planned are refused. One process writes at a time. A line that was
only half written when the machine stopped was never relied on, and is cut off on opening.

Public: `Ledger` (appends), `LedgerRecord` (what was read), `read_ledger`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as home:
...     with Ledger.create(Path(home) / "ledger.jsonl", {"num_steps": 10}) as ledger:
...         ledger.reserve(0, 6)
...         ledger.reserve(4, 8)  # replayed from a checkpoint at step 4
...         ledger.record.num_counted
8
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reldp.durable import disk_errors, write_durably
from reldp.errors import LedgerError, RunError

__all__ = ["Ledger", "LedgerRecord", "read_ledger"]

FORMAT = 1
_FIRST_LINK = "0" * 64
_Entry = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Branch:
    """Steps first..stop-1, drawn with the coins and the noise of one branch number."""

    first: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.first


@dataclass(frozen=True, kw_only=True)
class LedgerRecord:
    """A ledger whose chain and whose story have been checked.

    Attributes:
        entries: All entries in order, without their hashes.
        head: Hash of the last line.
        branches: What each branch reserved, by branch number.
        overflows: (branch, step) of batches that could not be drawn.
    """

    entries: tuple[_Entry, ...]
    head: str
    branches: tuple[Branch, ...]
    overflows: tuple[tuple[int, int], ...]

    @classmethod
    def check(cls, entries: Iterable[_Entry], head: str) -> "LedgerRecord":
        """The record of entries that tell a possible story."""
        kept = tuple(entries)
        if not kept:
            raise LedgerError("The ledger must have a start, got no entry.")
        return _Story().told(kept).record(kept, head)

    @property
    def start(self) -> _Entry:
        """What the run is."""
        return self.entries[0]

    @property
    def completion(self) -> _Entry | None:
        """The last entry of a complete run."""
        last = self.entries[-1]
        return last if last["kind"] == "complete" else None

    @property
    def num_counted(self) -> int:
        """Steps that privacy has been paid for: each step of each branch once."""
        return sum(map(len, self.branches))

    @property
    def num_abandoned(self) -> int:
        """Counted steps that are no part of what was released: ends of branches left behind."""
        pairs = zip(self.branches, self.branches[1:], strict=False)
        return sum(before.stop - after.first for before, after in pairs)

    @property
    def num_left(self) -> int:
        """Steps that may still run."""
        return int(self.start["num_steps"]) - self.num_counted

    @property
    def num_resumes(self) -> int:
        """How often the run went on after a stop."""
        return sum(entry["kind"] == "resume" for entry in self.entries)


class _Story:
    """Goes through entries and refuses an impossible one."""

    def __init__(self) -> None:
        self.branches: list[Branch] = []
        self.overflows: list[tuple[int, int]] = []
        self._limit = 0
        self._length = 0
        self._over = False

    def told(self, entries: Iterable[_Entry]) -> "_Story":
        """The story after some more entries; this one stays as it is."""
        longer = copy(self)
        longer.branches, longer.overflows = list(self.branches), list(self.overflows)
        for entry in entries:
            longer._add(entry)
        return longer

    def record(self, entries: tuple[_Entry, ...], head: str) -> LedgerRecord:
        """The record of the entries that this story was told by."""
        return LedgerRecord(
            entries=entries,
            head=head,
            branches=tuple(self.branches),
            overflows=tuple(self.overflows),
        )

    def _add(self, entry: _Entry) -> None:
        position = self._length = self._length + 1
        try:
            kind = entry["kind"]
            self._require((kind == "start") == (position == 1), "start once and first")
            self._require(not self._over, "end with its completion")
            getattr(self, f"_{kind}")(entry)
        except LedgerError as error:
            raise LedgerError(f"{error} Entry {position} breaks this.") from None
        except (KeyError, TypeError, AttributeError, ValueError):
            raise LedgerError(f"The ledger's entry {position} must be a known kind.") from None

    def _require(self, condition: bool, rule: str) -> None:
        if not condition:
            raise LedgerError(f"The ledger must {rule}.")

    def _start(self, entry: _Entry) -> None:
        self._require(entry["format"] == FORMAT, f"have format {FORMAT}")
        self._limit = int(entry["num_steps"])
        self.branches.append(Branch(first=0, stop=0))

    def _reserve(self, entry: _Entry) -> None:
        first, stop = int(entry["first"]), int(entry["stop"])
        here = self.branches[-1]
        self._require(entry["branch"] == len(self.branches) - 1, "reserve in its newest branch")
        self._require(here.first <= first <= here.stop and first < stop, "leave no step out")
        self.branches[-1] = Branch(first=here.first, stop=max(here.stop, stop))
        self._require(sum(map(len, self.branches)) <= self._limit, "keep to the planned steps")

    def _overflow(self, entry: _Entry) -> None:
        step, here = int(entry["step"]), self.branches[-1]
        self._require(here.first <= step < here.stop, "count a step before it runs")
        self.overflows.append((len(self.branches) - 1, step))

    def _resume(self, entry: _Entry) -> None:
        step, here = int(entry["step"]), self.branches[-1]
        self._require(here.first <= step <= here.stop, "resume from a step that it knows")
        same = entry["branch"] == len(self.branches) - 1
        self._require(same or entry["branch"] == len(self.branches), "number branches in order")
        if not same:
            self.branches.append(Branch(first=step, stop=step))

    def _complete(self, entry: _Entry) -> None:
        self._require(entry["num_counted"] == sum(map(len, self.branches)), "count its own steps")
        self._over = True


class Ledger:
    """Appends entries; made by `create` and `open`, closed by ``with``."""

    def __init__(self, path: Path, descriptor: int, entries: list[_Entry], head: str) -> None:
        """Takes over an open, locked file; use `create` or `open`."""
        self._path = path
        self._descriptor = descriptor
        if not entries:
            raise LedgerError("The ledger must have a start, got no entry.")
        self._entries = entries
        self._head = head
        self._story = _Story().told(entries)

    @classmethod
    def create(cls, path: str | Path, facts: Mapping[str, Any]) -> "Ledger":
        """A new ledger whose start says what the run is; ``num_steps`` bounds what may be counted.

        Raises:
            LedgerError: There is a ledger already.
        """
        place = Path(path)
        if place.exists():
            raise LedgerError(f"`path` must be new, got {place.name!r}. Open it to go on.")
        entry = {"kind": "start", "format": FORMAT, **facts, "time": _now()}
        LedgerRecord.check([entry], _FIRST_LINK)
        write_durably(place, _line(entry, _FIRST_LINK)[0])
        return cls.open(place)

    @classmethod
    def open(cls, path: str | Path) -> "Ledger":
        """The ledger of a run that goes on; a half-written last line is cut off.

        Raises:
            LedgerError: The chain is broken or the story impossible.
            RunError: Another process is writing.
        """
        place = Path(path)
        with disk_errors(place):
            descriptor = os.open(place, os.O_RDWR | os.O_APPEND)
        try:
            _lock(descriptor, place)
            entries, head, size = _parse(place.read_bytes(), torn_end=True)
            os.ftruncate(descriptor, size)
            return cls(place, descriptor, entries, head)
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def record(self) -> LedgerRecord:
        """What has been written so far."""
        return self._story.record(tuple(self._entries), self._head)

    @property
    def num_left(self) -> int:
        """Steps that may still run."""
        return self.record.num_left

    @property
    def branch(self) -> int:
        """Number of the branch that steps run in."""
        return len(self._story.branches) - 1

    @property
    def counted_to(self) -> int:
        """The first step of this branch that is not counted yet."""
        return self._story.branches[-1].stop

    def reserve(self, first: int, stop: int) -> None:
        """Counts steps first..stop-1 of this branch; nothing is written if all are counted."""
        if stop > self.counted_to:
            self._append({"kind": "reserve", "branch": self.branch, "first": first, "stop": stop})

    def overflow(self, step: int) -> None:
        """Says that the step's batch could not be drawn; once, however often it is replayed."""
        if (self.branch, step) not in self._story.overflows:
            self._append({"kind": "overflow", "branch": self.branch, "step": step})

    def resume(
        self, step: int, *, new_branch: str | None = None, facts: Mapping[str, Any] | None = None
    ) -> None:
        """Says that the run goes on from a checkpoint before `step`.

        Args:
            step: The next step.
            new_branch: Why replay would not be bitwise identical; then a new branch is opened and
                what the old one counted beyond `step` is abandoned. None keeps the branch.
            facts: What else there is to say, such as the machine.
        """
        branch = self.branch + (new_branch is not None)
        entry = {"kind": "resume", "branch": branch, "step": step, **(facts or {})}
        self._append(entry if new_branch is None else {**entry, "reason": new_branch})

    def complete(self, facts: Mapping[str, Any]) -> None:
        """Closes the story with what came out."""
        counted = self.record.num_counted
        self._append({"kind": "complete", "num_counted": counted, **facts})

    def _append(self, facts: Mapping[str, Any]) -> None:
        """Writes one line and waits until it is on the disk; all or nothing."""
        entry = {**facts, "time": _now()}
        line, head = _line(entry, self._head)
        # Refused before it is written: an impossible entry must never reach the file.
        story = self._story.told([entry])
        with disk_errors(self._path):
            before = os.fstat(self._descriptor).st_size
            try:
                if os.write(self._descriptor, line) != len(line):
                    raise OSError(28, "No space left on device")
                os.fsync(self._descriptor)
            except OSError:
                os.ftruncate(self._descriptor, before)
                raise
        self._entries.append(entry)
        self._story, self._head = story, head

    def close(self) -> None:
        """Lets another process write."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def read_ledger(path: str | Path) -> LedgerRecord:
    """The record of a ledger, checked to the last byte; nothing is changed.

    Raises:
        LedgerError: The file is not there, was changed, or tells an impossible story.
    """
    place = Path(path)
    try:
        data = place.read_bytes()
    except OSError as error:
        raise LedgerError(f"{place.name} must be there to be read: {error.strerror}.") from None
    entries, head, _ = _parse(data, torn_end=False)
    return LedgerRecord.check(entries, head)


def _parse(data: bytes, *, torn_end: bool) -> tuple[list[_Entry], str, int]:
    """Entries, the last hash, and how many bytes whole lines take."""
    entries: list[_Entry] = []
    head = _FIRST_LINK
    whole = data.rfind(b"\n") + 1
    if whole != len(data) and not torn_end:
        raise LedgerError("The ledger must end with a whole line, got a part of one.")
    for number, text in enumerate(data[:whole].split(b"\n")[:-1], start=1):
        try:
            entry = dict(json.loads(text))
            stated = entry.pop("hash")
        except (ValueError, KeyError, TypeError):
            raise LedgerError(f"The ledger's line {number} must be an entry, got damage.") from None
        line, head = _line(entry, head)
        if stated != head or line != text + b"\n":
            raise LedgerError(
                f"The ledger's line {number} must follow from the lines before it, got a hash that "
                "does not. A line was changed, removed or added."
            )
        entries.append(entry)
    return entries, head, whole


def _line(entry: _Entry, previous: str) -> tuple[bytes, str]:
    """The entry as a line, and its hash, which covers the line before."""
    body = _canonical(entry)
    digest = hashlib.sha256(previous.encode() + b"\n" + body).hexdigest()
    return _canonical({**entry, "hash": digest}) + b"\n", digest


def _canonical(entry: _Entry) -> bytes:
    return json.dumps(entry, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _lock(descriptor: int, path: Path) -> None:
    """One writer at a time; the lock goes with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RunError(
            f"{path.name} must have one writer, got a second. Another process is at this run."
        ) from None
