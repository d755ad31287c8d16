"""The state of a run's ledger: which entries may follow which, and how many steps they count.

Entries are plain JSON objects. `LedgerState.apply` takes them in order and refuses an impossible one,
before it is written and again whenever it is read; `LedgerRecord` is a checked ledger.

Rules (theory.md 6): a step of a branch counts once, however often it is executed again; an
abandoned branch stays counted; a run resumes from its newest checkpoint only; more steps than
planned are refused; nothing but audits, and the release of a run by its search, may follow the completion,
and nothing at all the end of an abandoned run. A search releases its best run with the number whose hash the start
of every one of its runs names, so that no other run of it can be taken for the released one.

Public inside the package: `LedgerRecord`, `LedgerState`, `Branch`, `FORMAT`.

>>> start = {"kind": "start", "format": 2, "num_steps": 9}
>>> reserved = {"kind": "reserve", "branch": 0, "first": 0, "stop": 6}
>>> LedgerRecord.check([start, reserved], head="").num_left
3
"""

import hashlib
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

from reldp.errors import LedgerError
from reldp.runs.schema import SENSITIVE_CALLBACK

__all__ = ["FORMAT", "Branch", "LedgerRecord", "LedgerState"]

FORMAT = 2
_Entry = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Branch:
    """Steps first..stop-1, with the random draws and the noise of one branch number."""

    first: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.first


@dataclass(frozen=True, kw_only=True)
class LedgerRecord:
    """A ledger whose chain and whose entries have been checked.

    Attributes:
        entries: All entries in order, without their hashes.
        head: Hash of the last line.
        branches: The steps that each branch reserved, by branch number.
        overflows: (branch, step) of batches that could not be drawn.
    """

    entries: tuple[_Entry, ...]
    head: str
    branches: tuple[Branch, ...]
    overflows: tuple[tuple[int, int], ...]

    @classmethod
    def check(cls, entries: Iterable[_Entry], head: str) -> "LedgerRecord":
        """Return the record of entries that can follow one another.

        Raises:
            LedgerError: There is no entry, or an impossible one.
        """
        checked = tuple(entries)
        if not checked:
            raise LedgerError("The ledger must have a start, got no entry.")
        return LedgerState().apply(checked).record(checked, head)

    @property
    def start(self) -> _Entry:
        """The entry that starts the run."""
        return self.entries[0]

    @property
    def completion(self) -> _Entry | None:
        """The entry that completes the run; None before that. Audits and a release come after it."""
        return next((entry for entry in self.entries if entry["kind"] == "complete"), None)

    @property
    def is_abandoned(self) -> bool:
        """Whether the run ended without a model; its steps stay counted."""
        return bool(self.entries[-1]["kind"] == "abandon")

    @property
    def is_unreleased(self) -> bool:
        """Whether the run belongs to a search that has not released it."""
        is_bound = "release_sha256" in (self.start.get("search") or {})
        return is_bound and all(entry["kind"] != "release" for entry in self.entries)

    @property
    def audits(self) -> tuple[_Entry, ...]:
        """The results of audits of the complete run, the oldest first."""
        return tuple(entry["audit"] for entry in self.entries if entry["kind"] == "audit")

    @property
    def checkpoint(self) -> _Entry | None:
        """Step and ``sha256`` of the checkpoint file to resume from; None if none is named."""
        named = (entry for entry in reversed(self.entries) if entry["kind"] == "checkpoint")
        return next(named, self.start.get("checkpoint"))

    @property
    def num_counted(self) -> int:
        """Number of steps that epsilon must cover: each step of each branch once."""
        return sum(map(len, self.branches))

    @property
    def num_abandoned(self) -> int:
        """Number of counted steps that the released model does not include: ends of left branches."""
        pairs = zip(self.branches, self.branches[1:], strict=False)
        return sum(before.stop - after.first for before, after in pairs)

    @property
    def num_planned(self) -> int:
        """Number of steps that may run at most."""
        return int(self.start["num_steps"])

    @property
    def num_left(self) -> int:
        """Steps that may still run."""
        return self.num_planned - self.num_counted

    @property
    def last_step(self) -> int:
        """The step at which the newest branch ends if all planned steps run."""
        return self.branches[-1].stop + self.num_left

    @property
    def is_early(self) -> bool:
        """Whether the newest checkpoint comes before the last step, also if all planned steps are counted."""
        return int((self.checkpoint or {}).get("step", 0)) < self.last_step

    @property
    def stoppers(self) -> tuple[str, ...]:
        """What asked for the stops of the run, other than signals, the oldest first."""
        named = [entry for entry in self.entries if entry["kind"] == "checkpoint"]
        return tuple(str(entry["stopped_by"]) for entry in named if "stopped_by" in entry)

    @property
    def sensitive_stops(self) -> tuple[int, ...]:
        """The steps before which a callback that sees sensitive values stopped the run, the earliest first."""
        return tuple(int(stop["step"]) for stop in self._sensitive_stops())

    @property
    def is_cut_by_sensitive(self) -> bool:
        """Whether sensitive values decided how many steps the weights have, which no epsilon covers.

        They do if the run ends early, and if a new branch leaves out counted steps that followed such a stop.
        """
        stops = self._sensitive_stops()
        if stops and self.is_early:  # once: it looks at every entry
            return True
        return any(self._leaves_out_steps_after(stop) for stop in stops)

    def _sensitive_stops(self) -> list[_Entry]:
        named = [entry for entry in self.entries if entry["kind"] == "checkpoint"]
        return [entry for entry in named if entry.get("stopped_by") == SENSITIVE_CALLBACK]

    def _leaves_out_steps_after(self, stop: _Entry) -> bool:
        number = int(stop["branch"])
        if number + 1 == len(self.branches):
            return False
        here, following = self.branches[number], self.branches[number + 1]
        return bool(following.first == stop["step"] < here.stop)

    @property
    def num_resumes(self) -> int:
        """Number of times that the run was resumed."""
        return sum(entry["kind"] == "resume" for entry in self.entries)


class LedgerState:
    """The state after some entries; refuses an entry that cannot come next."""

    def __init__(self) -> None:
        self.branches: list[Branch] = []
        self.overflows: list[tuple[int, int]] = []
        self.checkpoint = 0
        self._checkpoint_sha256: str | None = None  # none is named twice before the first step
        self.num_planned = 0
        self.num_counted = 0  # steps of all branches
        self._length = 0
        self._complete = False
        self._abandoned = False
        self._release_sha256: str | None = None

    def apply(self, entries: Iterable[_Entry]) -> "LedgerState":
        """Return the state after some more entries; this one stays as it is.

        Raises:
            LedgerError: An entry cannot come where it is.
        """
        after = copy(self)
        after.branches, after.overflows = list(self.branches), list(self.overflows)
        for entry in entries:
            after._add(entry)
        return after

    def record(self, entries: tuple[_Entry, ...], head: str) -> LedgerRecord:
        """Return the record of the entries that led to this state."""
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
            _require((kind == "start") == (position == 1), "start once and first")
            _require(not self._abandoned, "end with the entry that abandons the run")
            after = self._complete == (kind in ("audit", "release"))
            _require(
                after, "have its release and audits after its completion, and nothing else there"
            )
            _RULES[kind](self, entry)
        except LedgerError as error:
            raise LedgerError(f"{error} Entry {position} breaks this.") from None
        except (KeyError, TypeError, AttributeError, ValueError):
            raise LedgerError(f"The ledger's entry {position} must be a known kind.") from None

    def _start(self, entry: _Entry) -> None:
        if entry["format"] == 1:
            raise LedgerError(
                f"The ledger must have format {FORMAT}, got 1, which reldp 0.3 and earlier wrote. "
                "Use the version that the run was made with."
            )
        _require(_count(entry["format"]) == FORMAT, f"have format {FORMAT}")
        self.num_planned = _count(entry["num_steps"])
        self._release_sha256 = (entry.get("search") or {}).get("release_sha256")
        self.branches.append(Branch(first=0, stop=0))

    def _reserve(self, entry: _Entry) -> None:
        first, stop = _count(entry["first"]), _count(entry["stop"])
        here = self.branches[-1]
        self._require_newest(entry)
        _require(here.first <= first <= here.stop and first < stop, "leave no step out")
        self.branches[-1] = Branch(first=here.first, stop=max(here.stop, stop))
        self.num_counted += len(self.branches[-1]) - len(here)
        _require(self.num_counted <= self.num_planned, "keep to the planned steps")

    def _overflow(self, entry: _Entry) -> None:
        step, here = _count(entry["step"]), self.branches[-1]
        self._require_newest(entry)
        _require(here.first <= step < here.stop, "count a step before it runs")
        self.overflows.append((len(self.branches) - 1, step))

    def _checkpointed(self, entry: _Entry) -> None:
        step = _count(entry["step"])
        self._require_newest(entry)
        _require(len(bytes.fromhex(entry["sha256"])) == 32, "name checkpoints by their SHA-256")
        counted = self.checkpoint < step <= self.branches[-1].stop
        named = step, entry["sha256"]
        is_stop = "stopped_by" in entry and named == (self.checkpoint, self._checkpoint_sha256)
        _require(counted or is_stop, "have a checkpoint after steps that it counted")
        self.checkpoint, self._checkpoint_sha256 = named

    def _resume(self, entry: _Entry) -> None:
        step, branch = _count(entry["step"]), _count(entry["branch"])
        _require(step == self.checkpoint, "resume from its newest checkpoint")
        same = branch == len(self.branches) - 1
        _require(same or branch == len(self.branches), "number branches in order")
        if not same:
            self.branches.append(Branch(first=step, stop=step))

    def _completed(self, entry: _Entry) -> None:
        _require(
            _count(entry["num_counted"]) == self.num_counted,
            "complete with the number of steps that it counted",
        )
        self._complete = True

    def _abandon(self, entry: _Entry) -> None:
        _require(
            _count(entry["num_counted"]) == self.num_counted,
            "be abandoned with the number of steps that it counted",
        )
        self._abandoned = True

    def _audit(self, entry: _Entry) -> None:
        _require(isinstance(entry["audit"], Mapping), "hold the results of an audit")

    def _release(self, entry: _Entry) -> None:
        hashed = hashlib.sha256(bytes.fromhex(entry["number"])).hexdigest()
        _require(hashed == self._release_sha256, "be released once, by the search of the run")
        self._release_sha256 = None

    def _require_newest(self, entry: _Entry) -> None:
        newest = _count(entry["branch"]) == len(self.branches) - 1
        _require(newest, f"{entry['kind']} in its newest branch")


_RULES = {
    "start": LedgerState._start,
    "reserve": LedgerState._reserve,
    "overflow": LedgerState._overflow,
    "checkpoint": LedgerState._checkpointed,
    "resume": LedgerState._resume,
    "complete": LedgerState._completed,
    "abandon": LedgerState._abandon,
    "audit": LedgerState._audit,
    "release": LedgerState._release,
}


def _require(condition: bool, rule: str) -> None:
    if not condition:
        raise LedgerError(f"The ledger must {rule}.")


def _count(value: Any) -> int:
    """Return a whole number that is not below 0; nothing else is taken for one."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(value)
    return value
