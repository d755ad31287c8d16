"""What a run tells while it runs: metrics.jsonl, other loggers, a progress bar.

A line of metrics holds the step, its branch and the learning rate. With ``log_sensitive=True`` it
also holds, under ``sensitive``, what was computed from private data without noise, and the time:
nothing of that is written anywhere without it. The file is readable by its owner only. On a CPU a
line also holds a hash of the noisy weights after the step: lines of steps that are repeated after a
crash replace the old ones, and their hashes tell whether the repetition has the same bits. If it has
not, the same noise has met another sum, and the branch must be left (theory.md section 6).

The progress bar shows rate and time left, which are sensitive too: it is for the owner's terminal.

Public inside the package: `MetricsLog`, `ReexecutionDiffers`, `progress_bar`.

>>> with progress_bar(False, first=0, stop=10, spent=lambda step: 0.0) as advance:
...     advance(1)
"""

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from torch import Tensor

from reldp.encoders.folders import state_hash
from reldp.runs.durable import disk_errors, write_durably
from reldp.runs.run_folder import RunFolder
from reldp.training.loggers import SENSITIVE, WARNING, make_loggers
from reldp.training.repeatability import is_repeatable

if TYPE_CHECKING:
    from reldp.training.config import TrainingConfig
    from reldp.training.step import StepReport

__all__ = ["MetricsLog", "ReexecutionDiffers", "progress_bar"]


class ReexecutionDiffers(Exception):
    """Control-flow signal, caught in `Trainer`: a repeated step did not give the same bits."""


class MetricsLog:
    """Appends lines of metrics; closed by ``with``."""

    def __init__(
        self, run: RunFolder, config: "TrainingConfig", first_step: int, branch: int
    ) -> None:
        """Opens the log of a run that goes on with a step; later lines are dropped."""
        self._path, self._config, self._branch = run.metrics, config, branch
        self._others = make_loggers(run, config)
        if config.logging.log_sensitive:
            _warn(config)
        found = run.read_lines(run.metrics)
        kept = [line for line in found if line["step"] < first_step]
        self._before = {
            line["step"]: line["weights"] for line in found[len(kept) :] if line["branch"] == branch
        }
        text = "".join(json.dumps(line) + "\n" for line in kept)
        write_durably(run.metrics, text.encode(), mode=0o600)
        self._file = self._path.open("a", encoding="utf-8")
        self._began = time.perf_counter()

    def write(
        self, step: int, rate: float, report: "StepReport", weights: Mapping[str, Tensor]
    ) -> None:
        """Logs a step, if it is its turn.

        Raises:
            ReexecutionDiffers: The step ran before and left other weights.
        """
        if step % self._config.logging.log_every and step not in self._before:
            return
        # Elsewhere no step is ever repeated in its branch, and copying the weights costs time.
        digest = state_hash(weights)[:16] if is_repeatable(self._config.performance.device) else ""
        if self._before.get(step, digest) != digest:
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
        for other in self._others:
            other.write(step, line)

    def _sensitive(self, report: "StepReport") -> dict[str, Any]:
        """What the step met, and when; values that are not numbers are left out."""
        facts = {**asdict(report), "seconds": round(time.perf_counter() - self._began, 3)}
        return {k: v for k, v in facts.items() if not (isinstance(v, float) and math.isnan(v))}

    def close(self) -> None:
        """Closes the file and the other loggers."""
        self._file.close()
        for other in self._others:
            other.close()

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _warn(config: "TrainingConfig") -> None:
    """Says where sensitive values go, before the first of them does."""
    places = ["metrics.jsonl", *(["TensorBoard"] if config.logging.tensorboard else [])]
    if config.logging.wandb_project is not None:
        places.append(
            f"the Weights & Biases project {config.logging.wandb_project!r}, off this machine"
        )
    print(f"Warning: {WARNING}. They go to {', '.join(places)}.", file=sys.stderr, flush=True)


@contextmanager
def progress_bar(
    shown: bool | None, first: int, stop: int, spent: Callable[[int], float]
) -> Iterator[Callable[[int], None]]:
    """Shows steps, epsilon spent so far, rate and time left (sensitive); returns what advances it.

    Args:
        shown: Whether to show it; on a terminal, if None.
        first: The first step.
        stop: The step after the last.
        spent: An upper bound on epsilon after so many steps.
    """
    if shown is False or (shown is None and not sys.stderr.isatty()):
        yield lambda step: None
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
        TextColumn("epsilon ≤ {task.fields[epsilon]}"),
        TextColumn("{task.fields[rate]} steps/s"),
        TimeRemainingColumn(),
    )
    began = time.perf_counter()
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("training", total=stop, completed=first, epsilon="...", rate="...")

        def advance(step: int) -> None:
            rate = (step - first) / max(time.perf_counter() - began, 1e-9)
            epsilon = spent(step)
            words = "∞" if math.isinf(epsilon) else f"{epsilon:.3g}"
            bar.update(task, completed=step, epsilon=words, rate=f"{rate:.3g}")

        yield advance
