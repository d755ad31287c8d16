"""The cross-domain table: train privately on one graph, predict the relations of another.

Rows: the pretrained model; without privacy, with and without degree capping; targets of epsilon for
every rule and analysis; noise alone. Cells are ordered by seed, so that an interrupted run has
whole rows. See `benchmarks.experiments` for the commands:

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
        label: Label on the page.
        tuned_as: Rule whose tuned settings it uses.
        fields: Fields of a cell that it changes.
    """

    key: str
    label: str
    tuned_as: str
    fields: Mapping[str, Any] = field(default_factory=dict)


ROWS = {
    item.key: item
    for item in (
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
        train: Private graph.
        test: Graph whose relations are predicted.
        encoder: Name of the encoder.
        pooling: Pooling of its tokens.
        targets: Rows of the column, each with its epsilons.
        uncapped: Whether it is also trained without privacy on all relations.
        noise_only: Whether it is also trained on noise alone.
        seeds: Seeds, one run each.
        lean: Whether weights and all activations are bfloat16.
        steps: Number of steps of every training.
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
        """Cell of the pretrained model."""
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
    """Return the cell of a row at an epsilon."""
    line = ROWS[key]
    fields = row(line.tuned_as) | tuned(line.tuned_as) | dict(line.fields)
    start = column.start.but(steps=column.steps)
    return start.but(method="private", epsilon=epsilon, seed=seed, **fields)


def nonprivate(column: Column, max_degree: int, seed: int) -> Cell:
    """Return the cell without privacy, at a degree bound or (0) without one."""
    rate = tuned("nonprivate")["learning_rate"]
    return column.start.but(
        method="nonprivate",
        max_degree=max_degree,
        learning_rate=rate,
        seed=seed,
        steps=column.steps,
    )


def noise_only(column: Column, seed: int) -> Cell:
    """Return the cell of the first row's noise at epsilon 4, without gradients."""
    return private(column, "tuple", 4.0, seed).but(method="noise-only")


def column_cells(column: Column) -> list[Cell]:
    """Return all cells of a column, ordered by seed."""
    cells = [column.start]
    for seed in column.seeds:
        cells += [nonprivate(column, 5, seed)]
        cells += [nonprivate(column, 0, seed)] if column.uncapped else []
        cells += [noise_only(column, seed)] if column.noise_only else []
        cells += [
            private(column, key, epsilon, seed)
            for epsilon in ALL
            for key, targets in column.targets.items()
            if epsilon in targets
        ]
    return cells


def cells() -> list[Cell]:
    """Return every cell of the table, the first column first."""
    return [cell for column in COLUMNS + TRIED for cell in column_cells(column)]
