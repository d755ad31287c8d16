"""PrivateTrainingArguments: the names that users of sentence-transformers know, and those of the guarantee.

    args = PrivateTrainingArguments(output_dir="run", target_epsilon=4.0, num_train_epochs=2, warmup_ratio=0.1)

Arguments that cannot be had under the guarantee are refused with a sentence (`refusals`). Everything here
is public: no argument is computed from the data.

Public: `PrivateTrainingArguments`.

>>> PrivateTrainingArguments(output_dir="run", target_epsilon=4.0).expected_steps(1000, 10.0) is None
True
>>> PrivateTrainingArguments(output_dir="run", target_epsilon=4.0, num_train_epochs=2).expected_steps(1000, 10.0)
200
>>> PrivateTrainingArguments(output_dir="run", gradient_accumulation_steps=4)
Traceback (most recent call last):
reldp.errors.ConfigError: `gradient_accumulation_steps` must be left out, got 4. A step is one draw, ...
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from reldp._validate import (
    check,
    check_choice,
    check_flag,
    check_integer,
    check_name,
    check_number,
    check_text,
)
from reldp.encoders.adaptation import Adaptation
from reldp.errors import ConfigError
from reldp.integrations.sentence_transformers.refusals import (
    ARGUMENTS,
    WITHOUT_EFFECT,
    refuse_argument,
)

__all__ = ["PrivateTrainingArguments"]

_Class = TypeVar("_Class")
# Names of transformers for the optimizers of torch and for the schedules of reldp.
OPTIMIZERS = {
    "adamw_torch": "adamw",
    "adamw_torch_fused": "adamw",
    "adamw_hf": "adamw",
    "adamw": "adamw",
    "adam": "adam",
    "sgd": "sgd",
    "adagrad": "adagrad",
    "rmsprop": "rmsprop",
}
SCHEDULES = {
    "constant": "constant",
    "constant_with_warmup": "constant",
    "linear": "linear",
    "cosine": "cosine",
    "inverse_sqrt": "inverse_sqrt",
}
REPORTERS = ("none", "tensorboard", "wandb", "mlflow")
_STRATEGIES = ("no", "steps")
_PLAN = ("num_negatives", "expected_batch_size", "clip_norm", "clipping", "unit", "delta")
_PLAN_SIZES = ("sizes", "min_entities", "max_relations")
_PERFORMANCE = ("threads", "microbatch_units", "noise_generator", "cuda_graphs")


def _refusing(cls: type[_Class]) -> type[_Class]:
    """Make the constructor refuse names that are not honored, instead of a TypeError."""
    made: Callable[..., None] = cls.__init__

    @functools.wraps(made)
    def __init__(self: _Class, *args: Any, **given: Any) -> None:
        known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        honored = {name: value for name, value in given.items() if name in known}
        for name in given.keys() - honored.keys():
            if name in ARGUMENTS or name in WITHOUT_EFFECT or name in _stock_names():
                refuse_argument(name, given[name])
            else:
                check_name(name, known, "an argument of this trainer", error=ConfigError)
        made(self, *args, **honored)

    cls.__init__ = __init__  # type: ignore[assignment, method-assign]
    return cls


def _stock_names() -> set[str]:
    """Return the names of all arguments of sentence-transformers."""
    from sentence_transformers import SentenceTransformerTrainingArguments

    return {field.name for field in fields(SentenceTransformerTrainingArguments)}


@_refusing
@dataclass(frozen=True, kw_only=True)
class PrivateTrainingArguments:
    """Settings of a private run.

    Attributes:
        output_dir: The run folder: ledger, certificate, checkpoint and model. Empty, new, or of this run.
        target_epsilon: Epsilon that the noise is calibrated to. Give this or noise_multiplier.
        noise_multiplier: Standard deviation of the noise divided by clip_norm.
        delta: Delta; a tenth of 1 / entities unless given.
        max_degree: Largest number of relations of an entity; others are dropped. 5 unless the graph is capped.
        num_negatives: Negatives of a relation, drawn from the entities; suggested unless given.
        expected_batch_size: Mean number of relations in a step; suggested unless given.
        clip_norm: Largest norm of a tuple's gradient; does not change epsilon.
        clipping: Clipping rule.
        unit: Unit of privacy: ``"entity"`` or ``"relation"``.
        sizes: What is known of the graph's sizes: ``"private"``, ``"declared"`` or ``"public"``.
        min_entities: For declared sizes: lower bound on the number of entities.
        max_relations: For declared sizes: upper bound on the number of relations.
        train: ``"lora"``, ``"full"`` or ``"last:N"`` (layers).
        lora_rank: Rank of the adapters.
        lora_alpha: Numerator of their scale.
        lora_targets: Names of the linear layers with adapters.
        lora_layers: Number of last layers with adapters; all unless given.
        keep_adapters: Whether trained adapters stay in the model as PEFT adapters; merged otherwise.
        max_steps: Number of steps; takes precedence over num_train_epochs if positive.
        num_train_epochs: Passes over the public bound on the number of relations, in expectation.
        learning_rate: Learning rate before the schedule. Noisy gradients of adapters need a larger one
            than the 5e-5 of transformers.
        lr_scheduler_type: ``"linear"``, ``"cosine"``, ``"constant"``, ``"constant_with_warmup"`` or
            ``"inverse_sqrt"``.
        warmup_steps: Steps of warmup; below 1, a share of all steps.
        warmup_ratio: Share of all steps.
        optim: Optimizer, such as ``"adamw_torch"`` or ``"sgd"``.
        weight_decay: Weight decay of the optimizer.
        adam_beta1: Of adam and adamw.
        adam_beta2: Of adam and adamw.
        adam_epsilon: Of adam and adamw.
        average: Decay of an average of the weights, which is then released; post-processing.
        prompts: A prompt before every text of train_dataset; the same for all columns.
        logging_strategy: ``"steps"`` or ``"no"``.
        logging_steps: Steps between logs; below 1, a share of all steps.
        logging_first_step: Whether to log the first step.
        log_sensitive: Whether losses, norms, batch sizes and sensitive evaluations go to logs, under names
            with ``sensitive/``. No guarantee covers them.
        report_to: ``"tensorboard"``, ``"wandb"``, ``"mlflow"``, a list of them, or ``"none"``.
        run_name: Name of the run there.
        eval_strategy: ``"steps"`` or ``"no"``; steps if eval_steps is given.
        eval_steps: Steps between evaluations; logging_steps unless given.
        save_strategy: ``"steps"``, or ``"no"`` for a checkpoint at the end alone.
        save_steps: Steps between checkpoints; below 1, a share of all steps.
        disable_tqdm: True hides the progress bar, False shows it; shown on a terminal unless given.
        bf16: Whether activations are bfloat16.
        use_cpu: Whether to train on the CPU although there is a GPU.
        seed: Seed of degree capping and of new adapters. Batches and noise have no seed: they follow from a
            secret key that is drawn by the operating system.
        threads: Number of CPU threads.
        microbatch_units: Tuples in one forward pass.
        noise_generator: ``"secure"`` or ``"fast"``.
        cuda_graphs: Whether steps are captured as CUDA graphs.
        hub_model_id: Repository that `push_to_hub` takes unless it is given one.
    """

    output_dir: str
    target_epsilon: float | None = None
    noise_multiplier: float | None = None
    delta: float | None = None
    max_degree: int | None = None
    num_negatives: int | None = None
    expected_batch_size: float | None = None
    clip_norm: float | None = None
    clipping: str | None = None
    unit: str | None = None
    sizes: str = "private"
    min_entities: int | None = None
    max_relations: int | None = None
    train: str = "lora"
    lora_rank: int = 8
    lora_alpha: float | None = None
    lora_targets: str | Sequence[str] | None = None
    lora_layers: int | None = None
    keep_adapters: bool = False
    max_steps: int = -1
    num_train_epochs: float | None = None
    learning_rate: float = 1e-3
    lr_scheduler_type: str = "linear"
    warmup_steps: float = 0
    warmup_ratio: float | None = None
    optim: str = "adamw_torch"
    weight_decay: float = 0.0
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-8
    average: float | None = None
    prompts: str | None = None
    logging_strategy: str = "steps"
    logging_steps: float = 10
    logging_first_step: bool = False
    log_sensitive: bool = False
    report_to: str | Sequence[str] = "none"
    run_name: str | None = None
    eval_strategy: str | None = None
    eval_steps: float | None = None
    save_strategy: str = "steps"
    save_steps: float = 100
    disable_tqdm: bool | None = None
    bf16: bool = False
    use_cpu: bool = False
    seed: int = 0
    threads: int | None = None
    microbatch_units: int | None = None
    noise_generator: str = "secure"
    cuda_graphs: bool = False
    hub_model_id: str | None = None

    def __post_init__(self) -> None:
        check_text("output_dir", str(self.output_dir), error=ConfigError)
        self._check_privacy()
        for name, choices in (
            ("lr_scheduler_type", SCHEDULES),
            ("optim", OPTIMIZERS),
            ("logging_strategy", _STRATEGIES),
            ("save_strategy", _STRATEGIES),
        ):
            value = getattr(self, name)
            object.__setattr__(self, name, str(getattr(value, "value", value)))
            check_choice(name, getattr(self, name), choices, error=ConfigError, fix=_EPOCHS[name])
        if self.eval_strategy is None:
            object.__setattr__(self, "eval_strategy", "no" if self.eval_steps is None else "steps")
        value = getattr(self.eval_strategy, "value", self.eval_strategy)
        object.__setattr__(self, "eval_strategy", str(value))
        fix = _EPOCHS["logging_strategy"]
        check_choice("eval_strategy", self.eval_strategy, _STRATEGIES, error=ConfigError, fix=fix)
        for name in ("log_sensitive", "logging_first_step", "bf16", "use_cpu", "keep_adapters"):
            check_flag(name, getattr(self, name), error=ConfigError)
        for name in ("logging_steps", "save_steps", "eval_steps"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), above=0, error=ConfigError)
        self._check_learning()
        reporters = [self.report_to] if isinstance(self.report_to, str) else list(self.report_to)
        for name in reporters:
            fix = "Pass the callback of another tool in callbacks."
            check_choice("report_to", name, REPORTERS, error=ConfigError, fix=fix)
        object.__setattr__(self, "report_to", tuple(n for n in reporters if n != "none"))
        self.adaptation()

    def _check_privacy(self) -> None:
        """Refuse anything but one of the two ways to set the noise."""
        if (self.target_epsilon is None) == (self.noise_multiplier is None):
            raise ConfigError(
                "`target_epsilon` or `noise_multiplier` must be given, and not both, got "
                f"{self.target_epsilon!r} and {self.noise_multiplier!r}. Use target_epsilon to have the noise "
                "calibrated; arguments of sentence-transformers have neither: use "
                "PrivateTrainingArguments.from_sentence_transformers(args, target_epsilon=4.0)."
            )
        check_integer("seed", self.seed, error=ConfigError)
        if self.max_degree is not None:
            check_integer("max_degree", self.max_degree, low=1, error=ConfigError)

    def _check_learning(self) -> None:
        """Check numbers of steps, warmup and prompt."""
        if self.num_train_epochs is not None:
            check_number("num_train_epochs", self.num_train_epochs, above=0, error=ConfigError)
        rule = "an integer, -1 or at least 1"
        check_integer("max_steps", self.max_steps, low=-1, rule=rule, error=ConfigError)
        check(self.max_steps != 0, "max_steps", rule, 0, error=ConfigError)
        check_number("warmup_steps", self.warmup_steps, low=0, error=ConfigError)
        if self.warmup_ratio is not None:
            check_number("warmup_ratio", self.warmup_ratio, low=0, below=1, error=ConfigError)
            check(self.warmup_steps == 0, "warmup_ratio", _ONE_WARMUP, 0, error=ConfigError)
        rule = "one text for all columns"
        fix = (
            "An entity has one text, whichever column it is in: write different prompts into the texts of "
            "entities that have ids."
        )
        one = self.prompts is None or isinstance(self.prompts, str)
        check(one, "prompts", rule, self.prompts, error=ConfigError, fix=fix)

    @classmethod
    def from_sentence_transformers(cls, args: Any, **settings: Any) -> "PrivateTrainingArguments":
        """Return the arguments of a SentenceTransformerTrainingArguments, with privacy settings.

        Args:
            args: The stock arguments. What was changed from its default and cannot be honored is refused.
            **settings: Fields of this class, such as target_epsilon; each instead of the stock value.
        """
        from reldp.integrations.sentence_transformers.stock_arguments import translated

        return cls(**{**translated(args, [field.name for field in fields(cls)]), **settings})

    def adaptation(self) -> Adaptation:
        """Return what is trained.

        Raises:
            EncoderError: A setting of it is wrong.
        """
        check(self.train != "none", "train", "lora, full or last:N", self.train, error=ConfigError)
        return Adaptation(
            train=self.train,
            lora_rank=self.lora_rank,
            lora_alpha=self.lora_alpha,
            lora_targets=self.lora_targets,
            lora_layers=self.lora_layers,
            seed=self.seed,
        )

    def plan_settings(self) -> dict[str, Any]:
        """Return the settings of `PrivacyPlan.for_graph`, without the number of steps."""
        given = {n: getattr(self, n) for n in (*_PLAN, *_PLAN_SIZES, "target_epsilon")}
        given["noise_multiplier"] = self.noise_multiplier
        return {name: value for name, value in given.items() if value is not None}

    def expected_steps(self, num_relations: int, batch_size: float) -> int | None:
        """Return the number of steps, or None if it is to be suggested.

        Args:
            num_relations: A public bound on the number of relations: the exact number would reveal it.
            batch_size: The expected batch size.
        """
        if self.max_steps > 0:
            return self.max_steps
        if self.num_train_epochs is None:
            return None
        return max(1, math.ceil(self.num_train_epochs * num_relations / batch_size))

    def trainer_settings(self, num_steps: int) -> dict[str, Any]:
        """Return the settings of `reldp.Trainer`."""
        optimizer = OPTIMIZERS[self.optim]
        options: dict[str, Any] = {"weight_decay": self.weight_decay}
        if optimizer in ("adam", "adamw"):
            betas = [self.adam_beta1, self.adam_beta2]
            options |= {"betas": betas, "eps": self.adam_epsilon}
        warmup = self.warmup_steps if self.warmup_ratio is None else self.warmup_ratio
        save = num_steps if self.save_strategy == "no" else as_steps(self.save_steps, num_steps)
        return {
            "optimizer": optimizer,
            "optimizer_options": options,
            "learning_rate": self.learning_rate,
            "schedule": SCHEDULES[self.lr_scheduler_type],
            "warmup_steps": as_steps(warmup, num_steps) if warmup else 0,
            "average": self.average,
            "precision": "bfloat16" if self.bf16 else "float32",
            "device": "cpu" if self.use_cpu else None,
            "checkpoint_every": save,
            "log_sensitive": self.log_sensitive,
            "progress": None if self.disable_tqdm is None else not self.disable_tqdm,
            **{name: getattr(self, name) for name in _PERFORMANCE},
        }

    def to_dict(self) -> dict[str, Any]:
        """Return all settings as plain values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {n: list(v) if isinstance(v, tuple) else v for n, v in values.items()}


def as_steps(value: float, num_steps: int) -> int:
    """Return a number of steps, of a number or of a share of all steps.

    >>> as_steps(0.1, 50), as_steps(7, 50)
    (5, 7)
    """
    return max(1, math.ceil(value * num_steps)) if value < 1 else int(value)


_ONE_WARMUP = "left out beside warmup_steps"
_STEPS = (
    "Poisson sampling has no epochs, because no step knows which relations were drawn: use steps."
)
_EPOCHS = {
    "logging_strategy": _STEPS,
    "save_strategy": _STEPS,
    "optim": "",
    "lr_scheduler_type": "",
}
