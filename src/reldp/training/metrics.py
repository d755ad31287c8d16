"""Metrics of a run while it trains: metrics.jsonl, other loggers and a progress bar.

A line of metrics holds the step, its branch and the learning rate. With ``log_sensitive=True`` it also holds, under
``sensitive``, values computed from private data without noise, and the time. Without it, no logger receives them.
Only the owner can read the file.

On a CPU a line also holds a hash of the noisy weights after the step. A step that is executed again after a crash
replaces its line, and the hashes show whether the re-execution gave the same bits. If it did not, the same noise was
added to another sum, and the run must continue in a new branch (docs/theory.md 6).

The progress bar shows the rate and the time left, which are sensitive: it is for the owner's terminal.

Inside the package: `MetricsLog`, `ReexecutionDiffers`, `progress_bar`.

>>> with progress_bar(False, first=0, stop=10, spent=lambda step: 0.0) as advance:
...     advance(1)
"""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from torch import Tensor

from reldp._progress import begin, is_on_terminal, show_line
from reldp.encoders.folders import state_hash
from reldp.errors import RunError
from reldp.runs.durable import disk_errors, write_durably
from reldp.runs.run_folder import RunFolder
from reldp.runs.wording import shown as rounded_up
from reldp.training.log_lines import log_lines
from reldp.training.loggers import SENSITIVE, WARNING, make_loggers
from reldp.training.repeatability import is_repeatable

if TYPE_CHECKING:
    from reldp.training.config import TrainingConfig
    from reldp.training.step_report import StepReport

__all__ = ["MetricsLog", "ReexecutionDiffers", "progress_bar"]


class ReexecutionDiffers(Exception):
    """Control-flow signal, caught in `Trainer`: a step that was executed again gave other bits."""


class MetricsLog:
    """A log of metrics, one line per step; a context manager that closes it."""

    def __init__(
        self, run: RunFolder, config: "TrainingConfig", first_step: int, branch: int
    ) -> None:
        """Open the log of a run that continues with `first_step`; drop the lines of that step and later ones."""
        self._path, self._config, self._branch = run.metrics, config, branch
        self._loggers = make_loggers(run, config)
        if config.logging.log_sensitive:
            _warn(config)
        lines = _checked(run.read_lines(run.metrics))
        earlier = [line for line in lines if line["step"] < first_step]
        self._hashes = {
            line["step"]: line["weights"]
            for line in lines[len(earlier) :]
            if line["branch"] == branch
        }
        text = "".join(json.dumps(line) + "\n" for line in earlier)
        write_durably(run.metrics, text.encode(), mode=0o600)
        self._file = self._path.open("a", encoding="utf-8")
        self._began = time.perf_counter()

    @property
    def executed_until(self) -> int:
        """The step after the last one that was logged before in this branch; 0 if none was."""
        return max(self._hashes, default=-1) + 1

    def write(
        self, step: int, rate: float, report: "StepReport", weights: Mapping[str, Tensor]
    ) -> None:
        """Log a step, if `log_every` asks for it or it is executed again.

        Raises:
            ReexecutionDiffers: The step was executed before and gave other weights.
        """
        if step % self._config.logging.log_every and step not in self._hashes:
            return
        # On other devices no step is executed again in its branch, and copying the weights costs time.
        digest = state_hash(weights)[:16] if is_repeatable(self._config.performance.device) else ""
        if self._hashes.get(step, digest) != digest:
            raise ReexecutionDiffers
        line: dict[str, Any] = {
            "step": step,
            "branch": self._branch,
            "learning_rate": rate,
            "weights": digest,
        }
        if self._config.logging.log_sensitive:
            line[SENSITIVE] = self._sensitive(report)
        with disk_errors(self._path):
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        for logger in self._loggers:
            logger.write(step, line)

    def _sensitive(self, report: "StepReport") -> dict[str, Any]:
        """Return the sensitive values of a step, without those that are NaN."""
        facts = {**asdict(report), "seconds": round(time.perf_counter() - self._began, 6)}
        return {k: v for k, v in facts.items() if not (isinstance(v, float) and math.isnan(v))}

    def close(self) -> None:
        """Close the file and the other loggers."""
        self._file.close()
        for logger in self._loggers:
            logger.close()

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _warn(config: "TrainingConfig") -> None:
    """Print where sensitive values will be written, before the first one is."""
    places = ["metrics.jsonl", *(["TensorBoard"] if config.logging.tensorboard else [])]
    if config.logging.wandb_project is not None:
        places.append(
            f"the Weights & Biases project {config.logging.wandb_project!r}, off this machine"
        )
    show_line(f"Warning: {WARNING}. They are written to {', '.join(places)}.")


@contextmanager
def progress_bar(
    shown: bool | None, first: int, stop: int, spent: Callable[[int], float]
) -> Iterator[Callable[[int], None]]:
    """Show steps, epsilon so far, and rate and time left, which are sensitive; yield a function that advances it.

    Args:
        shown: Whether to show it; None shows a bar on a terminal, and plain lines elsewhere.
        first: The first step.
        stop: The step after the last one.
        spent: Returns an upper bound on epsilon after a number of steps.
    """
    if shown is False:
        yield lambda step: None
        return
    begin("training")
    if shown is None and not is_on_terminal():
        with log_lines(first, stop, spent) as advance_line:
            yield advance_line
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("epsilon <= {task.fields[epsilon]}"),
        TextColumn("{task.fields[rate]} steps/s"),
        TimeRemainingColumn(),
    )
    began = time.perf_counter()
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("training", total=stop, completed=first, epsilon="...", rate="...")

        def advance(step: int) -> None:
            rate = (step - first) / max(time.perf_counter() - began, 1e-9)
            epsilon = spent(step)
            words = "infinite" if math.isinf(epsilon) else rounded_up(epsilon)
            bar.update(task, completed=step, epsilon=words, rate=f"{rate:.3g}")

        yield advance


def _checked(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return lines that a run wrote; a missing one costs nothing, a wrong one is refused."""
    for line in lines:
        numbers = (line.get("step"), line.get("branch"))
        if not (all(type(n) is int for n in numbers) and isinstance(line.get("weights"), str)):
            raise RunError(
                "metrics.jsonl must hold the lines that the run wrote, got others. Remove the file: steps are "
                "counted in the ledger."
            )
    return lines
