"""Graphs without types and without owners: the values that runs, plans and releases were made with."""

import hashlib

import numpy as np

from reldp.graph import CappedGraph, EntityGraph
from reldp.graph.splits import split_entities, split_relations
from reldp.noise.streams import Streams
from reldp.plan import PrivacyPlan


def graph() -> EntityGraph:
    pairs = [(i, (i * 7 + s) % 60) for i in range(60) for s in (1, 5, 11)]
    once = {frozenset(pair): pair for pair in pairs if pair[0] != pair[1]}
    return EntityGraph.from_lists(
        [f"e{i}" for i in range(60)],
        [(f"e{a}", f"e{b}") for a, b in once.values()],
        text=[f"entity {i}" for i in range(60)],
        protected=[i % 4 > 0 for i in range(60)],
    )


def capped() -> CappedGraph:
    return graph().cap_degrees(3, seed=5)


def short(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array, "<i8").tobytes()).hexdigest()[:16]


def test_fingerprints() -> None:
    assert graph().fingerprint[:16] == "53c4f3029ebed543"
    assert capped().fingerprint[:16] == "22ba1c9c2fd099a5"


def test_kept_relations_and_splits() -> None:
    assert short(capped().relations) == "36d45458175b976a"
    parts = split_relations(graph(), {"train": 0.7, "test": 0.3}, seed=2)
    assert short(parts["train"].relations) == "8b46481edc07a954"
    parts = split_entities(graph(), {"train": 0.6, "test": 0.4}, seed=2)
    assert short(parts["train"].relations) == "e219dc02492e6a70"


def test_batches() -> None:
    for pool, expected in {
        "entities": "7c8de232b27256e0",
        "unprotected": "cb2e7ced032a1f40",
    }.items():
        plan = PrivacyPlan.for_graph(
            capped(), sizes="public", num_negatives=2, sample_rate=0.02, num_steps=5,
            noise_multiplier=3.0, negatives=pool,
        )  # fmt: skip
        sampler = plan.sampler(capped(), Streams(bytes(32)))
        batches = [sampler.sample(step) for step in range(6)]
        drawn = [np.column_stack([batch.relation_ids, batch.entities]) for batch in batches]
        assert short(np.concatenate(drawn)) == expected


def test_plan_hashes() -> None:
    plan = PrivacyPlan.for_graph(
        capped(), sizes="public", num_negatives=2, sample_rate=0.02, num_steps=5,
        noise_multiplier=3.0, delta=1e-4,
    )  # fmt: skip
    assert plan.hash[:16] == "53b92bc9fd96f667"
