"""Entities or other relations as negatives (theory.md 2.6): MRR at equal epsilon, with trained pooling, on a CPU.

MiniLM with mean pooling, of which only the weights of tokens are trained, as in `reldp demo`: nouns to verbs, sizes
public, delta = 1/m. Runs differ in their random draws. Adapters, larger graphs and a GPU: `as_made`.

    python -m benchmarks.relation_negatives --runs 3 -o benchmarks/results/relation_negatives.json
"""

import argparse
import json
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

import reldp

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
DOMAINS = ("noun.act", "noun.cognition")
SETTINGS: dict[str, dict[str, Any]] = {
    "4 entities, degree bound 5": {"max_degree": 5, "num_negatives": 4},
    "8 entities, degree bound 2": {"max_degree": 2, "num_negatives": 8},
    "3 other relations, degree bound 1": {
        "max_degree": 1,
        "num_negatives": 3,
        "negatives": "relations",
    },
}
EPSILONS = (4.0, 1.0)
BATCH, STEPS, CLIP_NORM, RATE = 128.0, 60, 0.03, 5e-3


def run(
    train: reldp.EntityGraph,
    test: reldp.EntityGraph,
    encoder: Any,
    epsilon: float,
    *,
    max_degree: int,
    batch: float = BATCH,
    steps: int = STEPS,
    max_relations: int = 2048,
    **privacy: Any,
) -> dict[str, Any]:
    """Train an encoder and return its MRR on the test graph, and the noise."""
    capped = train.cap_degrees(max_degree, seed=0)
    plan = reldp.PrivacyPlan.for_graph(
        capped,
        sizes="public",
        target_epsilon=epsilon,
        delta=1 / capped.num_relations,
        expected_batch_size=batch,
        num_steps=steps,
        clip_norm=CLIP_NORM,
        **privacy,
    )
    trainer = reldp.Trainer(
        encoder, capped, plan, learning_rate=RATE, schedule="linear", progress=False
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer.fit(Path(folder) / "run")
    result = reldp.evaluate(encoder, test, max_relations=max_relations).to_json()
    return {"mrr": result["mrr"], "noise_multiplier": plan.noise_multiplier}


def compare(
    train: reldp.EntityGraph,
    test: reldp.EntityGraph,
    load: Callable[[], Any],
    runs: int,
    epsilons: tuple[float, ...] = EPSILONS,
    **sizes: Any,
) -> list[dict[str, Any]]:
    """Return the runs of every setting and epsilon, each on an encoder of its own."""
    rows = []
    for epsilon in epsilons:
        for name, settings in SETTINGS.items():
            results = [run(train, test, load(), epsilon, **settings, **sizes) for _ in range(runs)]
            row = {
                "negatives": name,
                "epsilon": epsilon,
                "mrr": [result["mrr"] for result in results],
                "noise_multiplier": results[0]["noise_multiplier"],
            }
            print(json.dumps(row), flush=True)
            rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    nouns = reldp.EntityGraph.read("wordnet-nouns")
    train = nouns.select_entities(np.isin(nouns.column("domain"), DOMAINS))
    test = reldp.EntityGraph.read("wordnet-verbs")
    began = time.perf_counter()

    def load() -> Any:
        return reldp.TextEncoder.load(MODEL, train="pooling", max_length=24, device="cpu")

    before = reldp.evaluate(load(), test, max_relations=2048).to_json()["mrr"]
    result = {
        "command": " ".join(["python -m benchmarks.relation_negatives", *sys.argv[1:]]),
        "before": before,
        "entities": train.num_entities,
        "rows": compare(train, test, load, given.runs),
        "batch": BATCH,
        "steps": STEPS,
        "clip_norm": CLIP_NORM,
        "learning_rate": RATE,
        "seconds": round(time.perf_counter() - began),
        "versions": {
            "reldp": reldp.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if given.output is not None:
        given.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
