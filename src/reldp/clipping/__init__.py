"""Clip units and clipping rules, each stating what it guarantees about shifts (theory.md section 2)."""

from reldp.clipping.rules import RULES, ClippingRule, get_rule

__all__ = ["RULES", "ClippingRule", "get_rule"]
