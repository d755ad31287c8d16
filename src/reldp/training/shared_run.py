"""A run of several processes in one folder: the first process writes, the others follow.

The first process alone reads and writes the run folder; the others only look whether they see another run there, as
they do if the first process has moved to another machine, and are refused then. The first process opens the session and
sends what the others need: the key of draws and noise, the next step and the last, the checkpoint. Steps are counted
before they run, because no sum of a batch is complete without the first process, which takes part only in steps that
its ledger has on disk. A process that ends, for whatever reason, ends the run in all of them; what is on disk is what a
run of one process would leave.

Without torchrun everything here is what `Session` and `MetricsLog` do alone.

Private to the package: `SharedRun`, `SharedLog`.

>>> from reldp.runs.run_folder import RunFolder
>>> SharedRun(Processes(), RunFolder("nowhere")).has_run
False
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

from torch import Tensor

from reldp.errors import RunError
from reldp.noise import Streams
from reldp.processes import Processes
from reldp.runs.certificate import Certificate
from reldp.runs.certificate_files import write_certificate
from reldp.runs.ledger import read_ledger
from reldp.runs.plain_files import read_plain
from reldp.runs.run_folder import LEDGER_LIMIT, RunFolder, read_plan
from reldp.runs.session import Session, threads_of
from reldp.training.callbacks import StepRequests
from reldp.training.metrics import MetricsLog, ReexecutionDiffers

if TYPE_CHECKING:
    from reldp.runs.session import RunFacts
    from reldp.training.config import TrainingConfig
    from reldp.training.step_report import StepReport

__all__ = ["SharedLog", "SharedRun"]


class SharedRun:
    """The run folder, as all processes see it.

    Args:
        processes: The processes.
        run: The folder; only the first process uses it.
    """

    def __init__(self, processes: Processes, run: RunFolder) -> None:
        self.processes, self.run = processes, run

    @cached_property
    def has_run(self) -> bool:
        """Whether the folder held a run when it was first asked.

        Raises:
            RunError: Another process sees a run there that the first one does not: it would start a second run, whose
                ledger says nothing about the first.
        """
        runs = self.processes.gather(_identity(self.run), about="the run folder")
        unseen = [rank for rank, run in enumerate(runs) if run and run != runs[0]]
        if unseen:
            raise RunError(
                f"The run folder must be the same for all processes, got a run on rank {unseen[0]} that rank 0 does "
                f"not see in {str(self.run.path)!r}. Use a folder that all machines share; the steps of that run "
                "count, also if another one is started."
            )
        return bool(runs[0])

    def threads(self, given: int | None, default: int) -> int:
        """Return the number of threads: as set, or that of the run, or the default of the first process."""

        def known() -> int:
            return threads_of(self.run) if self.run.has_run else default

        return int(self._from_first(known)) if given is None else given

    def open(self, facts: "RunFacts", initial_checkpoint: Callable[[], bytes]) -> Session:
        """Resume the run in the folder, or start a new one: see `Session.open`."""
        if self.processes.is_alone:
            return Session.open(self.run, facts, initial_checkpoint)
        if not self.processes.is_first:
            return _FollowingSession(self.processes, self.run)
        session = _LeadingSession.open(self.run, facts, initial_checkpoint)
        assert isinstance(session, _LeadingSession)
        try:
            session.share(self.processes)
        except BaseException:
            session.close()
            raise
        return session

    def certificate(self) -> Certificate:
        """Write the certificate of the complete run; return it in all processes.

        A run of a search gets none before the search releases it.
        """
        if self.processes.is_alone:
            return _certificate(self.run)
        text = self.processes.from_first(lambda: _certificate(self.run).to_json().encode())
        return Certificate.from_json(text)

    def metrics(self) -> list[dict[str, Any]]:
        """Return the lines of metrics.jsonl."""
        return list(self._from_first(lambda: self.run.read_lines(self.run.metrics)))

    def evaluations(self) -> list[dict[str, Any]]:
        """Return the lines of evaluations.jsonl; sensitive."""
        return list(self._from_first(lambda: self.run.read_lines(self.run.evaluations)))

    def _from_first(self, make: Callable[[], Any]) -> Any:
        """Return a JSON value that the first process makes."""
        return json.loads(self.processes.from_first(lambda: json.dumps(make()).encode()))


def _identity(run: RunFolder) -> bytes:
    """Return a hash of the first line of the folder's ledger, which holds random salts; empty without one."""
    if not run.has_run:
        return b""
    first = read_plain(run.ledger, limit=LEDGER_LIMIT).partition(b"\n")[0]
    return hashlib.sha256(first).digest()


class _LeadingSession(Session):
    """The session of the first process, which tells the others what they need."""

    _processes: Processes | None = None

    def share(self, processes: Processes) -> None:
        """Send the state of the run to the other processes."""
        self._processes = processes
        key = b"" if self.streams is None else self.streams.key_for_processes()
        values = {
            "next_step": self.next_step,
            "stop": self.stop,
            "stream_number": self.stream_number,
            "branch": self.ledger.branch,
            "is_complete": self.is_complete,
            "num_abandoned": self.ledger.record.num_abandoned,
        }
        processes.from_first(
            lambda: bytes([len(key)]) + key + json.dumps(values).encode(),
            about="the state of the run",
        )

    def open_branch(self, reason: str) -> None:
        super().open_branch(reason)
        if self._processes is not None:
            self.share(self._processes)

    def read_checkpoint(self) -> bytes:
        data = super().read_checkpoint()
        return (
            data
            if self._processes is None
            else self._processes.from_first(lambda: data, about="a checkpoint")
        )

    def complete(
        self, save_model: Callable[[Path], None], weights_sha256: str, **facts: Any
    ) -> None:
        super().complete(save_model, weights_sha256, **facts)
        if self._processes is not None:
            self._processes.wait("the end of the run")


class _FollowingSession(Session):
    """The session of every other process: no file is read or written."""

    def __init__(self, processes: Processes, run: RunFolder) -> None:
        """Receive the state of the run."""
        self._processes, self.run = processes, run
        self._receive()

    def _receive(self) -> None:
        data = self._processes.from_first(lambda: b"", about="the state of the run")
        key, text = data[1 : 1 + data[0]], data[1 + data[0] :]
        self._values: dict[str, Any] = json.loads(text)
        self._next_step = int(self._values["next_step"])
        self.streams = Streams(key) if key else None
        self.ledger: Any = SimpleNamespace(
            branch=self._values["branch"],
            next_uncounted_step=self._values["stop"],  # the first process counts
            reserve=lambda first, stop: None,
            overflow=lambda step: None,
            record=SimpleNamespace(num_abandoned=self._values["num_abandoned"]),
        )

    @property
    def stream_number(self) -> int:
        return int(self._values["stream_number"])

    @property
    def next_step(self) -> int:
        return self._next_step

    @property
    def stop(self) -> int:
        return int(self._values["stop"])

    @property
    def is_complete(self) -> bool:
        return bool(self._values["is_complete"])

    def open_branch(self, reason: str) -> None:
        self._receive()

    def read_checkpoint(self) -> bytes:
        return self._processes.from_first(lambda: b"", about="a checkpoint")

    def save(self, step: int, data: bytes, *, stopped_by: str | None = None) -> None:
        self._next_step = step

    def save_stop(self, step: int, data: bytes, *, stopped_by: str) -> None:
        self._next_step = step

    def complete(
        self, save_model: Callable[[Path], None], weights_sha256: str, **facts: Any
    ) -> None:
        self._processes.wait("the end of the run")
        self._values["is_complete"] = True

    def close(self) -> None:
        self.streams = None


class SharedLog:
    """The log of metrics, which the first process writes, and the stops that all processes agree on.

    Args:
        processes: The processes.
        session: The open run.
        config: The settings.
        asked_to_stop: Returns whether this process was asked to stop.
    """

    def __init__(
        self,
        processes: Processes,
        session: Session,
        config: "TrainingConfig",
        asked_to_stop: Callable[[], bool],
    ) -> None:
        self._processes, self._asked = processes, asked_to_stop
        self._log: MetricsLog | None = None
        self._must_stop = False
        if processes.is_first:
            branch = session.ledger.branch
            self._log = MetricsLog(session.run, config, session.next_step, branch)
        known = b"0" if self._log is None else str(self._log.executed_until).encode()
        self._executed_until = int(processes.from_first(lambda: known))

    @property
    def must_stop(self) -> bool:
        """Whether any process was asked to stop; the same in all of them after a step."""
        return self._asked() if self._processes.is_alone else self._must_stop

    def write(
        self, step: int, rate: float, report: "StepReport", weights: Mapping[str, Tensor]
    ) -> None:
        """Log a step.

        Raises:
            ReexecutionDiffers: In all processes: the step was executed before and gave other weights.
        """
        differs = False
        try:
            if self._log is not None:
                self._log.write(step, rate, report, weights)
        except ReexecutionDiffers:
            differs = True
        if (
            step < self._executed_until
            and self._processes.any(differs, about="a step that ran before")[0]
        ):
            raise ReexecutionDiffers

    def agreed(self, requests: StepRequests) -> StepRequests:
        """Return what the callbacks of any process ask for after a step; see also `must_stop`."""
        asked = requests.checkpoint, requests.stop, self._asked()
        checkpoint, stop, self._must_stop = self._processes.any(*asked, about="the end of a step")
        return StepRequests(checkpoint=checkpoint, stop=stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._log is not None:
            self._log.close()


def _certificate(run: RunFolder) -> Certificate:
    """Return the certificate of a complete run, and write it unless the run waits for the end of its search."""
    record = read_ledger(run.ledger)
    if record.is_unreleased:
        return Certificate.from_ledger(read_plan(run), record)
    return write_certificate(run)
