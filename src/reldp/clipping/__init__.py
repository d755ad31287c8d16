"""Clip units and clipping rules, each stating its own sensitivity (theory.md section 2)."""

from reldp.clipping.rules import RULES, ClippingRule, get_rule
from reldp.clipping.units import ClipUnits

__all__ = ["RULES", "ClipUnits", "ClippingRule", "get_rule"]
