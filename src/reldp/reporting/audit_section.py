"""Audits of a run as a picture: lower bounds that were shown, against what is claimed.

An audit can refute a claim and never prove one. Everything here is public: audits of a ledger are about graphs that the
audit made itself.

Private to the package: `audit_section`.

>>> "None yet" in audit_section([])
True
"""

from collections.abc import Mapping, Sequence
from typing import Any

from reldp.reporting.charts import Axis, Range, range_chart, ticks
from reldp.reporting.page import facts, figure, folded, numbers, paragraph, section
from reldp.runs.certificate import number
from reldp.runs.wording import shown

__all__ = ["audit_section"]

_Values = Mapping[str, Any]


def audit_section(audits: Sequence[_Values]) -> str:
    """Return the section about audits.

    Args:
        audits: Results of audits, as a certificate has them.
    """
    if not audits:
        return section(
            "audits",
            "What did audits find?",
            paragraph("None yet: nobody has run reldp audit on this run."),
        )
    drawn = [audit for audit in audits if _can_be_drawn(audit)]
    refuted = [audit for audit in audits if audit.get("refuted")]
    outcome = (
        f"{len(refuted)} of {len(audits)} audits refuted the claim. Do not rely on epsilon."
        if refuted
        else f"None of {len(audits)} audits refuted the claim. An audit can refute a claim; it cannot prove one."
        if len(audits) > 1
        else "The audit did not refute the claim. An audit can refute a claim; it cannot prove one."
    )
    return section(
        "audits",
        "What did audits find?",
        paragraph(outcome, "guarantee warning" if refuted else ""),
        _picture(drawn) if drawn else "",
        _table(drawn) if drawn else "",
        *(
            folded(f"Audit {place}: {audit.get('kind', 'of its own kind')}", _facts(audit))
            for place, audit in enumerate(audits, 1)
        ),
    )


def _can_be_drawn(audit: _Values) -> bool:
    """Return whether an audit has a lower bound and a claim, both finite."""
    bound = audit.get("bound")
    if not isinstance(bound, Mapping):
        return False
    values = [bound.get(name) for name in ("audited", "claimed", "delta")]
    return all(type(value) in (int, float) for value in values)


def _steps(audit: _Values) -> str:
    steps = audit.get("steps composed", 1)
    return "one step" if steps == 1 else f"{steps:,} steps"


def _label(audit: _Values) -> str:
    return f"{audit.get('kind', 'audit')}, {_steps(audit)}, delta {shown(audit['bound']['delta'])}"


def _picture(audits: Sequence[_Values]) -> str:
    rows = [
        Range(
            label=_label(audit),
            words=f"{_label(audit)}: epsilon is at least {audit['bound']['audited']:.3g}, the claim is "
            f"{shown(audit['bound']['claimed'])}",
            value=audit["bound"]["audited"],
            low=0.0,
            high=audit["bound"]["audited"],
            limit=audit["bound"]["claimed"],
            style="bad" if audit.get("refuted") else "main",
        )
        for audit in audits
    ]
    top = ticks(0.0, 1.05 * max(max(row.limit or 0, row.value or 0) for row in rows), 5)[-1]
    return figure(
        range_chart(
            "Audits of this run",
            "; ".join(row.words for row in rows) + ".",
            rows,
            x=Axis(label="epsilon", low=0.0, high=top, form="{:.4g}".format),
        ),
        "The dot is the lower bound that the audit showed, the bar is the claim. A dot to the right of its bar would "
        "refute the claim. Both are for the steps of one trial, not for the whole run.",
        wide=True,
    )


def _table(audits: Sequence[_Values]) -> str:
    return numbers(
        "Lower bounds that audits showed, and claims for the same steps",
        ("audit", "delta", "at least", "claimed", "confidence"),
        [
            (
                f"{audit.get('kind', 'audit')}, {_steps(audit)}",
                shown(audit["bound"]["delta"]),
                f"{audit['bound']['audited']:.3g}",
                shown(audit["bound"]["claimed"]),
                f"{100 * number(audit.get('confidence', 0)):.6g} %",
            )
            for audit in audits
        ],
        name="audit-bounds",
    )


def _facts(audit: _Values) -> str:
    rows = []
    for name, value in audit.items():
        if isinstance(value, Mapping):
            rows += [(f"{name}.{inner}", one) for inner, one in value.items()]
        else:
            rows.append((name, value))
    return facts("All values of this audit", rows)
