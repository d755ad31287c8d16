"""Ablations: MRR as one setting changes at a time, tuple rule, our analysis.

At epsilon 4 unless the noise multiplier is varied, on the citation graphs.

    python -m benchmarks.experiments run --suite ablations --device cuda --workers 12
"""

from dataclasses import dataclass
from typing import Any

from benchmarks.cross_domain import COLUMNS, private
from benchmarks.experiments.cells import Cell

SEEDS = (0, 1, 2)
COLUMN = COLUMNS[1]


@dataclass(frozen=True)
class Axis:
    """One setting and its values."""

    field: str
    label: str
    values: tuple[Any, ...]


AXES = (
    Axis("num_negatives", "negatives per relation, k", (1, 2, 4, 8)),
    Axis("max_degree", "degree bound, K", (2, 5, 10, 20)),
    Axis("noise", "noise multiplier", (0.7, 1.4, 2.8, 5.6, 11.2)),
    Axis("batch", "expected batch size, b", (16, 64, 256)),
    Axis("steps", "steps, T", (250, 500, 1000, 2000)),
    Axis("clip_norm", "clip norm, C", (0.01, 0.1, 1.0, 10.0)),
)


def axis_cell(axis: Axis, value: Any, seed: int) -> Cell:
    """Return the cell at one value of one setting."""
    start = private(COLUMN, "tuple", 4.0, seed)
    changes = {axis.field: value}
    if axis.field == "noise":
        changes["epsilon"] = 0.0
    return start.but(**changes)


def cells() -> list[Cell]:
    """Return every cell, ordered by seed."""
    return [
        axis_cell(axis, value, seed) for seed in SEEDS for axis in AXES for value in axis.values
    ]
