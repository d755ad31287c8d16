"""The one round of tuning that every row of the tables shares: on a graph that is not the test.

Every rule gets the same small grid of learning rates and clip norms, trained on nouns at epsilon 4
and judged on adjectives; what wins there is used for all graphs, targets and seeds. `choose` writes
the winners down, and how many runs were looked at.
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
    """The fields of a method that are not tuned."""
    if name == "nonprivate":
        return {"method": "nonprivate"}
    fields: dict[str, Any] = {"clipping": name}
    if name == "frequency":
        fields["accountant"] = "rdp"  # as published
    if name == "pair":
        fields["loss"] = "logistic"
    return fields


def cells() -> list[Cell]:
    """The grid, every rule's in turn."""
    start = Cell(
        train="wordnet-nouns", tests=(VALIDATION,), method="nonprivate", precision=PRECISION
    )
    found = []
    for name in TUNED:
        private = name != "nonprivate"
        for rate in LEARNING_RATES:
            for norm in CLIP_NORMS if private else (1.0,):
                own = row(name) | ({"method": "private", "epsilon": 4.0} if private else {})
                found.append(start.but(**own, learning_rate=rate, clip_norm=norm))
    return found


def choose(results: Iterable[dict[str, Any]], path: Path = SETTINGS) -> dict[str, Any]:
    """Writes the best settings of every rule by MRR on the validation graph."""
    by_id = {result["id"]: result for result in results}
    every = [(cell, by_id[cell.id]) for cell in cells() if cell.id in by_id]
    chosen: dict[str, Any] = {}
    for name in TUNED:
        own = [(c, r) for c, r in every if all(getattr(c, k) == v for k, v in row(name).items())]
        own = [(c, r) for c, r in own if name == "nonprivate" or c.method == "private"]
        if own:
            cell, result = max(own, key=lambda pair: pair[1]["evaluations"][VALIDATION]["mrr"])
            chosen[name] = {
                "learning_rate": cell.learning_rate,
                "clip_norm": cell.clip_norm,
                "validation_mrr": result["evaluations"][VALIDATION]["mrr"],
                "runs": len(own),
            }
    path.write_text(json.dumps(chosen, indent=2) + "\n")
    return chosen


def tuned(name: str, path: Path = SETTINGS) -> dict[str, float]:
    """The settings that were chosen for a rule; the middle of the grid before any choice."""
    known = json.loads(path.read_text()) if path.is_file() else {}
    found = known.get(name, {"learning_rate": 1e-3, "clip_norm": 1.0})
    return {key: found[key] for key in ("learning_rate", "clip_norm")}
