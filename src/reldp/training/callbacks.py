"""Callbacks of a trainer: code of the user's that runs between steps.

    class PrintEpsilon(TrainingCallback):
        def on_step_end(self, progress, requests):
            print(progress.step, progress.epsilon)

    Trainer(encoder, capped, plan, callbacks=[PrintEpsilon()]).fit("run")

A callback sees the number of steps, the learning rate and epsilon, which are public. It sees the
statistics of a step, which are sensitive, only with ``log_sensitive=True``. It may read the encoder's
weights, which have noise between steps, and must not change weights or buffers: their bits are compared around every
call (`reldp.training.weight_watch`). It may ask for a checkpoint, or for a stop after one: calling
`fit` again resumes the run. The ledger, which is public, records the steps of checkpoints, so a request must not
follow from sensitive values. A stop by a callback is recorded as one: `reldp finish` then gives the epsilon of all
planned steps, and refuses where the callback saw sensitive values: with ``log_sensitive``, or because it says so by
`sees_sensitive`. An exception of a callback is recorded as a stop too: `TrainingStopped`, and the ones that end
a loop or a process, like a stop that was asked for; any other one is taken for a mistake in the callback, and not for
a decision by sensitive values.

Public: `TrainingCallback`, `Progress`, `StepRequests`, `TrainingStopped`; inside the package `CallbackList`,
`WeightsChangedError`.

>>> StepRequests().stop
False
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reldp.errors import ConfigError, RunError
from reldp.runs.schema import CALLBACK, SENSITIVE_CALLBACK

if TYPE_CHECKING:
    from reldp.training.step_report import StepReport
    from reldp.training.weight_watch import WeightWatch

__all__ = [
    "CallbackList",
    "Progress",
    "StepRequests",
    "TrainingCallback",
    "TrainingStopped",
    "WeightsChangedError",
]


class TrainingStopped(RunError):
    """A callback stopped the run after a checkpoint; calling `fit` again resumes it."""


class WeightsChangedError(RunError):
    """A callback changed weights or buffers, which must not be saved."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run is.

    Attributes:
        step: Number of steps that were taken.
        num_steps: Number of steps of the run.
        learning_rate: Learning rate of the last step; None before it.
        report: Statistics of the last step. Sensitive: None without ``log_sensitive``.
    """

    step: int
    num_steps: int
    learning_rate: float | None = None
    report: "StepReport | None" = None
    spent: Callable[[int], float] = field(repr=False, compare=False)

    @property
    def epsilon(self) -> float:
        """An upper bound on epsilon after the steps that were taken."""
        return self.spent(self.step)


@dataclass(kw_only=True)
class StepRequests:
    """What callbacks ask for after a step.

    Attributes:
        checkpoint: Whether to save a checkpoint now.
        stop: Whether to save a checkpoint and stop.
    """

    checkpoint: bool = False
    stop: bool = False


class TrainingCallback:
    """Base class of callbacks; every method does nothing.

    Attributes:
        sees_sensitive: Whether the callback has seen sensitive values, such as evaluations on private relations that it
            made itself. Set it to True if so: a stop is then recorded as one that no epsilon covers.
    """

    sees_sensitive = False

    @property
    def _has_seen_sensitive(self) -> bool:
        """Whether a stop by it may depend on sensitive values."""
        return self.sees_sensitive

    @property
    def _runs_code_from_outside(self) -> bool:
        """Whether code that is no part of reldp runs: weights are then compared around every call."""
        is_own = type(self).__module__.startswith("reldp.")
        return not is_own or any(name.startswith("on_") for name in vars(self))

    def on_step_begin(self, progress: Progress) -> None:
        """Run before a step."""

    def on_step_end(self, progress: Progress, requests: StepRequests) -> None:
        """Run after a step; set a field of `requests` to ask for a checkpoint or a stop."""

    def on_checkpoint(self, progress: Progress) -> None:
        """Run after a checkpoint was saved."""


class CallbackList:
    """The callbacks of a trainer, called in order."""

    def __init__(self, callbacks: Sequence[TrainingCallback], *, log_sensitive: bool) -> None:
        """Take the callbacks.

        Raises:
            ConfigError: One of them is no `TrainingCallback`.
        """
        given: object = callbacks
        for callback in given if isinstance(given, list | tuple) else [given]:
            if not isinstance(callback, TrainingCallback):
                got = callback.__name__ if isinstance(callback, type) else type(callback).__name__
                raise ConfigError(
                    f"`callbacks` must be instances of reldp.training.callbacks.TrainingCallback, got {got}."
                )
        if not isinstance(given, list | tuple):
            raise ConfigError("`callbacks` must be a list, got one callback. Use [callback].")
        self._callbacks, self._log_sensitive = tuple(callbacks), log_sensitive
        self._progress = Progress(step=0, num_steps=0, spent=lambda step: 0.0)

    def begin(self, step: int, num_steps: int, spent: Callable[[int], float]) -> None:
        """Call `on_step_begin` of all."""
        self._progress = Progress(step=step, num_steps=num_steps, spent=spent)
        for callback in self._callbacks:
            callback.on_step_begin(self._progress)

    def end(self, rate: float, report: "StepReport") -> StepRequests:
        """Call `on_step_end` of all; return what they ask for."""
        self._progress = Progress(
            step=self._progress.step + 1,
            num_steps=self._progress.num_steps,
            learning_rate=rate,
            report=report if self._log_sensitive else None,
            spent=self._progress.spent,
        )
        requests = StepRequests()
        for callback in self._callbacks:
            callback.on_step_end(self._progress, requests)
        return requests

    def saved(self) -> None:
        """Call `on_checkpoint` of all."""
        for callback in self._callbacks:
            callback.on_checkpoint(self._progress)

    @property
    def run_code_from_outside(self) -> bool:
        """Whether any of them runs code that is no part of reldp."""
        return any(callback._runs_code_from_outside for callback in self._callbacks)

    def listen_to(self, event: str) -> bool:
        """Return whether any of them does something at an event, which a method is named after."""
        nothing = vars(TrainingCallback)[event]
        methods = (getattr(callback, event) for callback in self._callbacks)
        return any(getattr(method, "__func__", None) is not nothing for method in methods)

    @property
    def stopper(self) -> str:
        """What a stop by a callback is called in the ledger."""
        seen = any(callback._has_seen_sensitive for callback in self._callbacks)
        sees = self._log_sensitive or seen
        return SENSITIVE_CALLBACK if sees else CALLBACK

    @contextmanager
    def called(
        self,
        event: str,
        watch: "WeightWatch",
        is_signal: Callable[[], bool],
        save: Callable[[str], None],
    ) -> Iterator[None]:
        """Let callbacks run, which leave the weights as they are, and record an exception of one as a stop by it.

        Args:
            event: The method that is called.
            watch: Has noted the weights as they are now.
            is_signal: Returns whether the process was asked to stop by a signal, whose exception is no callback's.
            save: Writes a checkpoint with a stop by what it is given.
        """
        if not self.listen_to(event):
            yield
            return
        try:
            yield
            watch.check()
        except WeightsChangedError:
            raise
        except BaseException as error:
            watch.check()
            if not is_signal():
                is_mistake = isinstance(error, Exception)
                is_mistake = is_mistake and not isinstance(error, TrainingStopped | StopIteration)
                save(CALLBACK if is_mistake else self.stopper)
            raise

    def raise_stopped(self) -> None:
        """Raise that the run was stopped.

        Raises:
            TrainingStopped: Always.
        """
        progress = self._progress
        raise TrainingStopped(
            f"A callback stopped the run after step {progress.step} of {progress.num_steps}. Call fit "
            "again to resume it; until then it has no certificate."
        )
