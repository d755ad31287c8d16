"""Optimizers by name, learning-rate schedules and the average of weights: all post-processing.

An optimizer receives the noisy sum divided by the public expected batch size, so nothing here costs privacy
(docs/theory.md 1, step 5). A schedule is a function of the step alone, and the state of an optimizer can be
saved as tensors and plain numbers: a resumed run continues bit for bit.

Inside the package: `make_optimizer`, `optimizer_class`, `learning_rate`, `WeightAverage`, `optimizer_state`,
`load_optimizer_state`.

>>> [round(learning_rate("linear", 1.0, step, 10, 2), 2) for step in (0, 1, 2, 9)]
[0.5, 1.0, 1.0, 0.12]
"""

import inspect
import math
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from reldp._validate import check_choice
from reldp.errors import ConfigError, ResumeError

__all__ = [
    "WeightAverage",
    "learning_rate",
    "load_optimizer_state",
    "make_optimizer",
    "optimizer_class",
    "optimizer_state",
]

# LBFGS needs a closure and SparseAdam sparse gradients; a noisy sum has neither.
_LONGEST = 80
_UNFIT = ("LBFGS", "SparseAdam", "Optimizer")


def optimizer_class(name: str) -> Any:
    """Return the optimizer of ``torch.optim`` with that name; upper and lower case are the same."""
    known = {
        word.lower(): kind
        for word, kind in vars(torch.optim).items()
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and word not in _UNFIT
    }
    return known[check_choice("optimizer", name.lower(), sorted(known), error=ConfigError)]


def make_optimizer(
    name: str, parameters: Iterable[nn.Parameter], rate: float, options: Mapping[str, Any]
) -> torch.optim.Optimizer:
    """Return the optimizer of that name with its options."""
    kind = optimizer_class(name)
    _check_numbers(kind, name, options)
    try:
        made: torch.optim.Optimizer = kind(list(parameters), lr=rate, **options)
    except Exception as error:  # whatever torch makes of a wrong type or length
        raise _misfit(name, options, error) from None
    return made


def check_optimizer(name: str, options: Mapping[str, Any]) -> None:
    """Refuse a name or options that torch refuses, when the optimizer is made or when it takes a step."""
    parameter = nn.Parameter(torch.zeros(2, 2))
    optimizer = make_optimizer(name, [parameter], 1e-3, options)
    parameter.grad = torch.zeros(2, 2)
    try:
        optimizer.step()
    except Exception as error:  # whatever torch makes of a wrong type
        raise _misfit(name, options, error) from None


def _check_numbers(kind: Any, name: str, options: Mapping[str, Any]) -> None:
    """Refuse options that are no numbers where the optimizer's defaults are numbers: torch would compare them."""
    parameters = inspect.signature(kind).parameters
    for option, value in options.items():
        default = parameters[option].default if option in parameters else None
        if _is_number(default):
            is_fit, rule = _is_number(value), "a number"
        elif isinstance(default, tuple) and all(map(_is_number, default)):
            is_fit = _is_list_of_numbers(value, len(default))
            rule = f"a list of {len(default)} numbers"
        else:
            continue
        if not is_fit:
            raise ConfigError(
                f"`optimizer_options` must fit {name}, got {option}={value!r:.{_LONGEST}}: {option} must be {rule}."
            )


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_list_of_numbers(value: object, length: int) -> bool:
    return isinstance(value, list | tuple) and len(value) == length and all(map(_is_number, value))


def _misfit(name: str, options: Mapping[str, Any], error: Exception) -> ConfigError:
    """Return the error for options that torch refuses."""
    reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    given = ", ".join(f"{option}={value!r}" for option, value in options.items())
    return ConfigError(
        f"`optimizer_options` must fit {name}, got {given[:_LONGEST] or 'none'}: {reason}."
    )


def learning_rate(schedule: str, rate: float, step: int, num_steps: int, warmup: int) -> float:
    """Return the learning rate of one step: warmup from 0, then the schedule over the remaining steps."""
    if step < warmup:
        return rate * (step + 1) / warmup
    share = (step - warmup) / max(num_steps - warmup, 1)  # in [0, 1)
    if schedule == "linear":
        return rate * (1.0 - share)
    if schedule == "cosine":
        return rate * 0.5 * (1.0 + math.cos(math.pi * share))
    if schedule == "inverse_sqrt":
        return rate * math.sqrt(max(warmup, 1) / max(step, warmup, 1))
    return rate


class WeightAverage:
    """An exponential average of weights, with a smaller decay in the first steps."""

    def __init__(self, decay: float, weights: Mapping[str, Tensor]) -> None:
        self._decay = decay
        self.values = {name: value.detach().clone() for name, value in weights.items()}

    def update(self, weights: Mapping[str, Tensor], step: int) -> None:
        """Add the weights after a step to the average."""
        decay = min(self._decay, (1 + step) / (10 + step))
        with torch.no_grad():
            for name, value in weights.items():
                self.values[name].lerp_(value.detach(), 1.0 - decay)


def optimizer_state(
    optimizer: torch.optim.Optimizer, names: list[str]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the state as tensors and as plain numbers, both under ``parameter/entry``."""
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, Any] = {}
    for index, entries in optimizer.state_dict()["state"].items():
        for key, value in entries.items():
            entry = f"{names[index]}/{key}"
            if isinstance(value, Tensor):
                tensors[entry] = value.detach().cpu().clone()
            else:
                numbers[entry] = value
    return tensors, numbers


def load_optimizer_state(
    optimizer: torch.optim.Optimizer,
    names: list[str],
    tensors: Mapping[str, Tensor],
    numbers: Mapping[str, Any],
) -> None:
    """Load the state that `optimizer_state` returned into a new optimizer."""
    state: dict[int, dict[str, Any]] = {}
    for entry, value in {**tensors, **numbers}.items():
        name, _, key = entry.rpartition("/")
        if name not in names:
            raise ResumeError(f"The checkpoint must fit the encoder, got a state for {name!r}.")
        state.setdefault(names.index(name), {})[key] = value
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
