"""Microseconds per sampled batch at 10^5, 10^7 and 10^9 relations, and beside Bernoulli draws.

A batch of 256 expected positives with 4 negatives each, drawn from sizes alone (no relations are
stored), n = m / 5 entities. The sizes take turns of 20 steps, so that a busy machine slows all of
them alike; the median over rounds counts. Two more rows: the whole `TupleSampler` on stored graphs,
and one Bernoulli draw per relation, as Opacus draws them, at 10^7. One run:

    python benchmarks/sampler.py -o benchmarks/results/sampler.json
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from reldp import EntityGraph
from reldp.noise import Streams, new_key
from reldp.sampling import TupleSampler
from reldp.sampling.indices import IndexSampler

BATCH, NEGATIVES = 256, 4
SIZES = (10**5, 10**7, 10**9)
LIMIT_RATIO = 1.3


def by_turns(calls: dict[str, Callable[[int], Any]], rounds: int, repeats: int) -> dict[str, float]:
    """Median microseconds per call, the calls taking turns; each gets the number of its step."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            for step in range(turn * repeats, (turn + 1) * repeats):
                call(step)
            times[name].append((time.perf_counter() - start) / repeats * 1e6)
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def index_samplers() -> dict[str, Callable[[int], Any]]:
    made = {}
    for size in SIZES:
        sampler = IndexSampler(
            num_relations=size,
            pool_size=size // 5,
            sample_rate=BATCH / size,
            num_negatives=NEGATIVES,
            streams=Streams(new_key()),
        )
        made[f"indices, m = {size:.0e}"] = sampler.draw
    return made


def stored_sampler(num_relations: int) -> Callable[[int], Any]:
    """Return a sampler over a graph in memory: entity i is related to i + 1, ..., i + 5."""
    num_entities = num_relations // 5
    source = np.repeat(np.arange(num_entities), 5)
    target = (source + np.tile(np.arange(1, 6), num_entities)) % num_entities
    entities = pa.table({"id": np.arange(num_entities), "text": pa.repeat("text", num_entities)})
    graph = EntityGraph.from_arrow(entities, pa.table({"source": source, "target": target}))
    sampler = TupleSampler(
        graph.promise_degrees(10),
        sample_rate=BATCH / num_relations,
        num_negatives=NEGATIVES,
        streams=Streams(new_key()),
    )
    return sampler.sample


def bernoulli(num_relations: int) -> Callable[[int], Any]:
    """One random number per relation and step, as Opacus' Poisson sampler draws them."""
    import torch

    generator = torch.Generator()
    rate = BATCH / num_relations
    return lambda step: (torch.rand(num_relations, generator=generator) < rate).nonzero().tolist()


def run(rounds: int) -> dict[str, Any]:
    drawn = by_turns(index_samplers(), rounds, repeats=20)
    stored = {f"TupleSampler, m = {m:.0e}": stored_sampler(m) for m in (10**5, 10**7)}
    drawn |= by_turns(stored, rounds, repeats=20)
    drawn |= by_turns({"Bernoulli draws, m = 1e+07": bernoulli(10**7)}, 3, repeats=3)
    indices = [value for name, value in drawn.items() if name.startswith("indices")]
    ratio = max(indices) / min(indices)
    return {
        "microseconds_per_step": {name: round(value, 1) for name, value in drawn.items()},
        "largest_to_smallest": round(ratio, 3),
        "limit": LIMIT_RATIO,
        "within_limit": ratio <= LIMIT_RATIO,
        "bernoulli_to_ours_at_1e7": round(drawn["Bernoulli draws, m = 1e+07"] / indices[1], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("-o", "--output", type=Path, help="write the result as JSON")
    arguments = parser.parse_args()
    result = {
        "command": f"python benchmarks/sampler.py --rounds {arguments.rounds}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "batch": BATCH,
        "negatives": NEGATIVES,
        **run(arguments.rounds),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
