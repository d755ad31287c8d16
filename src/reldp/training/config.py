"""Settings of a training run besides the privacy plan: learning, performance and logging, one class each.

Everything that decides the guarantee is in `reldp.PrivacyPlan`. No setting here changes epsilon or the plan. The
three classes differ in what a resumed run may change (docs/theory.md 6):

* `LearningSettings` decide what is computed: a change is refused;
* `PerformanceSettings` decide how it is computed, so bits may differ: a change opens a new branch. The
  exceptions are the noise generator, which the certificate names: a change of it is refused; and when texts are
  tokenized, which changes no bit;
* `LoggingSettings` decide what is written and how often: they may change freely.

`TrainingConfig` joins the three. `TrainingConfig.make` takes their fields by name, in any order.

Public: `LearningSettings`, `PerformanceSettings`, `LoggingSettings`, `TrainingConfig`; inside the package
`SETTINGS` and `refuse_old_names`.

>>> config = TrainingConfig.make(learning_rate=0.002, schedule="cosine", threads=2)
>>> config.learning.schedule, config.performance.threads, config.logging.checkpoint_every
('cosine', 2, 100)
>>> TrainingConfig.make(learnin_rate=0.001)
Traceback (most recent call last):
reldp.errors.ConfigError: `learnin_rate` must be a training setting. Did you mean learning_rate?
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from reldp._validate import (
    DEVICES,
    NOISE_GENERATORS,
    PRECISIONS,
    SCHEDULES,
    TOKENIZE,
    check,
    check_choice,
    check_flag,
    check_integer,
    check_name,
    check_number,
    check_text,
)
from reldp.errors import ConfigError
from reldp.losses.settings import LossSettings

__all__ = [
    "SETTINGS",
    "LearningSettings",
    "LoggingSettings",
    "PerformanceSettings",
    "TrainingConfig",
    "refuse_old_names",
]


@dataclass(frozen=True, kw_only=True)
class LearningSettings:
    """What a run computes, besides the plan.

    Attributes:
        loss: ``"infonce"``, ``"hinge"``, ``"logistic"``, ``"triplet"`` or ``"cosine"``; for relations with types
            also ``"distmult"``, ``"complex"`` or ``"transe"``.
        score: Similarity of two embeddings: ``"cosine"`` or ``"dot"``; of infonce, hinge and logistic. Typed losses
            divide embeddings by their lengths with ``"cosine"``.
        temperature: Every score is divided by it; of infonce, hinge, logistic and typed losses.
        margin: Margin of hinge, triplet and cosine; None takes 1, and 0.2 for cosine.
        pairing: Pairs of a tuple that the positive is compared with: ``"one"``, ``"both"``, ``"all"`` or
            ``"relations"``. None takes relations for InfoNCE on negatives that are relations, all for InfoNCE on
            other negatives of the graph, both for typed losses, and one otherwise.
        matryoshka_dims: Embedding sizes over which the loss is summed, so that the first numbers of an embedding
            are useful alone; None takes the full size only.
        objective: How typed losses compare scores: ``"infonce"``, ``"logistic"`` or ``"hinge"``; None takes infonce.
        distance: ``"l2"`` or ``"l1"``, of transe; None takes l2.
        optimizer: Name of an optimizer in ``torch.optim``, such as ``"adam"`` or ``"sgd"``.
        optimizer_options: Further arguments of the optimizer, such as ``{"weight_decay": 0.01}``.
        learning_rate: Learning rate before the schedule.
        schedule: ``"constant"``, ``"linear"``, ``"cosine"`` or ``"inverse_sqrt"``.
        warmup_steps: Steps over which the learning rate rises from 0.
        average: Decay of an exponential average of the weights, which is then released; None releases the last
            weights. Averaging noisy weights is post-processing and costs no privacy.
        clip: Whether gradients are clipped. May be False only without noise, for comparison.
    """

    loss: str = LossSettings.loss
    score: str = LossSettings.score
    temperature: float = LossSettings.temperature
    margin: float | None = LossSettings.margin
    pairing: str | None = None
    matryoshka_dims: Sequence[int] | None = LossSettings.matryoshka_dims
    objective: str | None = LossSettings.objective
    distance: str | None = LossSettings.distance
    optimizer: str = "adam"
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    learning_rate: float = 1e-3
    schedule: str = "constant"
    warmup_steps: int = 0
    average: float | None = None
    clip: bool = True

    def __post_init__(self) -> None:
        self.loss_settings(LossSettings.pairing)
        rate = self.learning_rate
        check_number("learning_rate", rate, above=0, high=_MAX_RATE, error=ConfigError)
        check_text("optimizer", self.optimizer, error=ConfigError)
        check_choice("schedule", self.schedule, SCHEDULES, error=ConfigError)
        check_integer("warmup_steps", self.warmup_steps, error=ConfigError)
        if self.average is not None:
            check_number("average", self.average, above=0, below=1, error=ConfigError)
        check_flag("clip", self.clip, error=ConfigError)
        self._check_options()

    def loss_settings(self, default_pairing: str) -> LossSettings:
        """Return the settings of the loss, with this pairing unless one is given."""
        return LossSettings(
            loss=self.loss,
            score=self.score,
            temperature=self.temperature,
            margin=self.margin,
            pairing=default_pairing if self.pairing is None else self.pairing,
            matryoshka_dims=self.matryoshka_dims,
            objective=self.objective,
            distance=self.distance,
        )

    def _check_options(self) -> None:
        """Copy the optimizer's options, which must be plain values."""
        name, options = "optimizer_options", self.optimizer_options
        check(isinstance(options, Mapping), name, "a table of options", options, error=ConfigError)
        check("lr" not in options, name, "without lr", "lr", error=ConfigError, fix=_USE_RATE)
        # A resumed run compares them with those in the ledger.
        plain = _is_json(options)
        check(plain, name, "finite numbers and texts", options, error=ConfigError)
        object.__setattr__(self, name, dict(options))


@dataclass(frozen=True, kw_only=True)
class PerformanceSettings:
    """How a run computes: speed, memory and rounding, never epsilon.

    Attributes:
        noise_generator: ``"secure"`` (cryptographic, correctly rounded), or ``"fast"`` (Philox).
        microbatch_units: Clip units in one forward pass; None chooses by their length.
        device: ``"cpu"``, ``"cuda"`` or ``"cuda:N"``. None takes the GPU if there is one, else the CPU; after
            construction it is always the name of a device.
        precision: ``"float32"``, or ``"bfloat16"`` activations; norms, clipping and sums are float64 in any case.
        cuda_graphs: Whether steps are captured as CUDA graphs and replayed: several times faster where a GPU waits
            for kernel launches, as it does with small encoders. On a GPU only.
        threads: Number of CPU threads; None takes as many as torch has.
        tokenize: When the texts of a graph store are tokenized: ``"ahead"``, once, into files beside it, or ``"on the
            fly"``, as steps need them. The tokens are the same, so a resumed run may change it. None takes the files if
            they are there or the store has at most a million entities. Without effect on graphs in memory.
        shard_weights: Whether each process of torchrun holds only a part of the frozen weights of a text model, and
            gathers a layer where it is needed. With ``train="lora"`` only.
        checkpoint_activations: Whether the layers of a text model compute their activations again in the backward
            pass, to save memory.
    """

    noise_generator: str = "secure"
    microbatch_units: int | None = None
    device: str = None  # type: ignore[assignment]  # None becomes the name of a device
    precision: str = "float32"
    cuda_graphs: bool = False
    threads: int | None = None
    tokenize: str | None = None
    shard_weights: bool = False
    checkpoint_activations: bool = False

    def __post_init__(self) -> None:
        for name in ("shard_weights", "checkpoint_activations"):
            check_flag(name, getattr(self, name), error=ConfigError)
        plain = self.precision == "float32" and not self.cuda_graphs
        if self.shard_weights and not plain:
            raise ConfigError(
                "`shard_weights` must be used with precision float32 and without cuda_graphs, got another setting. "
                'Load the model with dtype="bfloat16" for weights and activations of half the size.'
            )
        check_choice("noise_generator", self.noise_generator, NOISE_GENERATORS, error=ConfigError)
        check_choice("precision", self.precision, PRECISIONS, error=ConfigError)
        if self.tokenize is not None:
            check_choice("tokenize", self.tokenize, TOKENIZE, error=ConfigError)
        for name in ("microbatch_units", "threads"):
            if getattr(self, name) is not None:
                check_integer(
                    name, getattr(self, name), low=1, high=_LARGEST[name], error=ConfigError
                )
        device = _default_device() if self.device is None else str(self.device)
        kind = device.partition(":")[0]
        check(kind in DEVICES, "device", "cpu, cuda or cuda:N", device, error=ConfigError)
        object.__setattr__(self, "device", device)
        check_flag("cuda_graphs", self.cuda_graphs, error=ConfigError)
        on_gpu = kind == "cuda" or not self.cuda_graphs
        check(on_gpu, "cuda_graphs", "false on a CPU", True, error=ConfigError)


@dataclass(frozen=True, kw_only=True)
class LoggingSettings:
    """What a run writes besides the model, and how often.

    Attributes:
        checkpoint_every: Steps between checkpoints.
        checkpoint_minutes: Minutes of work that a kill may lose: checkpoints are saved more often than
            `checkpoint_every` where steps are slow. 0 saves by steps alone.
        progress: Whether to show a progress bar; None shows it on a terminal, and a line every 30 seconds elsewhere.
        log_sensitive: Whether sensitive values (losses, batch sizes, norms, times) are written to metrics.jsonl and
            to every other logger that is on. No guarantee covers them.
        log_every: Steps between lines of metrics.
        tensorboard: Whether to write TensorBoard events as well.
        wandb_project: Weights & Biases project to log to as well. Without `log_sensitive` it receives learning
            rates only, when training stops.
    """

    checkpoint_every: int = 100
    checkpoint_minutes: float = 5.0
    progress: bool | None = None
    log_sensitive: bool = False
    log_every: int = 1
    tensorboard: bool = False
    wandb_project: str | None = None

    def __post_init__(self) -> None:
        for name in ("checkpoint_every", "log_every"):
            check_integer(name, getattr(self, name), low=1, error=ConfigError)
        check_number("checkpoint_minutes", self.checkpoint_minutes, low=0, error=ConfigError)
        for name in ("log_sensitive", "tensorboard"):
            check_flag(name, getattr(self, name), error=ConfigError)
        if self.progress is not None:
            check_flag("progress", self.progress, error=ConfigError)
        if self.wandb_project is not None:
            check_text("wandb_project", self.wandb_project, error=ConfigError)


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """All settings of a run besides the plan; `make` takes them by name.

    Attributes:
        learning: What is computed.
        performance: How it is computed.
        logging: What is written, and how often.
    """

    learning: LearningSettings = field(default_factory=LearningSettings)
    performance: PerformanceSettings = field(default_factory=PerformanceSettings)
    logging: LoggingSettings = field(default_factory=LoggingSettings)

    @classmethod
    def make(cls, **settings: Any) -> "TrainingConfig":
        """Return the configuration with some settings, by the names that the three classes give them.

        Raises:
            ConfigError: A name is unknown (the message has the nearest one), or a value breaks its rule.
        """
        refuse_old_names(settings)
        parts: dict[str, dict[str, Any]] = {part: {} for part in SETTINGS}
        for name, value in settings.items():
            check_name(name, _PART_OF, "a training setting", error=ConfigError)
            parts[_PART_OF[name]][name] = value
        return cls(**{part: SETTINGS[part](**values) for part, values in parts.items()})

    def to_dict(self) -> dict[str, Any]:
        """Return all settings by name, as plain JSON values."""
        return {name: value for part in asdict(self).values() for name, value in part.items()}


SETTINGS: Mapping[str, type] = {
    "learning": LearningSettings,
    "performance": PerformanceSettings,
    "logging": LoggingSettings,
}
"""The classes of settings, by the part of `TrainingConfig` and the section of a recipe."""

_PART_OF = {item.name: part for part, kind in SETTINGS.items() for item in fields(kind)}
_LARGEST = {"microbatch_units": 2**16, "threads": 1024}
_USE_RATE = "Use learning_rate."
_MAX_RATE = 1e30  # optimizers multiply it by up to a few powers of ten, in the range of float32
_OLD_NAMES = {
    "chunk_units": "microbatch_units",
    "log_private": "log_sensitive",
    "noise": "noise_generator",
    "replay": "cuda_graphs",
}


def refuse_old_names(settings: Iterable[str]) -> None:
    """Raise an error that names the setting which took the place of one of an earlier version."""
    for name in settings:
        if name in _OLD_NAMES:
            raise ConfigError(
                f"`{name}` must be written {_OLD_NAMES[name]}: the setting was renamed."
            )


def _default_device() -> str:
    # Imported here: the package of encoders loads torch, which settings must not.
    from reldp.encoders.device import default_device

    return default_device()


def _is_json(options: Mapping[str, Any]) -> bool:
    """Whether JSON can hold the options."""
    try:
        json.dumps(dict(options), allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
