"""Tuning, once for all rows of the tables, on a graph that is not a test graph.

Every rule gets the same small grid of learning rates and clip norms, trained on nouns at epsilon 4
and validated on adjectives; the best settings are used for all graphs, targets and seeds. `choose`
writes them down, with the number of runs that were compared.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import RESULTS

SETTINGS = RESULTS / "settings.json"
VALIDATION = "wordnet-adjectives"
PRECISION = "bfloat16"  # of products, in every run; norms, sums and noise are float32 or better
# The same with weights and all activations in bfloat16, for texts of few tokens: twice as fast.
LEAN = {"weights": "bfloat16", "precision": "float32"}

LEARNING_RATES = (1e-3, 3e-3)
CLIP_NORMS = (1.0, 0.1)
TUNED = ("nonprivate", "tuple", "frequency", "pair")


def row(name: str) -> dict[str, Any]:
    """Return the fields of a method that are not tuned."""
    if name == "nonprivate":
        return {"method": "nonprivate"}
    fields: dict[str, Any] = {"clipping": name}
    if name == "frequency":
        fields["accountant"] = "rdp"  # as published
    if name == "pair":
        fields["loss"] = "logistic"
    return fields


def cells() -> list[Cell]:
    """Return the grid, rule after rule."""
    start = Cell(
        train="wordnet-nouns", tests=(VALIDATION,), method="nonprivate", precision=PRECISION
    )
    grid = []
    for name in TUNED:
        private = name != "nonprivate"
        for rate in LEARNING_RATES:
            for norm in CLIP_NORMS if private else (1.0,):
                fields = row(name) | ({"method": "private", "epsilon": 4.0} if private else {})
                grid.append(start.but(**fields, learning_rate=rate, clip_norm=norm))
    return grid


def choose(results: Iterable[dict[str, Any]], path: Path = SETTINGS) -> dict[str, Any]:
    """Write the best settings of every rule by MRR on the validation graph."""
    by_id = {result["id"]: result for result in results}
    pairs = [(cell, by_id[cell.id]) for cell in cells() if cell.id in by_id]
    chosen: dict[str, Any] = {}
    for name in TUNED:
        candidates = [
            (c, r) for c, r in pairs if all(getattr(c, k) == v for k, v in row(name).items())
        ]
        candidates = [
            (c, r) for c, r in candidates if name == "nonprivate" or c.method == "private"
        ]
        if candidates:
            cell, result = max(
                candidates, key=lambda pair: pair[1]["evaluations"][VALIDATION]["mrr"]
            )
            chosen[name] = {
                "learning_rate": cell.learning_rate,
                "clip_norm": cell.clip_norm,
                "validation_mrr": result["evaluations"][VALIDATION]["mrr"],
                "runs": len(candidates),
            }
    path.write_text(json.dumps(chosen, indent=2) + "\n")
    return chosen


def tuned(name: str, path: Path = SETTINGS) -> dict[str, float]:
    """Return the tuned settings of a rule; defaults before tuning."""
    known = json.loads(path.read_text()) if path.is_file() else {}
    settings = known.get(name, {"learning_rate": 1e-3, "clip_norm": 1.0})
    return {key: settings[key] for key in ("learning_rate", "clip_norm")}
