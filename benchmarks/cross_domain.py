"""The cross-domain table: train privately on one graph, predict the relations of another.

Rows: the model as it is; without privacy, with and without degree capping; three targets of epsilon
for every rule and way of accounting; noise alone. The first pairs and seeds come first, so that an
interrupted run has whole rows. See `benchmarks.experiments` for the commands:

    python -m benchmarks.experiments run --suite cross_domain --workers 8 --minutes 9
"""

from dataclasses import dataclass, field
from typing import Any

from benchmarks.experiments.cells import Cell
from benchmarks.experiments.tuning import row, tuned

EPSILONS = (4.0, 10.0, 1.0)
SEEDS = (0, 1, 2)


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
    fields: dict[str, Any] = field(default_factory=dict)


ROWS = (
    Row("tuple", "tuple, our analysis (anchored, PLD)", "tuple"),
    Row("frequency", "frequency, as published (Renyi, claim is false)", "frequency"),
    Row(
        "tuple-paper",
        "tuple, as the paper accounts it (replacement, Renyi)",
        "tuple",
        {"analysis": "replacement", "accountant": "rdp"},
    ),
    Row("pair", "pair (replacement, PLD)", "pair"),
    Row("public", "tuple, negatives from public adjectives (PLD)", "tuple"),
)


@dataclass(frozen=True)
class Column:
    """One training graph, test graph and encoder."""

    train: str
    test: str
    encoder: str
    pooling: str
    epsilons: tuple[float, ...] = EPSILONS
    rows: tuple[str, ...] = tuple(r.key for r in ROWS)
    seeds: tuple[int, ...] = SEEDS

    @property
    def start(self) -> Cell:
        """The column's cell before anything is trained."""
        return Cell(
            train=self.train,
            tests=(self.test,),
            encoder=self.encoder,
            pooling=self.pooling,
            method="base",
        )


_NOUNS, _VERBS = "wordnet-nouns", "wordnet-verbs"
_ACL, _COLING = "aan_acl_venues", "aan_coling_lrec_workshops"
_PROVEN = ("tuple", "frequency", "tuple-paper", "pair")
_SHORT = ("tuple", "frequency")

COLUMNS = (
    Column(_NOUNS, _VERBS, "minilm", "cls"),
    Column(_ACL, _COLING, "minilm", "cls", rows=_PROVEN),
    Column(_ACL, _COLING, "minilm", "mean", rows=_PROVEN),
    Column(_NOUNS, _VERBS, "minilm", "mean", epsilons=(4.0, 10.0), rows=_SHORT),
    Column(_COLING, _ACL, "minilm", "cls", epsilons=(4.0,), rows=_SHORT),
    Column(_VERBS, _NOUNS, "minilm", "cls", epsilons=(4.0,), rows=_SHORT),
)


def private(column: Column, own: Row, epsilon: float, seed: int) -> Cell:
    """The cell of a row at an epsilon."""
    public = {"negatives": "public", "pool": "wordnet-adjectives"} if own.key == "public" else {}
    fields = row(own.tuned_as) | tuned(own.tuned_as) | own.fields | public
    return column.start.but(method="private", epsilon=epsilon, seed=seed, **fields)


def nonprivate(column: Column, max_degree: int, seed: int) -> Cell:
    """The cell without privacy, at a degree bound or (0) without one."""
    rate = tuned("nonprivate")["learning_rate"]
    return column.start.but(
        method="nonprivate", max_degree=max_degree, learning_rate=rate, seed=seed
    )


def noise_only(column: Column, seed: int) -> Cell:
    """The noise of the first row at epsilon 4, on no gradient."""
    return private(column, ROWS[0], 4.0, seed).but(method="noise-only")


def column_cells(column: Column) -> list[Cell]:
    """All cells of a column, seed by seed."""
    own = [r for r in ROWS if r.key in column.rows]
    found = [column.start]
    for seed in column.seeds:
        found += [nonprivate(column, 5, seed), nonprivate(column, 0, seed)]
        found += [private(column, r, epsilon, seed) for epsilon in column.epsilons for r in own]
        found += [noise_only(column, seed)]
    return found


def cells() -> list[Cell]:
    """Every cell of the table, the first column first."""
    return [cell for column in COLUMNS for cell in column_cells(column)]
