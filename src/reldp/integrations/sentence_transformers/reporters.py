"""TensorBoard, Weights & Biases and MLflow, through the callbacks of transformers.

They get the learning rate, the steps and the epsilon that is spent. The time at which a step ends reveals how many
tuples it drew, and these tools stamp everything with the time, so without ``log_sensitive`` they get all logs at once
when training stops. With it, they get every log at once, losses and batch sizes included, under names that begin with
``sensitive/``. A callback of ``transformers.integrations`` in the list of callbacks is treated alike.

Inside the package: `Reporters`, `make_reporters`, `is_reporter`.

>>> make_reporters([])
[]
"""

import copy
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from reldp.errors import MissingDependency
from reldp.training.loggers import SENSITIVE

__all__ = ["Reporters", "is_reporter", "make_reporters"]

# Packages of which one is enough.
_PACKAGES = {
    "tensorboard": ("tensorboard", "tensorboardX"),
    "wandb": ("wandb",),
    "mlflow": ("mlflow", "mlflow_skinny"),
}


def make_reporters(names: Sequence[str]) -> list[Any]:
    """Return the callbacks of transformers for the tools that are named.

    Raises:
        MissingDependency: One of the tools is not installed.
    """
    if not names:
        return []
    from transformers.integrations import get_reporting_integration_callbacks

    for name in names:
        if not any(find_spec(package) for package in _PACKAGES[name]):
            raise MissingDependency(f"`{name}` must be installed to report to it.")
    return [kind() for kind in get_reporting_integration_callbacks(list(names))]


def is_reporter(callback: Any) -> bool:
    """Return whether a callback, or a class of callbacks, sends logs to a tool."""
    kind = callback if isinstance(callback, type) else type(callback)
    return any(base.__module__.startswith("transformers.integrations") for base in kind.__mro__)


class Reporters:
    """The callbacks that send logs to tools."""

    def __init__(self, callbacks: Sequence[Any], *, at_once: bool, folder: Path) -> None:
        """Take the callbacks.

        Args:
            callbacks: Instances or classes.
            at_once: Whether they get every log when it is made, and sensitive values.
            folder: Folder of TensorBoard's files, unless its callback has one.
        """
        self._callbacks = [cb() if isinstance(cb, type) else cb for cb in callbacks]
        self._at_once, self._folder = at_once, folder
        self._logs: list[tuple[Any, dict[str, Any]]] = []
        self._has_begun = False
        self._started: list[Any] = []

    def log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **given: Any) -> None:
        """Send logs, now or when training stops; sensitive values only if asked for."""
        if not self._callbacks:
            return
        if not self._at_once:
            public = {k: v for k, v in logs.items() if not k.startswith(f"{SENSITIVE}/")}
            self._logs.append((_moment(state), public))
            return
        self._begin(args, state, control, given)
        self._send(args, state, control, logs, given)

    def close(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Send what was kept, and tell the tools that training stopped."""
        if not self._callbacks or not (self._logs or self._has_begun):
            return
        self._begin(args, state, control, given)
        for moment, logs in self._logs:
            self._send(args, moment, control, logs, given)
        self._logs, self._has_begun = [], False
        for callback in self._callbacks:
            callback.on_train_end(args, _moment(state), control, **given)
        for tool in self._started:
            # An open run of Weights & Biases goes on sending what the program prints.
            tool.finish()
        self._started = []

    def _begin(self, args: Any, state: Any, control: Any, given: dict[str, Any]) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        tools = [getattr(callback, "_wandb", None) for callback in self._callbacks]
        self._started = [tool for tool in tools if tool is not None and tool.run is None]
        for callback in self._callbacks:
            if hasattr(callback, "tb_writer") and callback.logging_dir is None:
                # Only the owner may read it, even if others may read the run folder.
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                callback.logging_dir = str(self._folder)
            callback.on_train_begin(args, _moment(state), control, **given)

    def _send(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any], given: dict[str, Any]
    ) -> None:
        for callback in self._callbacks:
            callback.on_log(args, _moment(state), control, logs=dict(logs), **given)


def _moment(state: Any) -> Any:
    """Return a copy of the state, which goes on changing."""
    moment = copy.copy(state)
    moment.log_history = list(state.log_history)
    return moment
