"""The frontier: how good an encoder can be at epsilon 4 and 1, by levers that cost no privacy.

Every lever is measured alone against the same start, trained on nouns and judged on adjectives;
what helps there is put together, and only then is the test graph looked at.

    python -m benchmarks.experiments run --suite levers --device cuda --workers 12
    python -m benchmarks.experiments run --suite frontier --device cuda --workers 12
"""

import itertools
import json
from typing import Any

from benchmarks.cross_domain import COLUMNS, nonprivate, private
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import RESULTS
from benchmarks.experiments.tuning import VALIDATION

KEPT = RESULTS / "frontier.json"
SEEDS = (0, 1, 2)

LEVERS: dict[str, dict[str, Any]] = {
    "start": {},
    "batch 256": {"batch": 256},
    "average of weights over 50 steps": {"average": 0.98},
    "average of weights over 200 steps": {"average": 0.995},
    "cosine schedule": {"schedule": "cosine"},
    "clip norm 0.3": {"clip_norm": 0.3},
    "clip norm 0.03": {"clip_norm": 0.03},
    "temperature 0.1": {"temperature": 0.1},
    "temperature 0.02": {"temperature": 0.02},
    "8 negatives": {"num_negatives": 8},
    "16 negatives": {"num_negatives": 16},
    "LoRA rank 2": {"lora_rank": 2},
    "LoRA rank 32": {"lora_rank": 32},
    "LoRA on every linear layer": {"lora_targets": ("query", "key", "value", "dense")},
    "A frozen, rank 32": {"freeze_a": True, "lora_rank": 32},
    "Adam freed of noise": {"bias_correction": True},
    "learning rate x 2": {"learning_rate": 2.0},
    "learning rate x 1/2": {"learning_rate": 0.5},
    "twice the steps": {"steps": 2000},
    "warm start on citations": {"warm_graph": "aan_acl_venues", "warm_steps": 200},
}


def pulled(cell: Cell, changes: dict[str, Any]) -> Cell:
    """The cell with a lever pulled; a learning rate is a factor."""
    changes = dict(changes)
    if "learning_rate" in changes:
        changes["learning_rate"] = cell.learning_rate * changes["learning_rate"]
    return cell.but(**changes)


def lever_cell(name: str, seed: int = 0) -> Cell:
    """One lever alone, judged on the validation graph."""
    start = private(COLUMNS[0], "tuple", 4.0, seed).but(tests=(VALIDATION,))
    return pulled(start, LEVERS[name])


def lever_cells() -> list[Cell]:
    """Every lever alone; the start with every seed, to know what a difference is worth."""
    again = [lever_cell("start", seed) for seed in SEEDS[1:]]
    return [lever_cell(name) for name in LEVERS] + again


def kept() -> dict[str, Any]:
    """The levers that are pulled together; none before any was chosen."""
    return dict(json.loads(KEPT.read_text())["changes"]) if KEPT.is_file() else {}


def frontier_cell(epsilon: float, seed: int, changes: dict[str, Any] | None = None) -> Cell:
    """All kept levers together, on the test graph."""
    start = private(COLUMNS[0], "tuple", epsilon, seed)
    return pulled(start, kept() if changes is None else changes)


def frontier_cells() -> list[Cell]:
    """What was kept, at every epsilon, beside the published rule with the same batch and steps."""
    sizes = {name: value for name, value in kept().items() if name in ("batch", "steps")}
    found = []
    for seed in SEEDS:
        found += [frontier_cell(epsilon, seed) for epsilon in (4.0, 1.0)]
        found += [private(COLUMNS[0], "frequency", 10.0, seed).but(**sizes)]
        found += [nonprivate(COLUMNS[0], 5, seed).but(**sizes)]
    return found


def reserve_cells() -> list[Cell]:
    """Sizes that may yet be chosen: their noise is calibrated before anybody knows."""
    sizes = itertools.product((64, 256, 512), (1000, 2000), (4, 8))
    own = [{"batch": b, "steps": t, "num_negatives": k} for b, t, k in sizes]
    found = [frontier_cell(epsilon, 0, changes) for epsilon in (4.0, 1.0) for changes in own]
    published = private(COLUMNS[0], "frequency", 10.0, 0)
    return found + [published.but(**changes) for changes in own if changes["num_negatives"] == 4]
