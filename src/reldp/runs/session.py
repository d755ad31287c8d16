"""A session of a run on disk: started, resumed or completed, from a state that survives a crash.

The content of the folder decides what `Session.open` does:

* no ledger: a new run. Plan, secret files and the checkpoint before step 0 are written first, the
  ledger last. If a crash comes before that, the next call starts over, because no step has run;
* no ledger, and a budget for the graph: the run is entered there first (`reldp.runs.budget_entry`);
* a ledger without completion: the run resumes from its newest checkpoint, in the same branch if
  re-executed steps have the same bits, in a new one otherwise (theory.md 6). Different data or a
  different objective is refused, with all differences (`reldp.runs.changes`);
* a ledger with completion: no step is left;
* a ledger of an abandoned run: refused.

At completion the model is written first, then the key is destroyed, then the completion is recorded
in the ledger; each of these can be executed again.

Public inside the package: `Session`, `RunFacts`, `complete_run`, `refuse_other_folder`, `threads_of`.

>>> threads_of(RunFolder("nowhere"))
Traceback (most recent call last):
reldp.errors.RunError: ledger.jsonl could not be opened: No such file or directory.
"""

import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from reldp._remove_tree import remove_tree
from reldp.errors import ConfigError, ResumeError, RunError
from reldp.noise import Streams
from reldp.plan import PrivacyPlan
from reldp.runs.budget_entry import BudgetUse, enter
from reldp.runs.changes import newest_branch, refuse_changes, refuse_cut, why_new_branch
from reldp.runs.checkpoints import read_checkpoint, remove_other_checkpoints, write_checkpoint
from reldp.runs.durable import TEMPORARY, disk_errors, sync_folder, write_durably
from reldp.runs.folder_lock import FolderLock, locked_folder
from reldp.runs.key import bound_key, destroy_key, make_key, read_key
from reldp.runs.ledger import Ledger
from reldp.runs.noted_states import RunNotes, note_end, note_session
from reldp.runs.run_folder import BUDGET_TOKEN, LOCK, RunFolder, file_hashes, plan_bytes
from reldp.runs.sensitive_file import SensitiveRecord

__all__ = ["RunFacts", "Session", "complete_run", "refuse_other_folder", "threads_of"]

# The files that an interrupted start may leave: the ledger is written last, so it may be partial.
_FILES_OF_A_START = ("plan.json", "key", "sensitive.json", "checkpoints", "ledger.jsonl")


class RunFacts(Protocol):
    """What a session must know about a run; `reldp.training.facts.TrainingFacts` provides it."""

    @property
    def plan(self) -> PrivacyPlan:
        """The privacy plan."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the content of the capped graph; sensitive."""

    @property
    def statistics(self) -> Mapping[str, Any]:
        """Exact counts for sensitive.json; sensitive."""

    @property
    def identity(self) -> str:
        """Data and objective as text, which the key of the noise is bound to; sensitive."""

    @property
    def machine(self) -> Mapping[str, Any]:
        """Everything that must be the same for re-executed steps to have the same bits."""

    @property
    def is_repeatable(self) -> bool:
        """Whether re-executed steps have the same bits on the same machine."""

    @property
    def table_is_exact(self) -> bool:
        """Whether the rows that steps use have the same bits on every machine."""

    @property
    def budget(self) -> BudgetUse | None:
        """The budget that the run is entered in, if the graph has one."""

    def start(self, sensitive: SensitiveRecord) -> dict[str, Any]:
        """Return the public values of the ledger's first entry, except for `inputs`."""

    def inputs(self, sensitive: SensitiveRecord) -> dict[str, Any]:
        """Return hashes of what steps compute with; the sensitive one as a commitment."""


class Session:
    """An open run folder; closed by ``with``.

    Attributes:
        run: The folder.
        ledger: The ledger, which counts steps.
        streams: Random draws and noise; None when no step is left.
    """

    def __init__(
        self,
        run: RunFolder,
        facts: RunFacts,
        ledger: Ledger,
        sensitive: SensitiveRecord,
        streams: Streams | None,
    ) -> None:
        """Take over an open ledger; use `open`."""
        self.run, self.ledger, self.streams = run, ledger, streams
        self._facts, self._sensitive = facts, sensitive
        self._lock: FolderLock | None = None
        self._notes: RunNotes | None = None

    @classmethod
    def open(
        cls, run: RunFolder, facts: RunFacts, initial_checkpoint: Callable[[], bytes]
    ) -> "Session":
        """Resume the run in a folder, or start a new one.

        Args:
            run: The folder.
            facts: What the run is.
            initial_checkpoint: Returns the content of the checkpoint before step 0; called for a new run only.

        Raises:
            ConfigError: The folder holds other files.
            ResumeError: The folder holds a run of other data or another objective, or is damaged.
            RunError: Another process has the folder open, or the disk cannot be written to.
        """
        # From before the look for a ledger: of two processes that start in one folder, one goes on.
        lock = locked_folder(run.path)
        try:
            session = cls._opened(run, facts, initial_checkpoint)
        except BaseException:
            lock.close()
            raise
        session._lock = lock
        return session

    @classmethod
    def _opened(
        cls, run: RunFolder, facts: RunFacts, initial_checkpoint: Callable[[], bytes]
    ) -> "Session":
        if not run.has_run:
            return cls._start(run, facts, initial_checkpoint())
        ledger = Ledger.open(run.ledger)
        try:
            return cls._resume(run, facts, ledger)
        except BaseException:
            ledger.close()
            raise

    @classmethod
    def _start(cls, run: RunFolder, facts: RunFacts, initial_checkpoint: bytes) -> "Session":
        _clear(run)
        enter(run, facts.plan, facts.budget)
        write_durably(run.plan, plan_bytes(facts.plan))
        sensitive = SensitiveRecord.new(facts.fingerprint, facts.statistics)
        sensitive.write(run.sensitive)
        streams = Streams(bound_key(make_key(run.key), facts.identity))
        named = {"step": 0, "sha256": write_checkpoint(run.checkpoints, 0, initial_checkpoint)}
        start = facts.start(sensitive) | {
            "inputs": facts.inputs(sensitive),
            "checkpoint": named,
        }
        ledger = Ledger.create(run.ledger, start)
        session = cls(run, facts, ledger, sensitive, streams)
        try:
            session._notes = note_session(run, ledger, facts.budget)
        except BaseException:
            ledger.close()
            raise
        return session

    @classmethod
    def _resume(cls, run: RunFolder, facts: RunFacts, ledger: Ledger) -> "Session":
        if ledger.record.is_abandoned:
            raise ResumeError(
                f"The run in {run.path.name!r} must be resumable, got one that was abandoned: its key is "
                "destroyed. Start a new run in another folder."
            )
        if run.is_bundle:
            raise ResumeError(
                f"{run.path.name!r} must be a run to resume, got one without {run.sensitive.name}: a published "
                "bundle, or a run that has lost this file. Choose another folder, or restore the file."
            )
        run.refuse_links()
        sensitive = refuse_changes(run, facts, ledger.record)
        session = cls(run, facts, ledger, sensitive, None)
        session.read_checkpoint()
        remove_other_checkpoints(run.checkpoints, session.next_step)
        run.remove_leftovers()
        if session.is_complete:
            return session
        reason = why_new_branch(facts, ledger.record)
        stop = ledger.record.branches[-1].stop
        if session.next_step == stop and ledger.num_left == 0:
            return session  # nothing is drawn any more, and the key may be on its way out
        session.streams = Streams(bound_key(read_key(run.key), facts.identity))
        refuse_cut(ledger.record, reason)
        enter(run, facts.plan, facts.budget)
        note_session(run, ledger, facts.budget)  # refuses a copy before it changes anything
        session._resume_in_ledger(reason)
        session._notes = note_session(run, ledger, facts.budget)
        return session

    @property
    def stream_number(self) -> int:
        """The number that selects the random streams (draws and noise) of the newest branch; 0 for the first."""
        return int(newest_branch(self.ledger.record).get("stream_number", 0))

    @property
    def next_step(self) -> int:
        """The step to run next: the newest checkpoint is the state before it."""
        return _named_checkpoint(self.ledger)[0]

    @property
    def stop(self) -> int:
        """The step after the last one that this branch may run."""
        return self.ledger.record.last_step

    @property
    def is_complete(self) -> bool:
        """Whether the ledger records the completion."""
        return self.ledger.record.completion is not None

    def open_branch(self, reason: str) -> None:
        """Resume from the newest checkpoint with fresh random draws and noise."""
        refuse_cut(self.ledger.record, reason)
        self._resume_in_ledger(reason)

    def _resume_in_ledger(self, reason: str | None) -> None:
        """Append the resumption, in a new branch if there is a reason for one."""
        facts: dict[str, Any] = {"machine": dict(self._facts.machine)}
        if reason is not None:
            # A random number: two copies of a run folder, resumed on two machines, must not draw
            # the same noise for different sums.
            facts["stream_number"] = 1 + secrets.randbelow(2**63 - 1)
            facts["inputs"] = self._facts.inputs(self._sensitive)
        self.ledger.resume(self.next_step, new_branch_reason=reason, facts=facts)

    def read_checkpoint(self) -> bytes:
        """Return the content of the newest checkpoint, checked against the ledger.

        Raises:
            ResumeError: The file is missing, or its content is different.
        """
        return read_checkpoint(self.run.checkpoints, *_named_checkpoint(self.ledger))

    def save(self, step: int, data: bytes, *, stopped_by: str | None = None) -> None:
        """Make the content of a checkpoint before `step` the one to resume from.

        Args:
            step: The next step.
            data: The content.
            stopped_by: What asked for a stop here, other than a signal.

        Raises:
            ResumeError: The budget knows another continuation of the run.
        """
        self.ledger.check_place()
        hashed = write_checkpoint(self.run.checkpoints, step, data)
        self.ledger.checkpoint(step, hashed, stopped_by=stopped_by)
        remove_other_checkpoints(self.run.checkpoints, step)
        if self._notes is not None:
            self._notes.note_checkpoint()

    def save_stop(self, step: int, data: bytes, *, stopped_by: str) -> None:
        """Record a stop, with a checkpoint unless there is one; before the first step nothing was learned from."""
        if step > self.next_step:
            self.save(step, data, stopped_by=stopped_by)
        elif step:
            self.ledger.checkpoint(*_named_checkpoint(self.ledger), stopped_by=stopped_by)

    def complete(
        self, save_model: Callable[[Path], None], weights_sha256: str, **facts: Any
    ) -> None:
        """Write the model, destroy the key and record the completion in the ledger.

        Args:
            save_model: Writes the trained encoder into a folder, replacing what is there.
            weights_sha256: Hash of the released weights.
            **facts: Further public values of the completion.
        """
        if self._notes is not None and not (self.run.path / BUDGET_TOKEN).exists():
            raise RunError(
                f"{BUDGET_TOKEN} must stay in the run folder, got none. Restore it, and run the same command again."
            )
        complete_run(self.run, self.ledger, save_model, weights_sha256, facts)

    def close(self) -> None:
        """Let another process open the folder, once the budget knows the state in which this one leaves it."""
        try:
            if self._notes is not None:
                self._notes.note_stop()
        finally:
            self.ledger.close()
            if self._lock is not None:
                self._lock.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def complete_run(
    run: RunFolder,
    ledger: Ledger,
    save_model: Callable[[Path], None],
    weights_sha256: str,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write the model, destroy the key and record the completion, in an order that can be executed again.

    Args:
        run: The folder.
        ledger: Its ledger, open.
        save_model: Writes the trained encoder into a folder, replacing what is there.
        weights_sha256: Hash of the released weights.
        facts: Further public values of the completion.
    """
    ledger.check_place()
    run.refuse_links()  # before the model is written through one
    # A copy that went on elsewhere is refused before it is released.
    note_end(run, ledger, is_required=True)
    with disk_errors(run.model):
        for half_written in run.path.glob(".model.*"):
            remove_tree(half_written)
        save_model(run.model)
        for place in (run.model, *run.model.rglob("*")):  # libraries write by the umask
            if place.is_symlink():
                continue
            place.chmod(0o755 if place.is_dir() else 0o644)
    sync_folder(run.model)
    destroy_key(run.key)
    ledger.complete(
        {
            "key": "destroyed",
            "model": {"files": file_hashes(run.model)},
            "weights_sha256": weights_sha256,
            **(facts or {}),
        }
    )
    note_end(run, ledger)  # a copy from before the end cannot go on


def threads_of(run: RunFolder) -> int:
    """Return the number of threads of the newest branch of the run in a folder."""
    with Ledger.open(run.ledger) as ledger:
        return int(newest_branch(ledger.record)["machine"]["threads"])


def refuse_other_folder(run: RunFolder) -> None:
    """Refuse a folder in which no run can be started or resumed; nothing is written.

    Raises:
        ConfigError: It holds other files, or is none.
        RunError: It cannot be written to.
    """
    if run.has_run:
        return
    if os.path.lexists(run.path) and not run.path.is_dir():
        raise ConfigError(
            f"The run folder must be a folder, got {str(run.path)!r}, which is something else."
        )
    known = {
        *_FILES_OF_A_START,
        *(name + TEMPORARY for name in (*_FILES_OF_A_START, BUDGET_TOKEN)),
        BUDGET_TOKEN,
        LOCK,
    }
    with disk_errors(run.path):
        names = os.listdir(run.path) if run.path.is_dir() else []
    foreign = sorted(set(names) - known)
    if foreign:
        raise ConfigError(
            f"The run folder must be new, empty or hold a run, got one with {foreign[0]!r}. "
            "Choose another folder."
        )
    absolute = run.path.absolute()
    nearest = next(place for place in (absolute, *absolute.parents) if place.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise RunError(
            f"{run.path.name} could not be written: {nearest.name!r} may not be written to. Choose another folder."
        )


def _clear(run: RunFolder) -> None:
    """Remove the files of a start that was interrupted."""
    refuse_other_folder(run)
    with disk_errors(run.path):
        for place in run.path.iterdir():
            if place.is_dir():
                shutil.rmtree(place)
            elif place.name not in (BUDGET_TOKEN, LOCK):  # the budget knows the run by its token
                place.unlink()
        with suppress(PermissionError):  # the folder may belong to somebody else
            run.path.chmod(0o700)  # whatever the umask; names and sizes of its files are sensitive


def _named_checkpoint(ledger: Ledger) -> tuple[int, str]:
    """Return step and SHA-256 of the checkpoint that the ledger names."""
    named = ledger.record.checkpoint
    if named is None:
        raise ResumeError("The ledger must name a checkpoint to resume from, got none.")
    return int(named["step"]), str(named["sha256"])
