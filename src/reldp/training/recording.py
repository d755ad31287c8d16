"""A training loop of one's own, with the ledger and the certificate of a run.

    with step.record("run") as run:
        for number in run:
            run.backward()  # one step of the plan: sets .grad to the noisy gradient
            optimizer.step()
            optimizer.zero_grad()
    run.certificate

The loop owns optimizer and schedule; the record owns what the guarantee needs. Each step is counted in the
ledger before it runs, and must run exactly once: forgetting `backward`, or calling it twice, raises an
error, and so does a step outside of the record. When the block ends, the weights are saved; after the
plan's last step the model and the certificate are written and the key is destroyed.

After an interruption, `record` on the same folder continues from the saved weights in a new branch, with
fresh random draws and noise, since nobody knows the optimizer's state (theory.md 6). Steps that were
counted and did not run stay counted, so that fewer remain.

Public inside the package: `RecordedRun`; users get it from `PrivateStep.record`.

>>> RecordedRun.__name__
'RecordedRun'
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import torch

from reldp._torch_state import plain_torch
from reldp._validate import check_integer
from reldp.encoders.folders import state_hash
from reldp.errors import ConfigError, RunError
from reldp.runs.certificate import Certificate
from reldp.runs.run_folder import RunFolder
from reldp.runs.session import Session
from reldp.training.agreement import check_facts
from reldp.training.counted_steps import BLOCK, CountedSteps, warn_about_plan
from reldp.training.distributed import check_end
from reldp.training.facts import TrainingFacts
from reldp.training.memory import refuse_memory_settings
from reldp.training.repeatability import no_random_numbers
from reldp.training.shared_run import SharedRun
from reldp.training.state import TrainingState

if TYPE_CHECKING:
    from reldp.plan import PrivacyPlan
    from reldp.training.objective import Objective
    from reldp.training.step import PrivateStep
    from reldp.training.step_report import StepReport

__all__ = ["RecordedRun"]


class RecordedRun:
    """The steps of a run whose loop belongs to the user; opened by ``with``.

    Attributes:
        folder: The run folder.
    """

    def __init__(
        self,
        step: "PrivateStep",
        folder: str | Path,
        *,
        checkpoint_every: int = 100,
    ) -> None:
        """Take note of step and folder; ``with`` opens the run.

        Args:
            step: The step.
            folder: The run folder: new, or with a run to continue.
            checkpoint_every: Steps between saved weights.
        """
        check_integer("checkpoint_every", checkpoint_every, low=1, error=ConfigError)
        refuse_memory_settings(step._performance)
        self.folder, self._step, self._interval = Path(folder), step, checkpoint_every
        self._processes = step._shares.processes
        self._run = SharedRun(self._processes, RunFolder(folder))
        self._facts = _facts(step)
        self._objective = self._facts.objective
        self._session: Session | None = None
        self._steps: CountedSteps | None = None
        self._certificate: Certificate | None = None
        self._number: int | None = None  # the step of the current iteration
        self._has_run = False  # whether it ran
        self._process = os.getpid()
        self._next = 0

    @plain_torch()
    def __enter__(self) -> Self:
        """Start the run, or continue the one in the folder from its newest saved weights.

        Raises:
            ResumeError: The folder holds a run of other data or another objective.
            RunError: The record is open already, another run trains the encoder, or another process has the folder
                open.
        """
        if self._session is not None:
            raise RunError("A record must be opened once, got one that is open.")
        objective, plan = self._objective, self._facts.plan
        objective.hold(self)
        try:
            with self._processes.reporting():
                return self._opened(objective, plan)
        except BaseException:
            self._close()
            raise

    def _opened(self, objective: "Objective", plan: "PrivacyPlan") -> Self:
        """Open the run, whose encoder and loss no other run of this process has."""
        run = self._run = SharedRun(self._processes, RunFolder(self.folder))
        objective.eval()
        objective.encoder.check_finite()
        check_facts(self._processes, self._facts, is_new=not run.has_run)
        if not run.has_run:
            objective.check_untrained()
            if self._processes.is_first:
                warn_about_plan(plan, objective.encoder, stacklevel=4)
            if plan.num_steps:
                with no_random_numbers():
                    self._step.prepare()  # a refusal leaves no run behind
        self._process = os.getpid()
        self._session = run.open(self._facts, self._first_state)
        objective.mark_trained()
        state = TrainingState.from_bytes(self._session.read_checkpoint())
        objective.load(state.released)
        self._next = self._session.next_step
        if self._session.streams is not None and self._next < self._session.stop:
            self._step._open_recorded(self._session.streams)
            clip = bool(self._facts.training["clip"])
            self._steps = CountedSteps(self._step, self._session, plan, clip=clip)
        return self

    def __iter__(self) -> Iterator[int]:
        """Return the numbers of the steps that are left."""
        return self

    def __next__(self) -> int:
        """Count the next step, and return its number.

        Raises:
            RunError: The record is not open, or the step before did not run.
        """
        session = self._open_session()
        if self._number is not None:
            if not self._has_run:
                raise RunError(
                    f"Every step must run, got step {self._number}, which is counted and did not. Call "
                    "backward() once in every iteration."
                )
            self._next = self._number + 1
            self._number = None
            if self._next % self._interval == 0:
                self._save(session)
        if self._steps is None or self._next >= session.stop:
            raise StopIteration
        self._steps.reserve(self._next, BLOCK)
        self._number, self._has_run = self._next, False
        return self._number

    @plain_torch()
    def backward(self) -> "StepReport":
        """Take the current step: set ``.grad`` of every trainable parameter to the noisy gradient.

        Whatever ``.grad`` held before is replaced, not added to.

        Returns:
            Statistics of the step. Sensitive: no guarantee covers them.

        Raises:
            RunError: There is no current step, or it ran already.
        """
        self._open_session()
        if self._number is None or self._steps is None:
            raise RunError("`backward` must be called for a step, got none. Loop over the record.")
        if self._has_run:
            raise RunError(
                f"Every step must run once, got a second call for step {self._number}. One iteration is one "
                "step of the plan; a larger expected_batch_size takes the place of accumulation."
            )
        report = self._steps.take(self._number)
        self._has_run = True
        return report

    @property
    def certificate(self) -> Certificate:
        """The privacy guarantee, made from the ledger.

        Raises:
            RunError: The block has not ended, or steps are left.
        """
        if self._certificate is None:
            raise RunError(
                "A certificate must come after the last step, got a run with steps left or an open record. "
                "Let the loop end, then leave the `with` block; record() on the same folder continues a "
                "run that was interrupted."
            )
        return self._certificate

    @plain_torch()
    def __exit__(self, kind: object, *exception: object) -> None:
        """Save the weights; after the last step complete the run and write its certificate."""
        if self._session is not None and self._process != os.getpid():
            return  # a copy of the process, which must not write what is the original's
        if exception and isinstance(exception[0], BaseException):
            self._processes.end(exception[0])
        session = self._open_session()
        try:
            if self._number is not None and self._has_run:
                self._next = self._number + 1
            if self._next > session.next_step:
                self._save(session)
            is_done = self._next >= session.stop and kind is None
            if is_done and not session.is_complete:
                self._objective.check_unchanged()
                check_end(self._step)
                hashed = state_hash(self._objective.parameters)
                session.complete(self._objective.save, hashed)
            is_done = is_done and session.is_complete
        finally:
            self._close()
        if is_done:
            self._certificate = self._run.certificate()

    def _close(self) -> None:
        """Let nothing of the run be used any more, and another process open it."""
        self._step._close_recorded()
        if self._session is not None:
            self._session.close()
        self._session, self._steps, self._number = None, None, None
        self._objective.release(self)

    def _open_session(self) -> Session:
        if self._session is None:
            raise RunError(
                "A record must be open, got a closed one. Use `with step.record(folder)`."
            )
        if self._process != os.getpid():
            raise RunError(
                "A record must be used by the process that opened it, got a copy of that process. Take "
                "all steps in one process: the ledger would not count the others."
            )
        return self._session

    def _save(self, session: Session) -> None:
        if self._steps is not None:
            self._steps.check_frozen()
        session.save(self._next, self._state(self._next, session.ledger.branch).to_bytes())

    def _first_state(self) -> bytes:
        return self._state(0, 0).to_bytes()

    def _state(self, step: int, branch: int) -> TrainingState:
        return TrainingState(step=step, branch=branch, weights=self._step.parameters)


def _facts(step: "PrivateStep") -> TrainingFacts:
    """Return what the run is, for its ledger; its loop is not known."""
    return TrainingFacts(
        objective=step._objective,
        capped=step._capped,
        plan=step._plan,
        training={"loop": "PrivateStep", "clip": step._engine is not None},
        performance=replace(step._performance, device=str(step._encoder.device)),
        threads=torch.get_num_threads(),
        make_table=lambda: step._rows.table,
        pool=step._pool,
        has_known_loop=False,
        count_processes=lambda: step._shares.num_for_bits,
    )
