"""The schema of a certificate and of the ledger entries that it is made from.

A schema is a rule for one value, or a dictionary with the schemas of its entries. An entry whose name
ends in ``?`` may be absent; ``OPEN: True`` in a dictionary allows further entries. The error names the
first value that breaks its rule. Types are exact: true is not a number, and 1.0 is not a count.

Private to the package: `check`, `CALLBACK`, `CERTIFICATE`, `START`, `COMPLETION`, `DECISIONS`,
`SENSITIVE_CALLBACK`.

>>> check({"a": {"b": -1}}, {"a": {"b": COUNT}})
Traceback (most recent call last):
reldp.runs.schema.SchemaError: a.b must be a whole number, 0 or more, got -1
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from reldp._validate import SIZES
from reldp.graph.record import PROVENANCE

__all__ = [
    "CALLBACK",
    "CERTIFICATE",
    "COMPLETION",
    "DECISIONS",
    "SENSITIVE_CALLBACK",
    "START",
    "SchemaError",
    "check",
]

OPEN = "*"
DECISIONS = ("steps", "time", "result")
"""What a decision to end a run early can be made by."""
CALLBACK = "callback"
SENSITIVE_CALLBACK = "callback that sees sensitive values"
"""What stopped a run, in its ledger."""


class SchemaError(Exception):
    """Error that says which value breaks which rule; callers catch it and add the name of the file."""


@dataclass(frozen=True)
class Rule:
    """A rule for a value, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_date(value: Any) -> bool:
    try:
        return type(value) is str and date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def _is_hash(value: Any) -> bool:
    return type(value) is str and re.fullmatch(r"[0-9a-f]{64}", value) is not None


def _one_of(*choices: str) -> Rule:
    return Rule("one of " + ", ".join(choices), lambda v: type(v) is str and v in choices)


COUNT = Rule("a whole number, 0 or more", _is_count)
SIZE = Rule("a whole number, 1 or more", lambda v: _is_count(v) and v > 0)
TEXT = Rule("text", lambda v: type(v) is str)
TEXTS = Rule("a list of texts", lambda v: type(v) is list and all(type(x) is str for x in v))
TRUTH = Rule("true or false", lambda v: type(v) is bool)
HASH = Rule("64 hexadecimal digits", _is_hash)
DATE = Rule("a date such as 2026-01-31", _is_date)
OBJECT = Rule("an object", lambda v: isinstance(v, Mapping))
POSITIVE = Rule("a number above 0", lambda v: _is_number(v) and v > 0)
NOT_NEGATIVE = Rule("a number, 0 or more", lambda v: _is_number(v) and v >= 0)
PROBABILITY = Rule("a number between 0 and 1", lambda v: _is_number(v) and 0 < v < 1)
EPSILON = Rule(
    'a number, 0 or more, or "Infinity"', lambda v: v == "Infinity" or NOT_NEGATIVE.holds(v)
)
HASHES = Rule(
    "an object of SHA-256 hashes",
    lambda v: isinstance(v, Mapping) and all(map(_is_hash, v.values())),
)
OBJECTS = Rule(
    "a list of objects", lambda v: type(v) is list and all(isinstance(x, Mapping) for x in v)
)

_NOISE = {"source": TEXT, "description": TEXT, OPEN: True}
_MODEL = {"files": HASHES}
_ENCODER = {"kind": TEXT, "base_model?": TEXT, "adaptation?": OBJECT, OPEN: True}
_LOSS = {
    "name": TEXT,
    "included": TRUTH,
    "sha256": HASH,
    "settings?": OBJECT,
    "num_trainable?": SIZE,
    "start_sha256?": HASH,
}
# Closed, so that no exact count of the graph can be part of it.
_DATA = {
    "commitment": HASH,
    "max_degree": SIZE,
    "degree_bound": _one_of("capped", "promised"),
    "all_protected": TRUTH,
    "relation_types?": _one_of("declared", "from the data"),
    "holdout?": {"share": PROBABILITY, "seed": COUNT},
    "record": dict.fromkeys(PROVENANCE, TEXT),
}

_SELECTION = {"every": SIZE, "metric": TEXT, "graph_sha256": HASH, "shares_ids": TRUTH}
_SEARCH = {"mean?": POSITIVE, "distribution?": TEXT, "runs?": SIZE, "candidates": SIZE} | {
    "release_sha256?": HASH
}
_CHOSEN = {"step": SIZE, "score": NOT_NEGATIVE}

START = {
    "plan_hash": HASH,
    "graph": _DATA,
    "encoder": _ENCODER,
    "loss?": _LOSS,
    "training": OBJECT,
    "machine?": OBJECT,
    "noise": _NOISE,
    "versions": OBJECT,
    "date": DATE,
    "checkpoint?": {"step": COUNT, "sha256": HASH},
    "selection?": _SELECTION,
    "search?": _SEARCH,
    OPEN: True,
}

# Of a run that ended before its planned steps.
_EARLY = {"stopped_at?": COUNT, "stop_decided_by?": _one_of(*DECISIONS)}

COMPLETION = {
    "key": _one_of("destroyed"),
    "model": _MODEL,
    "date": DATE,
    "chosen?": _CHOSEN,
    **_EARLY,
    OPEN: True,
}

CERTIFICATE = {
    "format": SIZE,
    "date": DATE,
    "guarantee": {
        "epsilon": {"pld": EPSILON, "rdp": EPSILON, "planned_steps?": EPSILON},
        "given?": TEXT,
        "delta": PROBABILITY,
        "analysis": TEXT,
        "status": _one_of("proven", "computed", "claimed", "none"),
        "method?": TEXT,
        "unit": TEXT,
        "adjacency": TEXT,
        "sizes": TEXT,
        "clipping": TEXT,
        OPEN: True,
    },
    "plan": {
        "num_entities": SIZE,
        "num_relations": SIZE,
        "sizes": _one_of(*SIZES),
        "max_degree": SIZE,
        "num_negatives": COUNT,
        "num_steps": COUNT,
        "sample_rate": POSITIVE,
        "expected_batch_size": POSITIVE,
        "clip_norm": POSITIVE,
        "noise_multiplier": NOT_NEGATIVE,
        "delta": PROBABILITY,
        OPEN: True,
    },
    "plan_hash": HASH,
    "steps": dict.fromkeys(
        ("planned", "counted", "abandoned", "branches", "resumes", "overflowed_batches"), COUNT
    )
    | _EARLY
    | {"chosen_step?": SIZE},
    "noise": _NOISE,
    "key": TEXT,
    "data": _DATA,
    "encoder": _ENCODER,
    "loss?": _LOSS,
    "training": OBJECT,
    "model": _MODEL,
    "ledger": {"entries": SIZE, "head": HASH},
    "assumptions": TEXTS,
    "not_guaranteed": TEXTS,
    "versions": OBJECT,
    "audits": OBJECTS,
}


def check(values: Any, schema: Any, place: str = "") -> None:
    """Check values against a schema.

    Raises:
        SchemaError: A value breaks its rule, or a part is missing or unknown.
    """
    if isinstance(schema, Rule):
        if not schema.holds(values):
            raise SchemaError(f"{place or 'it'} must be {schema.words}, got {_short(values)}")
        return
    if not isinstance(values, Mapping):
        raise SchemaError(f"{place or 'it'} must be an object, got {_short(values)}")
    parts = {name.rstrip("?"): part for name, part in schema.items() if name != OPEN}
    for name, part in parts.items():
        where = f"{place}.{name}" if place else name
        if name in values:
            check(values[name], part, where)
        elif name in schema:
            raise SchemaError(f"{where} must be there, got none")
    unknown = sorted(set(values) - set(parts))
    if unknown and OPEN not in schema:
        raise SchemaError(f"{place or 'it'} must have known parts only, got {_short(unknown[0])}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 70 else text[:67] + "..."
