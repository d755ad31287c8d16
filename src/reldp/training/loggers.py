"""TensorBoard and Weights & Biases as further receivers of the lines of metrics.jsonl.

They receive sensitive values, and the times at which lines are written, only with ``log_sensitive=True``: the time
that a step takes reveals how many tuples it drew. Without it, TensorBoard events carry the step as their time, and
Weights & Biases, which adds the time to everything it receives, gets all lines at once when training stops.

Inside the package: `Logger`, `make_loggers`, `WARNING`, `SENSITIVE`.

>>> dict(_scalars({"learning_rate": 0.1, "sensitive": {"loss": 2}}))
{'learning_rate': 0.1, 'sensitive/loss': 2.0}
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from reldp.errors import MissingDependency
from reldp.runs.durable import disk_errors

if TYPE_CHECKING:
    from reldp.runs.run_folder import RunFolder
    from reldp.training.config import LoggingSettings, TrainingConfig

__all__ = ["SENSITIVE", "WARNING", "Logger", "check_loggers", "make_loggers"]

SENSITIVE = "sensitive"
WARNING = (
    "log_sensitive is on: losses, gradient norms, batch sizes and times are computed from private "
    "data without noise, and no guarantee covers them"
)
_Line = Mapping[str, Any]


class Logger(Protocol):
    """A receiver of lines of metrics."""

    def write(self, step: int, line: _Line) -> None:
        """Receive the line of a step."""

    def close(self) -> None:
        """Stop receiving lines."""


def check_loggers(logging: "LoggingSettings") -> None:
    """Refuse loggers whose package is missing, before anything is spent.

    Raises:
        MissingDependency: It is.
    """
    if logging.tensorboard:
        _summary_writer()
    if logging.wandb_project is not None:
        _wandb()


def make_loggers(run: "RunFolder", config: "TrainingConfig") -> list[Logger]:
    """Return the loggers that a configuration asks for."""
    loggers: list[Logger] = []
    if config.logging.tensorboard:
        loggers.append(_TensorBoard(run, config.logging.log_sensitive))
    if config.logging.wandb_project is not None:
        kind = _WandbAtOnce if config.logging.log_sensitive else _WandbAtTheEnd
        loggers.append(kind(config.logging.wandb_project, run.path.name))
    return loggers


class _TensorBoard:
    """Write event files into the run folder."""

    def __init__(self, run: "RunFolder", sensitive: bool) -> None:
        make = _summary_writer()
        with disk_errors(run.tensorboard):
            # Only the owner may read it, even if others may read the run folder.
            run.tensorboard.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._events = make(run.tensorboard)
        self._sensitive = sensitive
        if sensitive:
            self._events.add_text(SENSITIVE, WARNING, 0)

    def write(self, step: int, line: _Line) -> None:
        when = None if self._sensitive else float(step)
        for name, value in _scalars(line):
            self._events.add_scalar(name, value, step, walltime=when)
        self._events.flush()

    def close(self) -> None:
        self._events.close()


class _WandbAtOnce:
    """Log to Weights & Biases step by step, with a note that the values are sensitive."""

    def __init__(self, project: str, name: str) -> None:
        self._run = _wandb().init(project=project, name=name, notes=WARNING)

    def write(self, step: int, line: _Line) -> None:
        self._run.log(dict(_scalars(line)), step=step)

    def close(self) -> None:
        self._run.finish()


class _WandbAtTheEnd:
    """Log to Weights & Biases once, when training stops."""

    def __init__(self, project: str, name: str) -> None:
        self._wandb = _wandb()
        self._settings = {"project": project, "name": name}
        self._lines: list[tuple[int, dict[str, float]]] = []

    def write(self, step: int, line: _Line) -> None:
        self._lines.append((step, dict(_scalars(line))))

    def close(self) -> None:
        run = self._wandb.init(**self._settings)
        for step, values in self._lines:
            run.log(values, step=step)
        run.finish()


def _summary_writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise MissingDependency(
            "The package tensorboard must be installed to log to it, got none. Use pip install tensorboard, or leave "
            "the setting out."
        ) from None
    return SummaryWriter


def _wandb() -> Any:
    try:
        import wandb
    except ImportError:
        raise MissingDependency(
            "The package wandb must be installed to log to it, got none. Use pip install wandb, or leave the setting "
            "out."
        ) from None
    return wandb


def _scalars(line: _Line) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a line by name; names of sensitive ones start with ``sensitive/``."""
    yield "learning_rate", line["learning_rate"]
    for name, value in line.get(SENSITIVE, {}).items():
        yield f"{SENSITIVE}/{name}", float(value)
