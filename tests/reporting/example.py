"""A plan and the ledger of a run that kept to it, without any training."""

from reldp.accounting.ledger import LedgerRecord
from reldp.plan import PrivacyPlan

PLAN = PrivacyPlan(
    num_entities=5000,
    num_relations=8000,
    max_degree=5,
    num_negatives=4,
    expected_batch_size=32.0,
    num_steps=100,
    noise_multiplier=1.0,
    delta=1e-6,
)

GRAPH = {
    "commitment": "c0" * 32,
    "num_entities": 5000,
    "num_protected": 5000,
    "num_relations": 8000,
    "max_degree": 5,
    "degree_bound": "capped",
    "record": {"source": "a shop | its till", "version": "3", "licence": "none", "notes": ["cut."]},
    "not_private": {"capping": {"num_over": 7}, "drops": {"self_relations": 2}},
}

START = {
    "kind": "start",
    "format": 2,
    "num_steps": 100,
    "plan_hash": PLAN.hash,
    "graph": GRAPH,
    "encoder": {
        "kind": "text",
        "base_model": "small-model",
        "adaptation": {"train": "lora", "lora_rank": 8},
        "num_trainable": 123,
    },
    "training": {"loss": "infonce", "learning_rate": 0.001},
    "noise": {"source": "secure", "description": "secure noise"},
    "versions": {"reldp": "0.1.0", "torch": "2"},
    "machine": {"device": "cpu"},
    "date": "2025-01-01",
}


def ledger(plan=PLAN, *, counted=100, graph=None, noise="secure"):
    """The record of a complete run of a plan."""
    start = {
        **START,
        "plan_hash": plan.hash,
        "graph": GRAPH if graph is None else {**GRAPH, **graph},
        "noise": {"source": noise, "description": f"{noise} noise"},
    }
    end = {
        "kind": "complete",
        "num_counted": counted,
        "key": "destroyed",
        "model": {"files": {"model.safetensors": "ab" * 32}},
        "date": "2025-01-02",
    }
    steps = {"kind": "reserve", "branch": 0, "first": 0, "stop": counted}
    return LedgerRecord.check([start, steps, end], "f" * 64)
