"""The newest state of a run, as its budget knows it: a copy of the folder, or an older state put back, is refused.

The head of the run's ledger is noted in the budget when the run is started and resumed, when it stops, by a signal, a
callback or an error, and when it ends. On the way it is noted at a checkpoint whenever a further hundredth of the
planned steps is counted: this bounds the notes of a run, and what a process that is killed leaves without one. When a
note is made depends on counted steps and never on a clock, because a clock would show how long steps took.

A run goes on from a ledger that has the line that was noted last. The ledger is written before the note, so a process
that ends between the two leaves a ledger that is ahead, which is no copy. On the way a note is not worth the run: if
the budget cannot be written, or another process has it open, the next note takes its place. A run whose budget knows
another continuation stops. Its steps were taken besides those of the other one, so the copy is entered as spent.

Public inside the package: `RunNotes`, `note_end`, `note_session`.

>>> note_end(RunFolder("nowhere"), None)  # in no budget
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from reldp.errors import ReldpError, ResumeError, RunError
from reldp.plan import PrivacyPlan
from reldp.runs.budget import Budget
from reldp.runs.budget_entry import read_token, run_token
from reldp.runs.budget_file import holds_budget
from reldp.runs.known_budgets import known_folder
from reldp.runs.run_folder import BUDGET_TOKEN, RunFolder

if TYPE_CHECKING:
    from reldp.runs.budget_entry import BudgetUse
    from reldp.runs.ledger import Ledger

__all__ = ["RunNotes", "note_end", "note_session"]

_SHARE = 100
_PATIENCE = 5.0  # seconds that a run waits for its budget on the way
_COPY = "copy of a run"


class RunNotes:
    """Notes of a run that goes on."""

    def __init__(self, folder: Path, token: str, ledger: "Ledger") -> None:
        """Take note of the budget's folder, the run's token, and its ledger, whose head was just noted."""
        self._folder, self._token, self._ledger = folder, token, ledger
        self._head, self._counted = ledger.head, ledger.num_counted

    def note_checkpoint(self) -> None:
        """Note the state if enough steps are counted since the last note.

        Raises:
            ResumeError: The budget knows another continuation of the run; this one is entered as spent.
        """
        if _SHARE * (self._ledger.num_counted - self._counted) >= self._ledger.record.num_planned:
            self._note()

    def note_stop(self) -> None:
        """Note the state in which a process leaves the run; what stopped it is not replaced by another error."""
        try:
            if self._ledger.head != self._head:
                self._note()
        except ResumeError:  # entered as spent, and refused when somebody goes on with it
            pass

    def _note(self) -> None:
        try:
            with Budget.open(self._folder, patience=_PATIENCE) as budget:
                _note(budget, self._token, self._ledger)
        except ResumeError:
            raise
        except (ReldpError, OSError):
            return
        self._head, self._counted = self._ledger.head, self._ledger.num_counted


def note_session(run: RunFolder, ledger: "Ledger", use: "BudgetUse | None") -> RunNotes | None:
    """Note in the budget that a run goes on, before its next step; return what notes its further states.

    Raises:
        ResumeError: The budget knows a later state of the run.
    """
    if use is None or use.search is not None:
        return None
    with Budget.open(use.folder) as budget:
        hashes = ledger.hashes
        token = run_token(run, budget.id, use.folder, lost=budget.lost_ids)
        budget.note_session(token, hashes, hashes[-1])
    return RunNotes(use.folder, token, ledger)


def note_end(
    run: RunFolder, ledger: "Ledger", *, is_released: bool = True, is_required: bool = False
) -> None:
    """Note in the budget of a run, if this machine knows where it is, that the run ends or has ended.

    A copy of the folder from before lacks the line that was noted last, and cannot go on.

    Args:
        run: The folder.
        ledger: Its ledger.
        is_released: Whether the run has a model; else it may end beside another continuation, and is entered as spent.
        is_required: Whether the budget must be there: without it, a copy of the run could end as well, uncounted.

    Raises:
        ResumeError: The budget knows another continuation of the run.
        RunError: The budget is required, and is not there.
    """
    if not (run.path / BUDGET_TOKEN).exists():
        return
    values = read_token(run)
    named = Path(values["folder"]) if "folder" in values else None
    places = [place for place in (named, known_folder(values["budget"])) if place is not None]
    folder = next((place for place in places if holds_budget(place, values["budget"])), None)
    if folder is None:
        if (
            is_required
            and places
            and not any(_replaces(place, values["budget"]) for place in places)
        ):
            raise RunError(
                f"The budget of the run must be there when the run ends, got none in {str(places[0])!r}. Mount or "
                "restore it, or show its new place (reldp budget show FOLDER), and run the same command again."
            )
        return
    with Budget.open(folder) as budget:
        if not budget.has_session(values["token"]):
            return
        try:
            _note(budget, values["token"], ledger)
        except ResumeError:
            if is_released:
                raise


def _replaces(folder: Path, lost: str) -> bool:
    """Return whether a folder has a budget in the place of a lost one."""
    try:
        with Budget.open(folder, read_only=True) as budget:
            return lost in budget.lost_ids
    except (ReldpError, OSError):
        return False


def _note(budget: Budget, token: str, ledger: "Ledger") -> None:
    """Note the head of a ledger; enter a copy of the run as spent before it is refused."""
    hashes = ledger.hashes
    try:
        budget.note_session(token, hashes, hashes[-1])
    except ResumeError:
        # The line that abandons a run adds no steps: the copy is entered once, before or after it.
        _enter_copy(budget, token, hashes[-2 if ledger.record.is_abandoned else -1])
        raise


def _enter_copy(budget: Budget, token: str, head: str) -> None:
    """Enter a copy of a run: its steps were taken, and its checkpoint can be read.

    A copy that ends with a line that was noted is an older state of the run, which has no steps of its own.
    """
    entry = budget.find(token)
    if entry is None or budget.knows_state(token, head):
        return
    copy = hashlib.sha256(f"{token} {head}".encode()).hexdigest()[:32]
    plan = PrivacyPlan.from_dict(dict(entry["plan"]))
    budget.enter_run(copy, plan, purpose=_COPY, release=entry.get("release"), is_spent=True)
