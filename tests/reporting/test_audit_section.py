"""Audits as a picture: a dot for the bound, a bar for the claim, and a warning where the claim is refuted."""

import re

from reldp.reporting.audit_section import audit_section
from tests.reporting.html import parsed, table

MECHANISM = {
    "kind": "mechanism",
    "verdict": "Consistent: <well>.",
    "refuted": False,
    "steps composed": 1,
    "trials": 1000,
    "confidence": 0.99,
    "bound": {"delta": 0.01, "audited": 1.31, "claimed": 1.4512},
}
STEP = {"kind": "training step", "verdict": "Consistent.", "refuted": False, "confidence": 0.99}


def test_bounds_and_claims_are_drawn_where_they_lie():
    text = audit_section([MECHANISM, STEP])
    parsed(text)
    dot = float(re.search(r'<circle class="dot main" cx="([\d.]+)"', text).group(1))
    claim = float(re.search(r'<line class="limit" x1="([\d.]+)"', text).group(1))
    zero, *_, last = (float(x) for x in re.findall(r'<line class="grid" x1="([\d.]+)"', text))
    scale = (last - zero) / 2  # the axis ends at 2
    assert dot == round(zero + 1.31 * scale, 1)
    assert claim == round(zero + 1.4512 * scale, 1)
    assert table(text, "audit-bounds")[1] == [
        "mechanism, one step",
        "0.01",
        "1.31",
        "1.452",
        "99 %",
    ]
    assert "&lt;well&gt;" in text
    assert text.count("<details>") == 2
    assert "None of 2 audits" in text


def test_a_refuted_claim_is_a_warning():
    refuted = {**MECHANISM, "refuted": True, "bound": {**MECHANISM["bound"], "audited": 1.6}}
    text = audit_section([refuted])
    assert "1 of 1 audits refuted the claim" in text
    assert "guarantee warning" in text
    assert 'class="dot bad"' in text


def test_audits_without_finite_numbers_are_listed_and_not_drawn():
    for bound in ({"delta": 0.01, "audited": 1.0, "claimed": "Infinity"}, "none", {"delta": 1}):
        text = audit_section([{"kind": "x", "bound": bound}])
        assert "<svg" not in text
        assert "did not refute" in text
    assert "None yet" in audit_section([])
