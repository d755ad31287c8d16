"""Results that nobody ran, for pages whose numbers a reader can compute by hand."""

from pathlib import Path
from typing import Any

from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import Store


def result(cell: Cell, mrr: float = 0.5, **changes: Any) -> dict[str, Any]:
    """A result of the right form: PREC@1 is half of MRR, a step takes 10 ms."""
    evaluation = {"prec@1": mrr / 2, "mrr": mrr}
    noisy = cell.method in ("private", "noise-only")
    return {
        "id": cell.id,
        "cell": cell.to_dict(),
        "evaluations": dict.fromkeys(cell.tests, evaluation),
        "noise_multiplier": 0.72 if noisy else None,
        "epsilon": (cell.epsilon or 3.0) if noisy else None,
        "device": "a machine",
        "date": "2026-11-15T00:00:00+00:00",
        "seconds": 1.0,
        "seconds_per_step": 0.01,
        "peak_memory_mb": 1234,
        **changes,
    }


def store_of(folder: Path, scores: dict[Cell, float]) -> Store:
    """A store that has the cells with their MRR, and nothing else."""
    store = Store(folder / "made_up")
    store.merge(result(cell, mrr) for cell, mrr in scores.items())
    return store
