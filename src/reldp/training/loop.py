"""The steps of one session of a trainer: draw, sum, noise, optimizer, callbacks, checkpoints.

Every step is counted in the ledger before it runs. When checkpoints are saved follows from public numbers. A first
Ctrl-C, SIGTERM or SIGHUP, or a callback, ends the session after a checkpoint.

Private to the package: `TrainingLoop`, used by `reldp.training.trainer`.

>>> TrainingLoop.run.__doc__.split(";")[0]
'Take every step that is left'
"""

from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from reldp.runs.session import Session
from reldp.training.checkpoint_schedule import checkpoint_schedule
from reldp.training.counted_steps import BLOCK, CountedSteps, spent_after
from reldp.training.metrics import progress_bar
from reldp.training.optimizers import (
    WeightAverage,
    learning_rate,
    load_optimizer_state,
    make_optimizer,
    optimizer_state,
)
from reldp.training.repeatability import is_repeatable, no_random_numbers
from reldp.training.selection import Chosen
from reldp.training.shared_run import SharedLog
from reldp.training.state import TrainingState
from reldp.training.step import PrivateStep
from reldp.training.stopping import stop_requests
from reldp.training.weight_watch import WeightWatch

if TYPE_CHECKING:
    from reldp.training.trainer import Trainer

__all__ = ["TrainingLoop"]


class TrainingLoop:
    """The steps of one session."""

    def __init__(
        self, trainer: "Trainer", session: Session, step: PrivateStep, watch: WeightWatch
    ) -> None:
        self._plan, self._config, self._callbacks = trainer.plan, trainer.config, trainer._callbacks
        self._processes = trainer._processes
        self._objective, self._session, self._step = trainer._objective, session, step
        self._selection, self._chosen = trainer._selection, Chosen()
        self._names = list(step.parameters)
        self._optimizer = make_optimizer(
            self._config.learning.optimizer,
            step.parameters.values(),
            self._config.learning.learning_rate,
            self._config.learning.optimizer_options,
        )
        self._steps = CountedSteps(step, session, self._plan, clip=self._config.learning.clip)
        with no_random_numbers():
            self._schedule = checkpoint_schedule(self._config.logging, step)
        self._average: WeightAverage | None = None
        self._restore(TrainingState.from_bytes(session.read_checkpoint()))
        self._watch = watch
        watch.note_trained()

    def _restore(self, state: TrainingState) -> None:
        self._objective.load(state.weights)
        self._chosen = Chosen.of(state)
        if state.optimizer or state.numbers:
            load_optimizer_state(self._optimizer, self._names, state.optimizer, state.numbers)
        if self._config.learning.average is not None:
            device = self._objective.encoder.device
            on_device = {name: value.to(device) for name, value in state.current.items()}
            self._average = WeightAverage(self._config.learning.average, on_device)

    def run(self) -> None:
        """Take every step that is left; a first Ctrl-C, SIGTERM or SIGHUP stops after a checkpoint."""
        first, stop = self._session.next_step, self._session.stop
        branch = self._session.ledger.branch
        config, processes = self._config, self._processes
        spent = spent_after(self._plan, self._session)
        shown = config.logging.progress if processes.is_first else False
        with (
            stop_requests() as asked_to_stop,
            SharedLog(processes, self._session, config, asked_to_stop) as log,
            progress_bar(shown, first, stop, spent) as advance,
        ):

            def calls(event: str, step: int) -> AbstractContextManager[None]:
                save = partial(self._save_stop, step, branch)
                return self._callbacks.called(event, self._watch, asked_to_stop, save)

            for step in range(first, stop):
                self._reserve(step)
                with calls("on_step_begin", step):
                    self._callbacks.begin(step, stop, spent)
                rate, report = self._take(step)
                log.write(step, rate, report, self._step.parameters)
                advance(step + 1)
                self._choose(step + 1, stop)
                self._watch.note_trained()
                with calls("on_step_end", step + 1):
                    asked = self._callbacks.end(rate, report)
                asked = log.agreed(asked)
                due = self._schedule.is_due(step + 1, stop)
                must_stop = log.must_stop
                if due or asked.checkpoint or asked.stop or must_stop:
                    by = self._callbacks.stopper if asked.stop and step + 1 < stop else None
                    self._watch.check_beside()
                    self._steps.check_frozen()
                    state = self._state(step + 1, branch)
                    self._session.save(step + 1, state.to_bytes(), stopped_by=by)
                    with calls("on_checkpoint", step + 1):
                        self._callbacks.saved()
                if must_stop and step + 1 < stop:
                    raise KeyboardInterrupt
                if asked.stop and step + 1 < stop:
                    self._callbacks.raise_stopped()
        self._watch.check_beside()  # before anything is released
        self._steps.check_frozen()

    def _save_stop(self, step: int, branch: int, by: str) -> None:
        self._session.save_stop(step, self._state(step, branch).to_bytes(), stopped_by=by)

    def _reserve(self, step: int) -> None:
        """Count the next steps before the first of them runs."""
        repeated = is_repeatable(self._config.performance.device)
        block = self._schedule.steps_to_next(step) if repeated else BLOCK
        self._steps.reserve(step, min(block, self._config.logging.checkpoint_every))

    def _take(self, step: int) -> tuple[float, Any]:
        """One step: batch, noisy gradient, optimizer."""
        report = self._steps.take(step)
        config = self._config
        rate = learning_rate(
            config.learning.schedule,
            config.learning.learning_rate,
            step,
            self._plan.num_steps,
            config.learning.warmup_steps,
        )
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        if self._average is not None:
            self._average.update(self._step.parameters, step)
        return rate, report

    def _choose(self, step: int, stop: int) -> None:
        """Keep the weights if they are the best ones on the public graph."""
        if self._selection is not None and self._selection.is_due(step, stop):
            average = None if self._average is None else self._average.values
            current = self._step.parameters if average is None else average
            self._chosen = self._selection.better(self._chosen, step, self._objective, current)

    def _state(self, step: int, branch: int) -> TrainingState:
        tensors, numbers = optimizer_state(self._optimizer, self._names)
        return TrainingState(
            step=step,
            branch=branch,
            weights=dict(self._step.parameters),
            optimizer=tensors,
            numbers=numbers,
            average={} if self._average is None else self._average.values,
            best=self._chosen.weights,
            chosen=self._chosen.facts,
        )
