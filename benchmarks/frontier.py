"""The frontier: how good an encoder can be at epsilon 4 and 1, by levers that cost no privacy.

Every lever is measured alone against the same start, trained on nouns and judged on adjectives.
What helps alone need not help together (more negatives cost more noise in larger batches), so
combinations are judged on adjectives as well, the likelier ones with two seeds. Kept is the one of
least computation among those that come within the start's spread over seeds of the best, and the
best of these where several cost the same; what was kept is then run on the test graph.

    python -m benchmarks.experiments run --suite levers --device cuda --workers 12
    python -m benchmarks.experiments run --suite combinations --device cuda --workers 12
    python -m benchmarks.experiments choose --levers
    python -m benchmarks.experiments run --suite frontier --device cuda --workers 12
"""

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cross_domain import COLUMNS, nonprivate, private
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import RESULTS
from benchmarks.experiments.tuning import LEAN, VALIDATION
from reldp.errors import ConfigError

KEPT = RESULTS / "frontier.json"
SEEDS = (0, 1, 2)

LEVERS: dict[str, dict[str, Any]] = {
    "start": {},
    "batch 256": {"batch": 256},
    "average of weights over 50 steps": {"average": 0.98},
    "average of weights over 200 steps": {"average": 0.995},
    "average of weights over 200 steps, learning rate x 2": {
        "average": 0.995,
        "learning_rate": 2.0,
    },
    "cosine schedule": {"schedule": "cosine"},
    "cosine schedule, learning rate x 2": {"schedule": "cosine", "learning_rate": 2.0},
    "clip norm 3": {"clip_norm": 3.0},
    "clip norm 0.3": {"clip_norm": 0.3},
    "clip norm 0.03": {"clip_norm": 0.03},
    "temperature 0.1": {"temperature": 0.1},
    "temperature 0.02": {"temperature": 0.02},
    "8 negatives": {"num_negatives": 8},
    "16 negatives": {"num_negatives": 16},
    "negatives against both ends": {"pairing": "both"},
    "all pairs of a tuple": {"pairing": "all"},
    "degree bound 3": {"max_degree": 3},
    "degree bound 10": {"max_degree": 10},
    "LoRA rank 2": {"lora_rank": 2},
    "LoRA rank 32": {"lora_rank": 32},
    "LoRA on every linear layer": {"lora_targets": ("query", "key", "value", "dense")},
    "LoRA in the last 3 layers": {"lora_layers": 3},
    "A frozen, rank 32": {"freeze_a": True, "lora_rank": 32},
    "Adam freed of noise, same learning rate": {"bias_correction": True},
    "Adam freed of noise, learning rate x 1/5": {"bias_correction": True, "learning_rate": 0.2},
    "Adam freed of noise, learning rate x 1/20": {"bias_correction": True, "learning_rate": 0.05},
    "learning rate x 2": {"learning_rate": 2.0},
    "learning rate x 1/2": {"learning_rate": 0.5},
    "twice the steps": {"steps": 2000},
    "warm start on citations": {"warm_graph": "aan_acl_venues", "warm_steps": 200},
}


_EVERYWHERE = {"lora_targets": ("query", "key", "value", "dense")}
_LARGER = {"batch": 256}
_LARGE = {"batch": 1024, "steps": 500}
_BOTH, _ALL = {"pairing": "both"}, {"pairing": "all"}
_FALLING = {"schedule": "cosine", "learning_rate": 2.0}

COMBINATIONS: dict[str, dict[str, Any]] = {
    "batch 64, 1000 steps": {},
    "batch 64, 1000 steps, all pairs": _ALL,
    "batch 256, 1000 steps": _LARGER,
    "batch 256, 1000 steps, every layer": {**_LARGER, **_EVERYWHERE},
    "batch 256, 1000 steps, both ends": {**_LARGER, **_BOTH},
    "batch 256, 1000 steps, all pairs": {**_LARGER, **_ALL},
    "batch 256, 1000 steps, cosine from x 2": {**_LARGER, **_FALLING},
    "batch 256, 1000 steps, both ends, cosine from x 2": {**_LARGER, **_BOTH, **_FALLING},
    "batch 256, 1000 steps, all pairs, cosine from x 2": {**_LARGER, **_ALL, **_FALLING},
    "batch 256, 1000 steps, all pairs, every layer": {**_LARGER, **_ALL, **_EVERYWHERE},
    "batch 256, 1000 steps, all pairs, 2 negatives": {**_LARGER, **_ALL, "num_negatives": 2},
    "batch 256, 500 steps, all pairs": {**_LARGER, **_ALL, "steps": 500},
    "batch 256, 250 steps, all pairs": {**_LARGER, **_ALL, "steps": 250},
    "batch 512, 500 steps, all pairs": {"batch": 512, **_ALL, "steps": 500},
    "batch 512, 250 steps, all pairs": {"batch": 512, **_ALL, "steps": 250},
    "batch 1024, 250 steps, all pairs": {"batch": 1024, **_ALL, "steps": 250},
    "batch 256, 500 steps, all pairs, every layer": {
        **_LARGER,
        **_ALL,
        **_EVERYWHERE,
        "steps": 500,
    },
    "batch 1024, 500 steps": _LARGE,
    "batch 1024, 500 steps, learning rate x 2": {**_LARGE, "learning_rate": 2.0},
    "batch 1024, 500 steps, 2 negatives": {**_LARGE, "num_negatives": 2},
}
SEEDS_OF_COMBINATIONS = (0, 1)
HARDLY_ANY = 0.1  # a noise multiplier that leaves clipping as all that privacy changes
# Does it help on graphs of another kind? Short enough for a CPU.
ELSEWHERE: dict[str, dict[str, Any]] = {
    "one pair per negative, query and value": {},
    "all pairs, query and value": _ALL,
    "all pairs, every layer": {**_ALL, **_EVERYWHERE},
}
ELSEWHERE_COLUMN, ELSEWHERE_STEPS = COLUMNS[1], 250
# What was kept before there were pairings: also seen on the test graph.
EARLIER = {"batch": 256}
# Negatives whose texts anybody may know: they need no noise, but not everybody has them.
PUBLIC = {"negatives": "public", "pool": "wordnet-adjectives"}


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


def combination_cell(name: str, seed: int = 0) -> Cell:
    """One combination, judged on the validation graph."""
    return pulled(_start(4.0, seed, (VALIDATION,)), COMBINATIONS[name])


def combination_cells() -> list[Cell]:
    """Every combination, the dearest first; the dearest with one seed only."""
    every = [combination_cell(name) for name in COMBINATIONS]
    for seed in SEEDS_OF_COMBINATIONS[1:]:
        again = [combination_cell(name, seed) for name in COMBINATIONS]
        every += [cell for cell in again if cell.work < 2e6]
    return sorted(every, key=lambda cell: (cell.seed, -cell.work))


def _start(epsilon: float, seed: int, tests: tuple[str, ...]) -> Cell:
    """Where combinations start: the first column's cell, with lean activations."""
    return private(COLUMNS[0], "tuple", epsilon, seed).but(tests=tests, **LEAN)


@dataclass(frozen=True)
class Choice:
    """What the rule keeps, and what it was decided by.

    Attributes:
        name: Of the combination.
        scores: MRR of every combination on the validation graph, mean over seeds, in percent.
        gains: Of every lever alone against the start, in points.
    """

    name: str
    scores: dict[str, float]
    gains: dict[str, float]


def choice(results: Iterable[dict[str, Any]]) -> Choice | None:
    """The cheapest combination that is as good as the best; None before any was run.

    As good means: within the standard deviation of the start over seeds, on the validation graph.
    Of several that cost the same, the best is kept; a combination's score is its mean over seeds.
    The warm start and public negatives are measured and never kept: they need public relations or
    texts, which not everybody has.
    """
    by_id = {result["id"]: result for result in results}

    def scores(cells: Iterable[Cell]) -> list[float]:
        known = [by_id[cell.id] for cell in cells if cell.id in by_id]
        return [100 * result["evaluations"][VALIDATION]["mrr"] for result in known]

    starts = scores(lever_cell("start", seed) for seed in SEEDS)
    found = {
        name: statistics.mean(own)
        for name in COMBINATIONS
        if (own := scores(combination_cell(name, seed) for seed in SEEDS_OF_COMBINATIONS))
    }
    if not starts or not found:
        return None
    spread = statistics.stdev(starts) if len(starts) > 1 else 0.0
    good = [name for name, value in found.items() if value >= max(found.values()) - spread]
    gains = {
        name: round(own[0] - statistics.mean(starts), 2)
        for name, changes in LEVERS.items()
        if changes and (own := scores([lever_cell(name)]))
    }
    return Choice(
        name=min(good, key=lambda name: (combination_cell(name).work, -found[name])),
        scores={name: round(value, 2) for name, value in found.items()},
        gains=gains,
    )


def choose(results: Iterable[dict[str, Any]], path: Path = KEPT) -> dict[str, Any]:
    """Writes down what `choice` keeps, with all that it was decided by."""
    found = choice(results)
    if found is None:
        raise ConfigError("`levers` and `combinations` must have been run first, got no start.")
    changes = COMBINATIONS[found.name].items()
    written = {
        "name": found.name,
        "changes": {k: list(v) if isinstance(v, tuple) else v for k, v in changes},
        "gains": found.gains,
        "combinations": found.scores,
    }
    path.write_text(json.dumps(written, indent=2) + "\n")
    return written


def kept() -> dict[str, Any]:
    """The levers that are pulled together; none before any was chosen."""
    return dict(json.loads(KEPT.read_text())["changes"]) if KEPT.is_file() else {}


def frontier_cell(epsilon: float, seed: int, changes: dict[str, Any] | None = None) -> Cell:
    """What was kept, on the test graph."""
    tests = (COLUMNS[0].test, VALIDATION)
    return pulled(_start(epsilon, seed, tests), kept() if changes is None else changes)


def published_cell(epsilon: float, seed: int, *, levers: bool = False) -> Cell:
    """The published rule with the same batch and steps, or with all that was kept."""
    cell = private(COLUMNS[0], "frequency", epsilon, seed).but(**LEAN)
    return pulled(cell, kept() if levers else _sizes(kept()))


def nonprivate_cell(seed: int, *, levers: bool = False) -> Cell:
    """Training without privacy with the same batch and steps, or with all that was kept."""
    cell = nonprivate(COLUMNS[0], 5, seed).but(**LEAN)
    return pulled(cell, kept() if levers else _sizes(kept()))


def public_cell(epsilon: float, seed: int, changes: dict[str, Any] | None = None) -> Cell:
    """What was kept, with negatives from public texts."""
    return frontier_cell(epsilon, seed, {**(kept() if changes is None else changes), **PUBLIC})


def _sizes(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if name in ("batch", "steps")}


def frontier_cells() -> list[Cell]:
    """What was kept, at every epsilon, beside what it is measured against."""
    found = []
    for seed in SEEDS:
        found += [frontier_cell(epsilon, seed) for epsilon in (4.0, 1.0)]
        found += [published_cell(10.0, seed), nonprivate_cell(seed)]
    for seed in SEEDS:
        found += [nonprivate_cell(seed, levers=True), published_cell(10.0, seed, levers=True)]
        found += [frontier_cell(4.0, seed).but(epsilon=0.0, noise=HARDLY_ANY)]
        found += [public_cell(epsilon, seed) for epsilon in (4.0, 1.0)]
    return list({cell.id: cell for cell in found}.values())


def earlier_cells() -> list[Cell]:
    """What was kept before, on the test graph, alone and with public negatives."""
    found = [frontier_cell(epsilon, seed, EARLIER) for epsilon in (4.0, 1.0) for seed in SEEDS]
    return found + [public_cell(4.0, seed, EARLIER) for seed in SEEDS]


def elsewhere_cell(name: str, seed: int = 0) -> Cell:
    """What every graph could use of what was kept, on the citation graphs, in a short training."""
    cell = private(ELSEWHERE_COLUMN, "tuple", 4.0, seed).but(steps=ELSEWHERE_STEPS)
    return pulled(cell, ELSEWHERE[name])


def elsewhere_cells() -> list[Cell]:
    """The short trainings on the citation graphs, seed by seed."""
    return [elsewhere_cell(name, seed) for seed in SEEDS for name in ELSEWHERE]


def reserve_cells() -> list[Cell]:
    """Sizes that may yet be chosen: their noise is calibrated before anybody knows."""
    own = list(COMBINATIONS.values())
    found = [frontier_cell(epsilon, 0, changes) for epsilon in (10.0, 4.0, 1.0) for changes in own]
    found += [public_cell(epsilon, 0, changes) for epsilon in (4.0, 1.0) for changes in own]
    found += [cell.but(epsilon=0.0, noise=HARDLY_ANY) for cell in found if cell.epsilon == 4.0]
    published = private(COLUMNS[0], "frequency", 10.0, 0)
    return found + [pulled(published, own) for c in own for own in (c, _sizes(c))]
