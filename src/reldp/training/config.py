"""TrainingConfig: how a plan is executed. Nothing in it can change epsilon.

Everything that decides the guarantee is in `reldp.PrivacyPlan`; what is here decides how well and
how fast the encoder learns. Fields fall into three groups, which differ in what a resumed run may
change (theory.md section 6):

* *learning* settings decide what is computed: a change is refused;
* *performance* settings decide how it is computed, so bits may differ: a change opens a new branch;
* the others, such as how often to log, may change freely.

Public: `TrainingConfig`, `LEARNING`, `PERFORMANCE`; inside the package `refuse_old_names`.

>>> TrainingConfig(learning_rate=1e-3, schedule="cosine").optimizer
'adam'
>>> TrainingConfig.make({"learnin_rate": 1e-3})
Traceback (most recent call last):
reldp.errors.ConfigError: `learnin_rate` must be a training setting. Did you mean learning_rate?
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from typing import Any

from reldp.errors import ConfigError

__all__ = ["LEARNING", "PERFORMANCE", "TrainingConfig", "refuse_old_names"]

LEARNING = (
    "loss",
    "score",
    "temperature",
    "margin",
    "pairing",
    "optimizer",
    "optimizer_options",
    "learning_rate",
    "schedule",
    "warmup_steps",
    "average",
    "clip",
    "noise",
)
PERFORMANCE = ("chunk_units", "device", "precision", "replay", "threads")

SCHEDULES = ("constant", "linear", "cosine", "inverse_sqrt")
PRECISIONS = ("float32", "bfloat16")
NOISES = ("secure", "fast")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Settings of the training loop.

    Attributes:
        loss: ``"infonce"``, ``"hinge"`` or ``"logistic"``; see `reldp.encoders.RelationLoss`.
        score: ``"cosine"`` or ``"dot"``.
        temperature: Scores are divided by it.
        margin: Of the hinge loss.
        pairing: ``"one"``, ``"both"`` or ``"all"``: which pairs of a tuple the positive is
            compared with. Unless given, all for InfoNCE on negatives of the graph, else one.
        optimizer: Name of any optimizer in ``torch.optim``, such as ``"adam"`` or ``"sgd"``.
        optimizer_options: Its further arguments, such as ``{"weight_decay": 0.01}``.
        learning_rate: Of the optimizer, before the schedule.
        schedule: ``"constant"``, ``"linear"``, ``"cosine"`` or ``"inverse_sqrt"``.
        warmup_steps: Steps over which the learning rate rises from 0.
        average: Decay of an exponential average of the weights, which is then what is released;
            None releases the last weights. Averaging released weights costs no privacy.
        clip: Whether gradients are clipped; may be False only without noise, for comparison.
        noise: ``"secure"`` (cryptographic, correctly rounded), or ``"fast"`` (Philox).
        chunk_units: Clip units in one forward; chosen by their length unless given.
        device: ``"cpu"`` or ``"cuda"``.
        precision: ``"float32"``, or ``"bfloat16"`` activations; clipping is always float32.
        replay: Whether steps are recorded once and replayed (CUDA graphs): several times faster
            where a GPU waits for launches, as it does with small encoders. On a GPU only.
        threads: Of the CPU; as many as torch has unless given.
        checkpoint_every: Steps between checkpoints.
        progress: Whether to show a progress bar; on a terminal unless given.
        log_sensitive: Whether sensitive values (losses, batch sizes, norms, times) are written to
            metrics.jsonl and to every other logger that is on. No guarantee covers them.
        log_every: Steps between lines of metrics.
        tensorboard: Whether to write TensorBoard events as well.
        wandb_project: Weights & Biases project to log to as well. Without `log_sensitive` it gets
            learning rates only, when training stops.
    """

    loss: str = "infonce"
    score: str = "cosine"
    temperature: float = 0.05
    margin: float = 1.0
    pairing: str | None = None
    optimizer: str = "adam"
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    learning_rate: float = 1e-3
    schedule: str = "constant"
    warmup_steps: int = 0
    average: float | None = None
    clip: bool = True
    noise: str = "secure"
    chunk_units: int | None = None
    device: str = "cpu"
    precision: str = "float32"
    replay: bool = False
    threads: int | None = None
    checkpoint_every: int = 100
    progress: bool | None = None
    log_sensitive: bool = False
    log_every: int = 1
    tensorboard: bool = False
    wandb_project: str | None = None

    def __post_init__(self) -> None:
        rate = self.learning_rate
        _require(_is_number(rate) and rate > 0, "learning_rate", "a finite number above 0", rate)
        for name in ("checkpoint_every", "log_every"):
            _require_count(name, getattr(self, name), 1)
        _require_count("warmup_steps", self.warmup_steps, 0)
        for name in ("chunk_units", "threads"):
            if getattr(self, name) is not None:
                _require_count(name, getattr(self, name), 1)
        average = self.average
        known = average is None or (_is_number(average) and 0 < average < 1)
        _require(known, "average", "a number strictly between 0 and 1", average)
        _require_one_of("schedule", self.schedule, SCHEDULES)
        _require_one_of("precision", self.precision, PRECISIONS)
        _require_one_of("noise", self.noise, NOISES)
        for name in ("clip", "log_sensitive", "replay", "tensorboard"):
            _require(isinstance(getattr(self, name), bool), name, "true or false", None)
        _require(isinstance(self.optimizer, str), "optimizer", "a name", self.optimizer)
        options = self.optimizer_options
        _require(isinstance(options, Mapping), "optimizer_options", "a table of options", options)
        _require("lr" not in options, "optimizer_options", "without lr", "lr")
        _require(_is_plain(options), "optimizer_options", "finite numbers and texts", "others")
        object.__setattr__(self, "optimizer_options", dict(options))
        device = str(self.device)
        kind = device.partition(":")[0]
        _require(kind in ("cpu", "cuda"), "device", "cpu, cuda or cuda:N", device)
        object.__setattr__(self, "device", device)
        _require(kind == "cuda" or not self.replay, "replay", "false on a CPU", True)

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> "TrainingConfig":
        """The configuration of some settings; a misspelled name is refused with the nearest one."""
        known = [item.name for item in fields(cls)]
        refuse_old_names(settings)
        for name in settings:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f" Did you mean {near[0]}?" if near else f" There are: {', '.join(known)}."
                raise ConfigError(f"`{name}` must be a training setting.{hint}")
        return cls(**settings)

    def to_dict(self) -> dict[str, Any]:
        """All settings as plain JSON values."""
        return asdict(self)

    def part(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Some settings, by name: see `LEARNING` and `PERFORMANCE`."""
        values = self.to_dict()
        return {name: values[name] for name in names}


def refuse_old_names(settings: Iterable[str]) -> None:
    """Name the setting that took the place of one of an earlier version."""
    if "log_private" in settings:
        raise ConfigError(
            "`log_private` must be written log_sensitive: the setting was renamed, and is off unless "
            "asked for. It writes down losses, batch sizes, norms and times, which are sensitive."
        )


def _is_number(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value)  # type: ignore[arg-type]  # a number by now


def _is_plain(options: Mapping[str, Any]) -> bool:
    """Whether options can be written down, so that a resumed run is known to have the same."""
    try:
        json.dumps(dict(options), allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def _require(condition: bool, name: str, rule: str, value: object) -> None:
    if not condition:
        raise ConfigError(f"`{name}` must be {rule}, got {value!r}.")


def _require_count(name: str, value: object, least: int) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
    _require(whole, name, f"a whole number, at least {least}", value)


def _require_one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    _require(value in known, name, f"one of {', '.join(known)}", value)
