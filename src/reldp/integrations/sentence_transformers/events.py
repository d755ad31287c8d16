"""Events of a private run for the callbacks of transformers.

`Events` is a callback of `reldp.Trainer`. It keeps a ``TrainerState`` and a ``TrainerControl``, and calls the user's
``TrainerCallback`` objects through transformers' own handler: train begin and end, step begin and end, log, evaluate
and save. There are no epochs, because Poisson sampling has none; ``state.epoch`` is the expected number of passes
over the public bound on the number of relations.

Logs hold the learning rate and the epsilon that is spent. Losses, norms and batch sizes are in them only with
``log_sensitive``, under names that begin with ``sensitive/``. ``on_evaluate`` gets the values of an evaluation, marked
in the same way; logs and the history get sensitive ones only with ``log_sensitive``. A stop that a callback asks for
after an evaluation with sensitive values is recorded as one that no epsilon covers.

Inside the package: `Events`, `callback_arguments`, `check_callbacks`.

>>> Events.__mro__[1].__name__
'TrainingCallback'
"""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from transformers import TrainingArguments
from transformers.trainer_callback import (
    CallbackHandler,
    DefaultFlowCallback,
    EarlyStoppingCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
)

from reldp.errors import ConfigError
from reldp.integrations.sentence_transformers.arguments import PrivateTrainingArguments, as_steps
from reldp.integrations.sentence_transformers.reporters import Reporters, is_reporter
from reldp.training.callbacks import Progress, StepRequests, TrainingCallback
from reldp.training.loggers import SENSITIVE, WARNING

__all__ = ["Events", "callback_arguments", "check_callbacks"]

logger = logging.getLogger(__name__)


class _CallbackArguments(TrainingArguments):  # type: ignore[misc]  # transformers is not typed here
    """Arguments as callbacks of transformers read them; what they send away is the run's own settings."""

    def to_dict(self) -> dict[str, Any]:
        """Return the settings of the run."""
        return dict(vars(self).get("run_settings", {}))


def callback_arguments(args: PrivateTrainingArguments, num_steps: int) -> Any:
    """Return the arguments that callbacks of transformers get."""
    made = _CallbackArguments(
        output_dir=str(args.output_dir),
        max_steps=num_steps,
        learning_rate=args.learning_rate,
        logging_strategy=args.logging_strategy,
        logging_steps=as_steps(args.logging_steps, num_steps),
        logging_first_step=args.logging_first_step,
        eval_strategy=args.eval_strategy,
        eval_steps=as_steps(args.eval_steps or args.logging_steps, num_steps),
        save_strategy=args.save_strategy,
        save_steps=as_steps(args.save_steps, num_steps),
        report_to="none",
        run_name=args.run_name,
        seed=args.seed,
        use_cpu=True,
        disable_tqdm=True,
    )
    made.run_settings = args.to_dict()
    return made


class Events(TrainingCallback):
    """The events of one trainer.

    Attributes:
        state: Steps, epochs and history, as transformers has them.
        control: What callbacks asked for.
    """

    def __init__(
        self,
        *,
        args: PrivateTrainingArguments,
        num_steps: int,
        epochs_per_step: float,
        callbacks: Sequence[Any],
        reporters: Sequence[Any],
        model: Any,
        folder: Path,
        evaluate: Callable[[], dict[str, float]],
        has_evaluator: bool,
        evaluates_sensitive: bool,
    ) -> None:
        """Join callbacks and reporters.

        Args:
            args: The run's arguments.
            num_steps: Steps of the run.
            epochs_per_step: Expected share of the relations in a step, from public sizes.
            callbacks: Callbacks of transformers: instances or classes, checked.
            reporters: Callbacks of the tools of report_to.
            model: The SentenceTransformer.
            folder: Folder of TensorBoard's files.
            evaluate: Evaluates the live model.
            has_evaluator: Whether that calls an evaluator.
            evaluates_sensitive: Whether it evaluates on private data.
        """
        self.args = callback_arguments(args, num_steps)
        self.state = TrainerState(
            max_steps=num_steps,
            logging_steps=self.args.logging_steps,
            eval_steps=self.args.eval_steps,
            save_steps=self.args.save_steps,
        )
        self.control = TrainerControl()
        self._log_sensitive = args.log_sensitive
        self._epochs_per_step, self._evaluate = epochs_per_step, evaluate
        self._evaluates_sensitive = evaluates_sensitive
        self._callbacks = [*callbacks, *reporters]
        local = [callback for callback in callbacks if not is_reporter(callback)]
        sent = [callback for callback in callbacks if is_reporter(callback)]
        self.handler = CallbackHandler(
            [DefaultFlowCallback(), *local], model, getattr(model, "tokenizer", None), None, None
        )
        sent = [*reporters, *sent]
        if sent and args.log_sensitive:
            logger.warning(f"{WARNING}. They are sent to the tools of report_to.")
        self._reporters = Reporters(sent, at_once=args.log_sensitive, folder=folder)
        self._given = {"model": model, "processing_class": self.handler.processing_class}
        self._has_code_from_outside = bool(local or sent or has_evaluator)
        self.handler.on_init_end(self.args, self.state, self.control)

    @property
    def _has_seen_sensitive(self) -> bool:
        return self.sees_sensitive or any(
            getattr(callback, "sees_sensitive", False) for callback in self._callbacks
        )

    @property
    def _runs_code_from_outside(self) -> bool:
        return self._has_code_from_outside

    def begin(self) -> None:
        """Call `on_train_begin` of all callbacks."""
        self.handler.on_train_begin(self.args, self.state, self.control)

    def end(self) -> None:
        """Call `on_train_end` of all callbacks, and send what reporters have not got."""
        self.handler.on_train_end(self.args, self.state, self.control)
        self.close()

    def close(self) -> None:
        """Send what reporters have not got."""
        self._reporters.close(self.args, self.state, self.control, **self._given)

    def on_step_begin(self, progress: Progress) -> None:
        """Call `on_step_begin`."""
        self._reach(progress)
        self.handler.on_step_begin(self.args, self.state, self.control)

    def on_step_end(self, progress: Progress, requests: StepRequests) -> None:
        """Call `on_step_end`, then log and evaluate if it is time or a callback asks for it."""
        self._reach(progress)
        self.handler.on_step_end(self.args, self.state, self.control)
        if self.control.should_log:
            self.log(self._values(progress))
        if self.control.should_evaluate:
            # Before: an evaluator sees values, and may stop the run by them.
            self.sees_sensitive = self.sees_sensitive or self._evaluates_sensitive
            self.evaluated(self._evaluate())
        requests.checkpoint = requests.checkpoint or self.control.should_save
        requests.stop = requests.stop or self.control.should_training_stop

    def on_checkpoint(self, progress: Progress) -> None:
        """Call `on_save`."""
        self._reach(progress)
        self.handler.on_save(self.args, self.state, self.control)

    def evaluated(self, metrics: dict[str, float]) -> None:
        """Log the values of an evaluation, and call `on_evaluate`; a stop after that has seen sensitive values."""
        self.sees_sensitive = self.sees_sensitive or any(map(_is_sensitive, metrics))
        self.log(metrics)
        self.handler.on_evaluate(self.args, self.state, self.control, metrics=dict(metrics))

    def log(self, values: dict[str, Any]) -> None:
        """Add values to the history and send them to callbacks; sensitive ones only if asked for."""
        shown = {k: v for k, v in values.items() if self._log_sensitive or not _is_sensitive(k)}
        if not shown:
            self.control.should_log = False
            return
        logs = {"epoch": self.state.epoch, **shown}
        self.state.log_history.append({**logs, "step": self.state.global_step})
        self.handler.on_log(self.args, self.state, self.control, logs=dict(logs))
        self._reporters.log(self.args, self.state, self.control, logs, **self._given)

    def _reach(self, progress: Progress) -> None:
        self.state.global_step = progress.step
        self.state.epoch = progress.step * self._epochs_per_step

    def _values(self, progress: Progress) -> dict[str, Any]:
        """Return what is logged of a step."""
        values: dict[str, Any] = {
            "learning_rate": progress.learning_rate,
            "epsilon": progress.epsilon,
        }
        if progress.report is not None:
            report = {f"{SENSITIVE}/{k}": float(v) for k, v in asdict(progress.report).items()}
            values |= {k: v for k, v in report.items() if not math.isnan(v)}
        return values


def _is_sensitive(name: str) -> bool:
    return name.startswith(f"{SENSITIVE}/")


def check_callbacks(callbacks: Sequence[Any]) -> None:
    """Refuse objects that are no callbacks of transformers, and those that choose by an evaluation.

    Raises:
        ConfigError: One of them is.
    """
    for callback in callbacks:
        kind = callback if isinstance(callback, type) else type(callback)
        if not issubclass(kind, TrainerCallback):
            raise ConfigError(
                f"`callbacks` must be TrainerCallback of transformers, got {kind.__name__}."
            )
        if issubclass(kind, EarlyStoppingCallback):
            raise ConfigError(
                "`callbacks` must not stop a run by its evaluation, got EarlyStoppingCallback. The moment is a "
                "release of its own, and a run that stops early has no certificate: choose max_steps."
            )
