"""A private head on a frozen text encoder: how long 2,000 steps take without a GPU.

10,000 noun synsets of WordNet and the relations among them, MiniLM frozen, a linear head of 384 by
384 trained with 256 expected relations and 4 negatives per step, secure noise, ledger and
checkpoints included. Encoding the texts is measured separately, because it does not depend on the
number of steps. Prints, and writes as JSON, seconds, steps per second, and the scores on verbs:

    python -m benchmarks.head_training -o benchmarks/results/head_training.json
"""

import argparse
import json
import platform
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

import reldp

LIMIT_SECONDS = 120.0
MODEL = "sentence-transformers/all-MiniLM-L6-v2"


def training_graph(num_entities: int) -> reldp.CappedGraph:
    """Return the consecutive noun synsets, in WordNet's order, with the most relations among them."""
    nouns = reldp.EntityGraph.read("wordnet-nouns")
    low = nouns.relations.min(axis=1)
    high = nouns.relations.max(axis=1)
    starts = range(0, nouns.num_entities - num_entities, 1000)
    inside = [np.count_nonzero((low >= s) & (high < s + num_entities)) for s in starts]
    first = starts[int(np.argmax(inside))]
    mask = np.zeros(nouns.num_entities, dtype=bool)
    mask[first : first + num_entities] = True
    return nouns.select_entities(mask).cap_degrees(5, seed=0)


def measure(num_steps: int, num_entities: int, batch_size: float, threads: int) -> dict[str, Any]:
    torch.set_num_threads(threads)
    capped, verbs = training_graph(num_entities), reldp.EntityGraph.read("wordnet-verbs")
    encoder = reldp.TextEncoder.load(MODEL, train="head", max_length=64)
    before = reldp.evaluate(encoder, verbs, max_relations=2048)
    plan = reldp.PrivacyPlan.for_graph(
        capped,
        sizes="public",
        target_epsilon=8.0,
        num_negatives=4,
        expected_batch_size=batch_size,
        num_steps=num_steps,
        clip_norm=0.3,
    )
    trainer = reldp.Trainer(
        encoder, capped, plan, learning_rate=1e-4, checkpoint_every=500, log_every=10
    )
    began = time.perf_counter()
    encoder.table(capped)  # encodes every text; the trainer does so once more
    encoding = time.perf_counter() - began
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as home:
        result = trainer.fit(Path(home) / "run")
    total = time.perf_counter() - began
    training = total - encoding
    after = reldp.evaluate(result.encoder, verbs, max_relations=2048)
    return {
        "num_steps": num_steps,
        "num_entities": capped.num_entities,
        "num_relations": capped.num_relations,
        "expected_batch_size": batch_size,
        "num_negatives": 4,
        "trainable": sum(p.numel() for p in encoder.trainable().values()),
        "noise_multiplier": plan.noise_multiplier,
        "epsilon": result.certificate.epsilon,
        "seconds_encoding": encoding,
        "seconds_training": training,
        "steps_per_second": num_steps / training,
        "limit_seconds": LIMIT_SECONDS,
        "steps_within_limit": training < LIMIT_SECONDS,
        "all_within_limit": total < LIMIT_SECONDS,
        "mrr_before": before["mrr"],
        "mrr_after": after["mrr"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--entities", type=int, default=10_000)
    parser.add_argument("--batch-size", type=float, default=256.0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    result = measure(given.steps, given.entities, given.batch_size, given.threads)
    result |= {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "torch": torch.__version__,
        "threads": given.threads,
        "machine": platform.machine(),
    }
    for name, value in result.items():
        print(f"{name:22} {value:.4g}" if isinstance(value, float) else f"{name:22} {value}")
    if given.output is not None:
        given.output.parent.mkdir(parents=True, exist_ok=True)
        given.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
