"""The frontier: how good an encoder can be at epsilon 4 and 1, by settings that cost no privacy.

Every setting is measured alone against the same baseline, trained on nouns and validated on
adjectives. What helps alone need not help in combination (more negatives need more noise in larger
batches), so combinations are validated on adjectives as well, the promising ones with two seeds.
The selected configuration is the one with the least computation among those within one standard
deviation of the best (the baseline's, over seeds), and the best of these where several cost the
same. It is then run on the test graph.

    python -m benchmarks.experiments run --suite compared --device cuda --workers 12
    python -m benchmarks.experiments run --suite combinations --device cuda --workers 12
    python -m benchmarks.experiments choose --frontier
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

SELECTED = RESULTS / "frontier.json"
SEEDS = (0, 1, 2)

COMPARED: dict[str, dict[str, Any]] = {
    "baseline": {},
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
    "negatives against both endpoints": {"pairing": "both"},
    "all pairs of a tuple": {"pairing": "all"},
    "degree bound 3": {"max_degree": 3},
    "degree bound 10": {"max_degree": 10},
    "LoRA rank 2": {"lora_rank": 2},
    "LoRA rank 32": {"lora_rank": 32},
    "LoRA on every linear layer": {"lora_targets": ("query", "key", "value", "dense")},
    "LoRA in the last 3 layers": {"lora_layers": 3},
    "A frozen, rank 32": {"freeze_a": True, "lora_rank": 32},
    "Adam with noise-corrected moments, same learning rate": {"bias_correction": True},
    "Adam with noise-corrected moments, learning rate x 1/5": {
        "bias_correction": True,
        "learning_rate": 0.2,
    },
    "Adam with noise-corrected moments, learning rate x 1/20": {
        "bias_correction": True,
        "learning_rate": 0.05,
    },
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
    "batch 256, 1000 steps, both endpoints": {**_LARGER, **_BOTH},
    "batch 256, 1000 steps, all pairs": {**_LARGER, **_ALL},
    "batch 256, 1000 steps, cosine from x 2": {**_LARGER, **_FALLING},
    "batch 256, 1000 steps, both endpoints, cosine from x 2": {**_LARGER, **_BOTH, **_FALLING},
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
ALMOST_NO_NOISE = 0.1  # a noise multiplier that shows the effect of clipping alone
# Whether it helps on graphs of another kind; short enough for a CPU.
ELSEWHERE: dict[str, dict[str, Any]] = {
    "one pair per negative, query and value": {},
    "all pairs, query and value": _ALL,
    "all pairs, every layer": {**_ALL, **_EVERYWHERE},
}
ELSEWHERE_COLUMN, ELSEWHERE_STEPS = COLUMNS[1], 250
# The configuration that was selected before there were pairings: also run on the test graph.
PREVIOUS = {"batch": 256}
# Negatives with public texts: they need no noise, but not every user has them.
PUBLIC = {"negatives": "public", "pool": "wordnet-adjectives"}


def with_changes(cell: Cell, changes: dict[str, Any]) -> Cell:
    """Return the cell with some settings changed; a learning rate is a factor."""
    changes = dict(changes)
    if "learning_rate" in changes:
        changes["learning_rate"] = cell.learning_rate * changes["learning_rate"]
    return cell.but(**changes)


def compared_cell(name: str, seed: int = 0) -> Cell:
    """Return one setting alone, on the validation graph."""
    start = private(COLUMNS[0], "tuple", 4.0, seed).but(tests=(VALIDATION,))
    return with_changes(start, COMPARED[name])


def compared_cells() -> list[Cell]:
    """Return every setting alone; the baseline with every seed, to know its spread."""
    again = [compared_cell("baseline", seed) for seed in SEEDS[1:]]
    return [compared_cell(name) for name in COMPARED] + again


def combination_cell(name: str, seed: int = 0) -> Cell:
    """Return one combination, on the validation graph."""
    return with_changes(_start(4.0, seed, (VALIDATION,)), COMBINATIONS[name])


def combination_cells() -> list[Cell]:
    """Return every combination, the most expensive first; those with one seed only."""
    cells = [combination_cell(name) for name in COMBINATIONS]
    for seed in SEEDS_OF_COMBINATIONS[1:]:
        again = [combination_cell(name, seed) for name in COMBINATIONS]
        cells += [cell for cell in again if cell.work < 2e6]
    return sorted(cells, key=lambda cell: (cell.seed, -cell.work))


def _start(epsilon: float, seed: int, tests: tuple[str, ...]) -> Cell:
    """Return the baseline of combinations: the first column's cell, with bfloat16 weights."""
    return private(COLUMNS[0], "tuple", epsilon, seed).but(tests=tests, **LEAN)


@dataclass(frozen=True)
class Choice:
    """The selected combination, and the scores that decided.

    Attributes:
        name: Name of the combination.
        scores: MRR of every combination on the validation graph, mean over seeds, in percent.
        gains: Gain of every setting alone over the baseline, in points.
    """

    name: str
    scores: dict[str, float]
    gains: dict[str, float]


def choice(results: Iterable[dict[str, Any]]) -> Choice | None:
    """Return the cheapest combination that is as good as the best; None before any was run.

    As good means: within the standard deviation of the baseline over seeds, on the validation
    graph. Of several that cost the same, the best is selected; a combination's score is its mean
    over seeds. The warm start and public negatives are measured and never selected: they need
    public relations or texts, which not every user has.
    """
    by_id = {result["id"]: result for result in results}

    def scores(cells: Iterable[Cell]) -> list[float]:
        known = [by_id[cell.id] for cell in cells if cell.id in by_id]
        return [100 * result["evaluations"][VALIDATION]["mrr"] for result in known]

    starts = scores(compared_cell("baseline", seed) for seed in SEEDS)
    means = {
        name: statistics.mean(values)
        for name in COMBINATIONS
        if (values := scores(combination_cell(name, seed) for seed in SEEDS_OF_COMBINATIONS))
    }
    if not starts or not means:
        return None
    spread = statistics.stdev(starts) if len(starts) > 1 else 0.0
    good = [name for name, value in means.items() if value >= max(means.values()) - spread]
    gains = {
        name: round(values[0] - statistics.mean(starts), 2)
        for name, changes in COMPARED.items()
        if changes and (values := scores([compared_cell(name)]))
    }
    return Choice(
        name=min(good, key=lambda name: (combination_cell(name).work, -means[name])),
        scores={name: round(value, 2) for name, value in means.items()},
        gains=gains,
    )


def choose(results: Iterable[dict[str, Any]], path: Path = SELECTED) -> dict[str, Any]:
    """Write down what `choice` selects, with the scores that decided."""
    best = choice(results)
    if best is None:
        raise ConfigError(
            "`compared` and `combinations` must have been run first, got no baseline."
        )
    changes = COMBINATIONS[best.name].items()
    written = {
        "name": best.name,
        "changes": {k: list(v) if isinstance(v, tuple) else v for k, v in changes},
        "gains": best.gains,
        "combinations": best.scores,
    }
    path.write_text(json.dumps(written, indent=2) + "\n")
    return written


def selected() -> dict[str, Any]:
    """Return the changes of the selected configuration; none before the selection."""
    return dict(json.loads(SELECTED.read_text())["changes"]) if SELECTED.is_file() else {}


def frontier_cell(epsilon: float, seed: int, changes: dict[str, Any] | None = None) -> Cell:
    """Return the selected configuration on the test graph."""
    tests = (COLUMNS[0].test, VALIDATION)
    return with_changes(_start(epsilon, seed, tests), selected() if changes is None else changes)


def published_cell(epsilon: float, seed: int, *, all_settings: bool = False) -> Cell:
    """Return the published rule with the selected batch and steps, or with all selected settings."""
    cell = private(COLUMNS[0], "frequency", epsilon, seed).but(**LEAN)
    return with_changes(cell, selected() if all_settings else _sizes(selected()))


def nonprivate_cell(seed: int, *, all_settings: bool = False) -> Cell:
    """Return training without privacy, with the selected sizes or with all selected settings."""
    cell = nonprivate(COLUMNS[0], 5, seed).but(**LEAN)
    return with_changes(cell, selected() if all_settings else _sizes(selected()))


def public_cell(epsilon: float, seed: int, changes: dict[str, Any] | None = None) -> Cell:
    """Return the selected configuration, with negatives from public texts."""
    return frontier_cell(epsilon, seed, {**(selected() if changes is None else changes), **PUBLIC})


def _sizes(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if name in ("batch", "steps")}


def frontier_cells() -> list[Cell]:
    """Return the selected configuration at every epsilon, and what it is compared with."""
    cells = []
    for seed in SEEDS:
        cells += [frontier_cell(epsilon, seed) for epsilon in (4.0, 1.0)]
        cells += [published_cell(10.0, seed), nonprivate_cell(seed)]
    for seed in SEEDS:
        cells += [
            nonprivate_cell(seed, all_settings=True),
            published_cell(10.0, seed, all_settings=True),
        ]
        cells += [frontier_cell(4.0, seed).but(epsilon=0.0, noise=ALMOST_NO_NOISE)]
        cells += [public_cell(epsilon, seed) for epsilon in (4.0, 1.0)]
    return list({cell.id: cell for cell in cells}.values())


def previous_cells() -> list[Cell]:
    """Return the previous selection on the test graph, without and with public negatives."""
    cells = [frontier_cell(epsilon, seed, PREVIOUS) for epsilon in (4.0, 1.0) for seed in SEEDS]
    return cells + [public_cell(4.0, seed, PREVIOUS) for seed in SEEDS]


def elsewhere_cell(name: str, seed: int = 0) -> Cell:
    """Return parts of the selection on the citation graphs, in a short training."""
    cell = private(ELSEWHERE_COLUMN, "tuple", 4.0, seed).but(steps=ELSEWHERE_STEPS)
    return with_changes(cell, ELSEWHERE[name])


def elsewhere_cells() -> list[Cell]:
    """Return the short trainings on the citation graphs, seed by seed."""
    return [elsewhere_cell(name, seed) for seed in SEEDS for name in ELSEWHERE]


def reserve_cells() -> list[Cell]:
    """Return sizes that may be selected, so that their noise can be calibrated beforehand."""
    combinations = list(COMBINATIONS.values())
    cells = [
        frontier_cell(epsilon, 0, changes)
        for epsilon in (10.0, 4.0, 1.0)
        for changes in combinations
    ]
    cells += [
        public_cell(epsilon, 0, changes) for epsilon in (4.0, 1.0) for changes in combinations
    ]
    cells += [cell.but(epsilon=0.0, noise=ALMOST_NO_NOISE) for cell in cells if cell.epsilon == 4.0]
    published = private(COLUMNS[0], "frequency", 10.0, 0)
    return cells + [
        with_changes(published, changes) for c in combinations for changes in (c, _sizes(c))
    ]
