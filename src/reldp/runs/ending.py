"""Ending a run without a model: its key is destroyed, and its steps stay spent.

The steps of an abandoned run may have been seen, for instance in its checkpoints, so they count
towards everything that is spent on the graph; those of a copy of a run count besides those of the run.
The folder can no longer be resumed, and never gets a certificate. `reldp.training.finishing` ends a
run with a model instead.

Public inside the package: `abandon`, `open_unfinished`.

>>> abandon("nowhere")
Traceback (most recent call last):
reldp.errors.RunError: The run folder must exist, got 'nowhere'.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reldp.errors import RunError
from reldp.runs.key import destroy_key
from reldp.runs.ledger import Ledger, LedgerRecord
from reldp.runs.noted_states import note_end
from reldp.runs.run_folder import RunFolder

__all__ = ["abandon", "open_unfinished"]


def abandon(folder: str | Path) -> LedgerRecord:
    """Destroy the key of a run and record in its ledger that it is abandoned; once, however often called.

    Returns:
        The record, whose steps stay counted.

    Raises:
        RunError: There is no run, it is complete, or another process has it open.
    """
    run = RunFolder(folder)
    run.require_run()
    with Ledger.open(run.ledger) as ledger:
        if not ledger.record.is_abandoned:
            _refuse_complete(run, ledger)
            destroy_key(run.key)
            ledger.abandon()
        # Also for a run that was abandoned by a process that ended here. A copy from before cannot go on.
        note_end(run, ledger, is_released=False)
        return ledger.record


@contextmanager
def open_unfinished(run: RunFolder) -> Iterator[Ledger]:
    """Open the ledger of a run that is not abandoned, to end it; it may be complete.

    Raises:
        RunError: There is no run, it is abandoned, or another process has it open.
    """
    run.require_run()
    with Ledger.open(run.ledger) as ledger:
        if ledger.record.is_abandoned:
            raise RunError(
                f"The run in {run.path.name!r} must be one that can be ended, got one that was abandoned."
            )
        yield ledger


def _refuse_complete(run: RunFolder, ledger: Ledger) -> None:
    if ledger.record.completion is not None:
        raise RunError(
            f"The run in {run.path.name!r} must be unfinished, got a complete one: its key is destroyed "
            "already. Delete the folder if you do not want its model; the epsilon stays spent."
        )
