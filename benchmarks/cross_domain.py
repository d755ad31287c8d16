"""The cross-domain table: train privately on one graph, predict the relations of another.

Rows: the model as it is; without privacy, with and without degree capping; targets of epsilon for
every rule and way of accounting; noise alone. Seeds come one after the other, so that an
interrupted run has whole rows. See `benchmarks.experiments` for the commands:

    python -m benchmarks.experiments run --suite cross_domain --device cuda --workers 12
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from benchmarks.experiments.cells import Cell
from benchmarks.experiments.tuning import LEAN, PRECISION, row, tuned

SEEDS = (0, 1, 2)
ALL = (4.0, 10.0, 1.0)


@dataclass(frozen=True)
class Row:
    """One line of the table at every epsilon.

    Attributes:
        key: Short name.
        label: What the reader sees.
        tuned_as: The rule whose tuned settings it uses.
        fields: What it changes in a cell.
    """

    key: str
    label: str
    tuned_as: str
    fields: Mapping[str, Any] = field(default_factory=dict)


ROWS = {
    own.key: own
    for own in (
        Row("tuple", "**tuple, our analysis (anchored, PLD)**", "tuple"),
        Row("frequency", "frequency, as published (Renyi; the claim is false)", "frequency"),
        Row(
            "tuple-paper",
            "tuple, as the paper accounts it (replacement, Renyi)",
            "tuple",
            {"analysis": "replacement", "accountant": "rdp"},
        ),
        Row("pair", "pair (replacement, PLD)", "pair"),
        Row(
            "public",
            "tuple, negatives from public adjectives (PLD)",
            "tuple",
            {"negatives": "public", "pool": "wordnet-adjectives"},
        ),
    )
}


@dataclass(frozen=True)
class Column:
    """One training graph, test graph and encoder.

    Attributes:
        train: The private graph.
        test: The graph whose relations are predicted.
        encoder: Name of the encoder.
        pooling: Of its tokens.
        targets: The rows that it has, each with its epsilons.
        uncapped: Whether it is also trained without privacy on all relations.
        noise_only: Whether noise alone is tried.
        seeds: One run each.
        lean: Whether all activations are bfloat16.
        steps: Of every training.
    """

    train: str
    test: str
    encoder: str
    pooling: str
    targets: Mapping[str, tuple[float, ...]]
    uncapped: bool = False
    noise_only: bool = False
    seeds: tuple[int, ...] = SEEDS
    lean: bool = True
    steps: int = 1000

    @property
    def start(self) -> Cell:
        """The column's cell before anything is trained."""
        start = Cell(
            train=self.train,
            tests=(self.test,),
            encoder=self.encoder,
            pooling=self.pooling,
            method="base",
            precision=PRECISION,
        )
        return start.but(**LEAN) if self.lean else start


_WORDS = ("wordnet-nouns", "wordnet-verbs")
_PAPERS = ("aan_acl_venues", "aan_coling_lrec_workshops")
_EVERYTHING = MappingProxyType(dict.fromkeys(ROWS, ALL))
_MAIN = MappingProxyType({"tuple": ALL, "frequency": ALL})
_TWO = MappingProxyType({"tuple": (10.0, 4.0), "frequency": (10.0, 4.0)})
_SHORT = MappingProxyType({"tuple": (4.0,), "frequency": (4.0,)})

COLUMNS = (
    Column(*_WORDS, "minilm", "cls", _EVERYTHING, uncapped=True, noise_only=True, lean=False),
    Column(*_PAPERS, "minilm", "cls", _EVERYTHING, uncapped=True, noise_only=True),
    Column(*_WORDS, "mpnet", "cls", _TWO, steps=500),
    Column(*_WORDS, "smollm2", "last", _TWO, steps=150),
    Column(*_WORDS, "minilm", "mean", _MAIN),
    Column(*reversed(_PAPERS), "minilm", "cls", _SHORT),
    Column(*reversed(_WORDS), "minilm", "cls", _SHORT),
    Column(*_PAPERS, "minilm", "mean", _SHORT),
)

TRIED = tuple(
    Column(train, test, "minilm", "mean", MappingProxyType({}), seeds=(0,))
    for train, test in (
        ("debian_langlibs", "debian_apps"),
        ("amazon_clothing_session", "amazon_food_session"),
        ("amazon_electronic_session", "amazon_food_session"),
        ("aan_acl_venues", "debian_apps"),
    )
)


def private(column: Column, key: str, epsilon: float, seed: int) -> Cell:
    """The cell of a row at an epsilon."""
    own = ROWS[key]
    fields = row(own.tuned_as) | tuned(own.tuned_as) | dict(own.fields)
    start = column.start.but(steps=column.steps)
    return start.but(method="private", epsilon=epsilon, seed=seed, **fields)


def nonprivate(column: Column, max_degree: int, seed: int) -> Cell:
    """The cell without privacy, at a degree bound or (0) without one."""
    rate = tuned("nonprivate")["learning_rate"]
    return column.start.but(
        method="nonprivate",
        max_degree=max_degree,
        learning_rate=rate,
        seed=seed,
        steps=column.steps,
    )


def noise_only(column: Column, seed: int) -> Cell:
    """The noise of the first row at epsilon 4, on no gradient."""
    return private(column, "tuple", 4.0, seed).but(method="noise-only")


def column_cells(column: Column) -> list[Cell]:
    """All cells of a column, seed by seed."""
    found = [column.start]
    for seed in column.seeds:
        found += [nonprivate(column, 5, seed)]
        found += [nonprivate(column, 0, seed)] if column.uncapped else []
        found += [noise_only(column, seed)] if column.noise_only else []
        found += [
            private(column, key, epsilon, seed)
            for epsilon in ALL
            for key, targets in column.targets.items()
            if epsilon in targets
        ]
    return found


def cells() -> list[Cell]:
    """Every cell of the table, the first column first."""
    return [cell for column in COLUMNS + TRIED for cell in column_cells(column)]
