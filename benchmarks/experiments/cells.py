"""One experiment as a value: everything that its numbers depend on, and nothing else.

A `Cell` is frozen, checked on construction, and has a short stable id made from the fields that
differ from their defaults: adding a field with a default keeps all earlier results.

>>> cell = Cell(train="wordnet-nouns", tests=("wordnet-verbs",), epsilon=4.0)
>>> cell.name
'wordnet-nouns minilm-cls private tuple eps 4 seed 0'
>>> Cell.from_dict(cell.to_dict()) == cell
True
"""

import hashlib
import json
from dataclasses import MISSING, asdict, dataclass, fields, replace
from typing import Any

from reldp.errors import ConfigError

METHODS = ("base", "nonprivate", "private", "noise-only")
# Time and memory of a row of the forward pass, relative to MiniLM.
RELATIVE_COST = {
    "mpnet": 4.0,
    "smollm2": 10.0,
    "bert-base": 4.0,
    "bert-large": 14.0,
    "llama-2-7b": 300.0,
}
# Fields whose name in committed results is another one: ids are made of those names.
_RECORDED_AS = {"cuda_graphs": "replay"}
CLIPPINGS = ("tuple", "pair", "frequency")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run and its evaluations.

    Attributes:
        train: Name of the training graph.
        tests: Names of the graphs to evaluate on.
        encoder: Name of the encoder.
        pooling: ``"cls"``, ``"mean"`` or ``"last"``.
        method: ``"base"`` trains nothing; ``"nonprivate"`` neither clips nor adds noise;
            ``"noise-only"`` trains on a private run's noise without its gradients.
        clipping: Clipping rule.
        analysis: Analysis that noise is calibrated by.
        accountant: ``"pld"`` or ``"rdp"``.
        epsilon: Target epsilon; delta is 1/m, as in the paper.
        noise: Noise multiplier, in place of a target.
        max_degree: Degree bound K; 0 keeps all relations (for methods without privacy only).
        num_negatives: Negatives per relation, k.
        batch: Expected batch size, b.
        steps: Number of steps, T.
        learning_rate: Learning rate of Adam.
        clip_norm: Clip norm, C.
        loss: ``"infonce"``, or ``"logistic"`` for pairs.
        temperature: Temperature of the scores.
        pairing: Pairs of a tuple that the positive is compared with.
        negatives: ``"entities"``, ``"relations"`` or ``"public"``.
        pool: Graph whose texts are the public negatives.
        max_length: Maximum number of tokens of a text, in training and in evaluation.
        schedule: Schedule of the learning rate.
        warmup: Steps over which the learning rate rises from 0.
        average: Decay of the averaged weights; 0 takes the last weights.
        lora_rank: Rank of the adapters.
        lora_targets: Linear layers with adapters; empty for query and value.
        lora_layers: Number of last layers with adapters; 0 for all.
        lora_scale: alpha / rank.
        freeze_a: Whether the A matrices of the adapters are frozen.
        adapter_start: First A of the adapters: "" for random numbers, or a kind of `subspaces`.
        start_graph: Public graph that the bases of `subspaces` are taken from.
        start_scale: Length of the rows of such an A, relative to random ones.
        project: Number of directions that noisy gradients are projected to; 0 for all.
        beta1: Decay of Adam's first moments.
        beta2: Decay of Adam's second moments.
        bias_correction: Whether the noise's known variance is subtracted from Adam's second moments.
        warm_graph: Public graph that is trained on first, without privacy.
        warm_steps: Number of steps on the public graph.
        precision: ``"float32"`` (TF32 on a GPU) or ``"bfloat16"`` activations.
        weights: Type of the frozen weights; with ``"bfloat16"`` and precision ``"float32"`` every
            activation is bfloat16, while adapters, gradients, norms and sums are float32.
        cuda_graphs: Whether steps are captured as CUDA graphs, where the device can.
        max_relations: Maximum number of relations of a test graph, drawn by seed; 0 for all.
        candidates: Number of relations among which a query's answer is searched.
        scales: Factors of the learned change with which it is evaluated too, besides 1.
        seed: Seed of the new weights; it also tells repetitions of a cell apart.
    """

    train: str
    tests: tuple[str, ...]
    encoder: str = "minilm"
    pooling: str = "cls"
    method: str = "private"
    clipping: str = "tuple"
    analysis: str = "best"
    accountant: str = "pld"
    epsilon: float = 0.0
    noise: float = 0.0
    max_degree: int = 5
    num_negatives: int = 4
    batch: int = 64
    steps: int = 1000
    learning_rate: float = 1e-3
    clip_norm: float = 1.0
    loss: str = "infonce"
    temperature: float = 0.05
    pairing: str = "one"
    negatives: str = "entities"
    pool: str = ""
    max_length: int = 32
    schedule: str = "constant"
    warmup: int = 0
    average: float = 0.0
    lora_rank: int = 8
    lora_targets: tuple[str, ...] = ()
    lora_layers: int = 0
    lora_scale: float = 2.0
    freeze_a: bool = False
    adapter_start: str = ""
    start_graph: str = ""
    start_scale: float = 1.0
    project: int = 0
    beta1: float = 0.9
    beta2: float = 0.999
    bias_correction: bool = False
    warm_graph: str = ""
    warm_steps: int = 0
    precision: str = "float32"
    weights: str = "float32"
    cuda_graphs: bool = True
    max_relations: int = 20_000
    candidates: int = 256
    scales: tuple[float, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "tests", tuple(self.tests))
        object.__setattr__(self, "lora_targets", tuple(self.lora_targets))
        object.__setattr__(self, "scales", tuple(self.scales))
        _require(self.method in METHODS, "method", f"one of {', '.join(METHODS)}", self.method)
        _require(self.clipping in CLIPPINGS, "clipping", "a rule's name", self.clipping)
        noisy = self.method in ("private", "noise-only")
        given = (self.epsilon > 0) + (self.noise > 0)
        _require(given == noisy, "epsilon", "given (or noise) for noisy methods only", self.epsilon)
        _require(self.max_degree > 0 or not noisy, "max_degree", "above 0 for noisy methods", 0)
        _require(
            (self.pool != "") == (self.negatives == "public"), "pool", "named if public", self.pool
        )
        _require(
            (self.warm_graph != "") == (self.warm_steps > 0),
            "warm_steps",
            "given with its graph",
            0,
        )

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits that identify this cell."""
        content = {
            name: value
            for name, value in self.to_dict().items()
            if name in ("train", "tests") or value != _DEFAULTS[name]
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """The cell in words, for logs."""
        words = [self.train, f"{self.encoder}-{self.pooling}", self.method]
        if self.method in ("private", "noise-only"):
            words += [
                self.clipping,
                f"eps {self.epsilon:g}" if self.epsilon else f"noise {self.noise:g}",
            ]
        return " ".join([*words, f"seed {self.seed}"])

    @property
    def work(self) -> float:
        """Amount of computation, in rows of MiniLM's forward pass."""
        steps = 0 if self.method in ("base", "noise-only") else self.steps
        return (steps + self.warm_steps) * self.step_work

    @property
    def step_work(self) -> float:
        """Computation and memory of one step, in rows of MiniLM's forward pass."""
        entities = self.num_negatives * (2 if self.negatives == "relations" else 1)
        rows = 3 * entities if self.clipping == "pair" else entities + 2
        return self.batch * rows * RELATIVE_COST.get(self.encoder, 1.0)

    @property
    def slots(self) -> int:
        """Number of workers' shares of the device that it takes, so that memory suffices."""
        return 1 + int(min(self.step_work, 6144) // 1024)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain JSON values, under the names of committed results."""
        values = asdict(self)
        values |= {name: list(values[name]) for name in ("tests", "lora_targets", "scales")}
        return {_RECORDED_AS.get(name, name): value for name, value in values.items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Cell":
        """Return the cell that `to_dict` wrote."""
        names = {recorded: name for name, recorded in _RECORDED_AS.items()}
        return cls(**{names.get(name, name): value for name, value in values.items()})

    def but(self, **changes: Any) -> "Cell":
        """Return this cell with some fields changed."""
        return replace(self, **changes)

    def like(self, other: "Cell") -> bool:
        """Whether two cells differ in nothing but the seed."""
        return self.but(seed=0) == other.but(seed=0)


def _plain_default(item: Any) -> Any:
    value = None if item.default is MISSING else item.default
    return list(value) if isinstance(value, tuple) else value


_DEFAULTS = {_RECORDED_AS.get(item.name, item.name): _plain_default(item) for item in fields(Cell)}


def _require(condition: bool, name: str, rule: str, value: object) -> None:
    if not condition:
        raise ConfigError(f"`{name}` must be {rule}, got {value!r}.")
