"""The three encoders of the paper: how it trains them, and how long that takes on an H200, estimated.

>>> sizes = {"steps": 10_000, "batch": 32, "num_negatives": 4}
>>> hours("llama-2-7b", **sizes) > hours("bert-large", **sizes) > hours("bert-base", **sizes)
True
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import RESULTS

MEASURED = RESULTS / "private_step_h200.json"


@dataclass(frozen=True, kw_only=True)
class Model:
    """How the paper trains one encoder.

    Attributes:
        fields: Fields of its cells.
        shape: Shape of the measured step that the estimate starts from.
        measured: Batch and precision of that step.
        relative: Time of a row in units of that shape.
    """

    fields: Mapping[str, Any]
    shape: str
    measured: tuple[int, str]
    relative: float = 1.0


_BERT = {
    "pooling": "cls",
    "schedule": "linear",
    "lora_targets": ("query", "key", "value", "dense"),
    "precision": "bfloat16",  # of products; the paper's are TF32
}
_LLAMA = {
    "pooling": "last",
    "schedule": "cosine",
    "lora_targets": ("q_proj", "v_proj"),
    "weights": "bfloat16",
}
MODELS = {
    "bert-base": Model(fields=_BERT, shape="bert-base", measured=(256, "autocast")),
    # 24 layers of width 1024 against 12 of width 768.
    "bert-large": Model(
        fields=_BERT, shape="bert-base", measured=(256, "autocast"), relative=2 * (1024 / 768) ** 2
    ),
    "llama-2-7b": Model(fields=_LLAMA, shape="llama-7b", measured=(32, "bf16")),
}


def hours(model: str, *, steps: int, batch: int, num_negatives: int, rows: int = 0) -> float:
    """Return the estimated hours on an H200 of a training and of the evaluation of some texts.

    The time of a step is a fixed part, from MiniLM at two batch sizes, plus a part per row, from the measured private
    step of the model's shape (BERT-large: BERT-base times the ratio of the weights). Adapters beyond query and value
    lengthen a row as MiniLM's did. A row of the evaluation is a third of a row of training: it has no backward pass.
    """
    fixed, per_row = _step_time(model)
    step = fixed + per_row * batch * (num_negatives + 2)
    return (steps * step + rows * per_row / 3) / 3.6e6


@lru_cache
def _step_time(model: str) -> tuple[float, float]:
    """Return the milliseconds of a step that do not depend on its rows, and those of one row."""
    known, rows = MODELS[model], 6  # a relation's two entities and four negatives
    batch, precision = known.measured
    small, large = (_measured("minilm", size, precision) for size in (64, 256))
    slope = (large - small) / (256 - 64)
    fixed = max(small - 64 * slope, 0.0)
    per_row = (_measured(known.shape, batch, precision) - fixed) / (batch * rows)
    if len(known.fields["lora_targets"]) > 2:
        everywhere = _measured("minilm", 256, "bf16", "all-linear")
        per_row *= everywhere / _measured("minilm", 256, "bf16")
    return fixed, per_row * known.relative


def _measured(shape: str, batch: int, precision: str, targets: str = "query-value") -> float:
    """Return the milliseconds of a measured private step, the slowest run's."""
    wanted = {
        "shape": shape, "batch": batch, "precision": precision, "targets": targets, "length": 32,
        "rule": "tuple", "train": "lora",
    }  # fmt: skip
    results = [r for run in json.loads(MEASURED.read_text())["runs"] for r in run["results"]]
    times = [r["private"]["ms"] for r in results if all(r[k] == v for k, v in wanted.items())]
    return float(max(times))


def cell_hours(cell: Cell) -> float:
    """Return the estimated hours of a cell."""
    return hours(
        cell.encoder,
        steps=0 if cell.method == "base" else cell.steps,
        batch=cell.batch,
        num_negatives=cell.num_negatives,
        rows=2 * cell.max_relations,
    )
