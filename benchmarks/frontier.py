"""The frontier: how good an encoder can be at epsilon 4 and 1, by levers that cost no privacy.

Every lever is measured alone against the same start, trained on nouns and judged on adjectives;
what helps there is put together, and only then is the test graph looked at.

    python -m benchmarks.experiments run --suite levers --device cuda --workers 12
    python -m benchmarks.experiments run --suite frontier --device cuda --workers 12
"""

import itertools
import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.cross_domain import COLUMNS, nonprivate, private
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import RESULTS
from benchmarks.experiments.tuning import VALIDATION
from reldp.errors import ConfigError

KEPT = RESULTS / "frontier.json"
SEEDS = (0, 1, 2)
LEAST_GAIN = 0.3  # points of MRR that are worth a changed default

LEVERS: dict[str, dict[str, Any]] = {
    "start": {},
    "batch 256": {"batch": 256},
    "average of weights over 50 steps": {"average": 0.98},
    "average of weights over 200 steps": {"average": 0.995},
    "cosine schedule": {"schedule": "cosine"},
    "clip norm 3": {"clip_norm": 3.0},
    "clip norm 0.3": {"clip_norm": 0.3},
    "clip norm 0.03": {"clip_norm": 0.03},
    "temperature 0.1": {"temperature": 0.1},
    "temperature 0.02": {"temperature": 0.02},
    "8 negatives": {"num_negatives": 8},
    "16 negatives": {"num_negatives": 16},
    "32 negatives": {"num_negatives": 32},
    "LoRA rank 2": {"lora_rank": 2},
    "LoRA rank 32": {"lora_rank": 32},
    "LoRA on every linear layer": {"lora_targets": ("query", "key", "value", "dense")},
    "LoRA in the last 3 layers": {"lora_layers": 3},
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


def choose(results: Iterable[dict[str, Any]], path: Path = KEPT) -> dict[str, Any]:
    """Keeps the best lever of every kind that gains more than seeds differ; writes it down.

    Levers of one kind set the same field. The warm start is measured and never kept: it needs
    public relations, which not everybody has.
    """
    by_id = {result["id"]: result for result in results}

    def score(name: str, seed: int = 0) -> float | None:
        result = by_id.get(lever_cell(name, seed).id)
        return None if result is None else 100 * result["evaluations"][VALIDATION]["mrr"]

    starts = [value for seed in SEEDS if (value := score("start", seed)) is not None]
    if not starts:
        raise ConfigError("`levers` must have been run first, got no start.")
    noise = max(statistics.stdev(starts) if len(starts) > 1 else 0.0, LEAST_GAIN)
    gains = {
        name: value - statistics.mean(starts)
        for name, changes in LEVERS.items()
        if changes and "warm_graph" not in changes and (value := score(name)) is not None
    }
    changes: dict[str, Any] = {}
    for name in sorted(gains, key=lambda lever: -gains[lever]):
        new = LEVERS[name]
        if gains[name] > noise and not set(new) & set(changes):
            changes |= new
    plain = {key: list(v) if isinstance(v, tuple) else v for key, v in changes.items()}
    written = {"changes": plain, "gains": {k: round(v, 2) for k, v in gains.items()}}
    path.write_text(json.dumps(written, indent=2) + "\n")
    return written


def kept() -> dict[str, Any]:
    """The levers that are pulled together; none before any was chosen."""
    return dict(json.loads(KEPT.read_text())["changes"]) if KEPT.is_file() else {}


def frontier_cell(epsilon: float, seed: int, changes: dict[str, Any] | None = None) -> Cell:
    """All kept levers together, on the test graph."""
    start = private(COLUMNS[0], "tuple", epsilon, seed)
    start = start.but(tests=(*start.tests, VALIDATION))
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
    sizes = itertools.product((64, 256, 512), (1000, 2000), (4, 8, 16))
    own = [{"batch": b, "steps": t, "num_negatives": k} for b, t, k in sizes]
    found = [frontier_cell(epsilon, 0, changes) for epsilon in (4.0, 1.0) for changes in own]
    published = private(COLUMNS[0], "frequency", 10.0, 0)
    return found + [published.but(**changes) for changes in own if changes["num_negatives"] == 4]
