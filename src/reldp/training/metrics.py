"""What a run tells while it runs: a progress bar, metrics.jsonl, TensorBoard, Weights & Biases.

A line of metrics holds the step, its branch, the learning rate and, under ``not_private``, what was
computed from private data without noise; that part is left out with ``log_private=False``. The file
is readable by its owner only. On a CPU a line also holds a hash of the weights after the step: lines
of steps that are repeated after a crash replace the old ones, and their hashes tell whether the
repetition is bitwise identical. If it is not, the same noise has met another sum, and the branch
must be left (theory.md section 6).

Public inside the package: `MetricsLog`, `ReplayDiffers`, `progress_bar`.

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

from reldp.durable import disk_errors, write_durably
from reldp.encoders.folders import state_hash
from reldp.errors import MissingDependency
from reldp.reporting.run_folder import RunFolder
from reldp.training.repeatability import is_repeatable

if TYPE_CHECKING:
    from reldp.training.config import TrainingConfig
    from reldp.training.step import StepReport

__all__ = ["MetricsLog", "ReplayDiffers", "progress_bar"]

_MARK = "not_private"


class ReplayDiffers(Exception):  # a turn that training takes, no error of anybody's
    """A repeated step did not give the bits that it gave before."""


class MetricsLog:
    """Appends lines of metrics; closed by ``with``."""

    def __init__(
        self, run: RunFolder, config: "TrainingConfig", first_step: int, branch: int
    ) -> None:
        """Opens the log of a run that goes on with a step; later lines are dropped."""
        self._path, self._config, self._branch = run.metrics, config, branch
        self._others = _other_writers(run, config)
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
            ReplayDiffers: The step ran before and left other weights.
        """
        if step % self._config.log_every and step not in self._before:
            return
        # Elsewhere no step is ever repeated in its branch, and copying the weights costs time.
        digest = state_hash(weights)[:16] if is_repeatable(self._config.device) else ""
        if self._before.get(step, digest) != digest:
            raise ReplayDiffers
        line: dict[str, Any] = {
            "step": step,
            "branch": self._branch,
            "learning_rate": rate,
            "weights": digest,
            "seconds": round(time.perf_counter() - self._began, 3),
        }
        if self._config.log_private:
            facts = asdict(report).items()
            line[_MARK] = {k: v for k, v in facts if not (isinstance(v, float) and math.isnan(v))}
        with disk_errors(self._path):
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        for write in self._others:
            write(step, line)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _other_writers(
    run: RunFolder, config: "TrainingConfig"
) -> list[Callable[[int, dict[str, Any]], None]]:
    """TensorBoard and Weights & Biases, where asked for."""
    writers: list[Callable[[int, dict[str, Any]], None]] = []
    if config.tensorboard:
        writers.append(_tensorboard(run))
    if config.wandb_project is not None:
        writers.append(_wandb(config.wandb_project, run.path.name))
    return writers


def _tensorboard(run: RunFolder) -> Callable[[int, dict[str, Any]], None]:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingDependency("`tensorboard` must be installed to log to it.") from error
    make: Any = SummaryWriter
    events = make(run.path / "tensorboard")

    def write(step: int, line: dict[str, Any]) -> None:
        for name, value in _scalars(line):
            events.add_scalar(name, value, step)
        events.flush()

    return write


def _wandb(project: str, name: str) -> Callable[[int, dict[str, Any]], None]:
    try:
        import wandb
    except ImportError as error:
        raise MissingDependency("`wandb` must be installed to log to it.") from error
    started = wandb.init(project=project, name=name)
    return lambda step, line: started.log(dict(_scalars(line)), step=step)


def _scalars(line: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a line; those that are not private say so in their name."""
    yield "learning_rate", line["learning_rate"]
    for name, value in line.get(_MARK, {}).items():
        yield f"{_MARK}/{name}", float(value)


@contextmanager
def progress_bar(
    shown: bool | None, first: int, stop: int, spent: Callable[[int], float]
) -> Iterator[Callable[[int], None]]:
    """Shows steps, epsilon spent so far, rate and time left; hands out what advances it.

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
