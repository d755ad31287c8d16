"""Clip units and clipping rules, each of which states its sensitivity (theory.md 2)."""

from reldp.clipping.rules import (
    RULES,
    ClippingRule,
    FrequencyClipping,
    PairClipping,
    TupleClipping,
    get_rule,
    is_builtin,
)
from reldp.clipping.units import ClipUnits

__all__ = [
    "RULES",
    "ClipUnits",
    "ClippingRule",
    "FrequencyClipping",
    "PairClipping",
    "TupleClipping",
    "get_rule",
    "is_builtin",
]
