"""A plan and the ledger of a run that kept to it, without any training."""

from dataclasses import replace

from reldp.plan import PrivacyPlan
from reldp.runs.certificate import Certificate
from reldp.runs.ledger import LedgerRecord

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
    "max_degree": 5,
    "degree_bound": "capped",
    "all_protected": True,
    "record": {"source": "a shop | its till", "version": "3", "license": "none"},
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


def ledger(
    plan=PLAN, *, counted=100, graph=None, noise="secure", search=None, version="0.1.0", by="steps"
):
    """The record of a complete run of a plan."""
    if plan.noise_multiplier == 0:
        noise = "none"
    start = {
        **START,
        "num_steps": plan.num_steps,
        "plan_hash": plan.hash,
        "versions": {"reldp": version, "torch": "2"},
        "graph": {**GRAPH, "max_degree": plan.max_degree, **(graph or {})},
        "noise": {"source": noise, "description": f"{noise} noise"},
        **({"search": search} if search else {}),
    }
    end = {
        "kind": "complete",
        "num_counted": counted,
        "key": "destroyed",
        "model": {"files": {"model.safetensors": "ab" * 32}},
        "date": "2025-01-02",
    }
    if counted < plan.num_steps:
        end |= {"stopped_at": counted, "stop_decided_by": by}
    steps = {"kind": "reserve", "branch": 0, "first": 0, "stop": counted}
    saved = {"kind": "checkpoint", "branch": 0, "step": counted, "sha256": "ab" * 32}
    return LedgerRecord.check([start, steps, *([saved] if counted else []), end], "f" * 64)


def sized_plan(mode):
    """The plan with bounds of one mode instead of exact sizes."""
    if mode == "private":
        return replace(PLAN, sizes=mode, sizes_epsilon=0.04, sizes_delta=2e-9)
    return replace(PLAN, sizes=mode)


def certificate_of(mode):
    """The certificate of a run whose sizes are private, declared or public."""
    plan = sized_plan(mode)
    return Certificate.from_ledger(plan, ledger(plan))
