"""report.html: one self-contained page about a run, for readers who will not open JSON.

It answers questions with pictures: what could an attacker do, who is protected how well, did it learn, what did audits
find, what is assumed. Evaluations and training curves are sensitive: they are folded away under a heading that says so,
and a public page omits them. The page loads nothing. It is a function of the certificate and, unless it is public,
of the run's sensitive files: `reldp.verify` recomputes and compares it.

Public inside the package: `report_page`, `is_full`, `curves_of`.

>>> is_full(b"<p>nothing</p>")
False
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from reldp.plan import PrivacyPlan
from reldp.reporting.audit_section import audit_section
from reldp.reporting.comparison import TOLERANCE
from reldp.reporting.learning_section import HEADING, learning_section
from reldp.reporting.page import (
    facts,
    folded,
    key_figures,
    page,
    paragraph,
    percent,
    section,
    sentences,
)
from reldp.reporting.privacy_curves import PrivacyCurves, privacy_curves
from reldp.reporting.privacy_sections import attacker_section, protection_section
from reldp.reporting.short_sentences import short_assumptions
from reldp.runs.certificate import Certificate
from reldp.runs.certificate_text import analysis_words, epsilon_rows, size_rows, status_words
from reldp.runs.privacy_cost import privacy_cost
from reldp.runs.run_folder import RunFolder
from reldp.runs.wording import other_relations, shown

__all__ = ["curves_of", "encoder_name", "is_full", "report_page"]

_Values = Mapping[str, Any]


def report_page(
    run: RunFolder, certificate: Certificate, checks: Iterable[str], *, public: bool
) -> str:
    """Return the content of report.html.

    Args:
        run: The run folder, for its sensitive files.
        certificate: The certificate of the run.
        checks: The checks that `reldp.verify` made, in words.
        public: Omit sensitive values.

    Raises:
        RunError: A sensitive file is damaged.
    """
    values = certificate.values
    curves = curves_of(certificate)
    learning = "" if public else learning_section(run)
    sections = [
        _guarantee(certificate, curves),
        "" if curves is None else attacker_section(curves),
        "" if curves is None else protection_section(curves),
        learning,
        audit_section(values["audits"]),
        _assumptions(values),
        _run_section(certificate),
        _checks(checks, values),
    ]
    contents = [
        *([] if curves is None else [("attacker", "Attacks"), ("protection", "Protection")]),
        *([("learning", "Learning (sensitive)")] if learning else []),
        *[("audits", "Audits"), ("assumptions", "Assumptions and limits")],
        *[("steps", "What ran"), ("verification", "Verification")],
    ]
    return page(
        "Privacy report",
        f"{encoder_name(values)}, trained on private relations. {values['date']}.",
        sections,
        contents=contents,
    )


def is_full(page: bytes) -> bool:
    """Return whether a page has the part with sensitive values."""
    return HEADING.encode() in page


def curves_of(certificate: Certificate) -> PrivacyCurves | None:
    """Return the curves of a certified run; None where there are none to draw.

    They are about the steps of one run, so there are none where epsilon is about more: for the best run of a search.
    """
    values = certificate.values
    if certificate.status != "proven":
        return None
    settings = {
        name: value for name, value in values["plan"].items() if name != "expected_batch_size"
    }
    plan = PrivacyPlan.from_dict(settings)
    steps = values["steps"]
    # The number of steps that the epsilon of the certificate is about.
    by_result = steps.get("stop_decided_by") == "result"
    counted = steps["planned" if by_result else "counted"]
    epsilon = certificate.epsilon
    if not math.isclose(privacy_cost(plan, "pld", counted).epsilon, epsilon, rel_tol=TOLERANCE):
        return None
    return privacy_curves(plan, counted, epsilon, values["guarantee"]["analysis"])


def encoder_name(values: _Values) -> str:
    """Return the name of the encoder that was trained."""
    encoder = values["encoder"]
    return str(encoder.get("base_model") or encoder.get("module") or "An encoder of features")


def _guarantee(certificate: Certificate, curves: PrivacyCurves | None) -> str:
    values = certificate.values
    guarantee, data = values["guarantee"], values["data"]
    kind = "guarantee" if certificate.status in ("proven", "computed") else "guarantee warning"
    rows = [
        ("epsilon", shown(guarantee["epsilon"]["pld"])),
        ("delta", shown(guarantee["delta"])),
        (f"relations of one {guarantee['unit']}", f"at most {data['max_degree']:,}")
        if guarantee["unit"] != "relation"
        else ("unit of privacy", "relation"),
    ]
    if curves is not None:
        rows.append(("1 % false alarms find", f"at most {percent(curves.worst(0.01))}"))
    missing = (
        ""
        if curves is not None
        else paragraph(
            "This page has no curves of attacks: they are drawn where a finite epsilon is proven for the steps of one "
            "run, and not for a search."
        )
    )
    return f"{paragraph(certificate.summary, kind)}\n{key_figures(rows)}\n{missing}"


def _assumptions(values: _Values) -> str:
    full = values["assumptions"]
    return section(
        "assumptions",
        "What is assumed, and what is not promised?",
        paragraph("Epsilon holds if all of this is true:")
        if full
        else paragraph("Nothing is guaranteed."),
        sentences(short_assumptions(full)),
        folded("The assumptions in full, as the certificate states them", sentences(full))
        if full
        else "",
        "<h3>Not guaranteed</h3>",
        sentences(values["not_guaranteed"]),
    )


def _run_section(certificate: Certificate) -> str:
    values = certificate.values
    plan, steps, data, encoder = (values[n] for n in ("plan", "steps", "data", "encoder"))
    guarantee = values["guarantee"]
    trained = encoder.get("adaptation", {}).get("train", "all layers")
    rows = [
        ("date", values["date"]),
        *size_rows(plan, data),
        ("degree bound", f"{data['max_degree']:,}, {data['degree_bound']}"),
        ("encoder", f"{encoder_name(values)}, trained: {trained}"),
        ("steps", f"{steps['counted']:,} counted of {steps['planned']:,} planned"),
        ("resumed", f"{steps['resumes']} times, {steps['abandoned']} steps abandoned"),
        ("batch", f"{plan['expected_batch_size']:,.6g} relations expected"),
        (
            "negatives",
            other_relations(plan["num_negatives"])
            if plan["negatives"] == "relations"
            else f"{plan['num_negatives']} per relation, from {plan['negatives']}",
        ),
        ("noise multiplier", f"{plan['noise_multiplier']:.6g}"),
        ("clip norm", f"{plan['clip_norm']:g}"),
        ("noise", values["noise"]["description"]),
        ("key", values["key"]),
    ]
    is_search = certificate.status == "computed"
    details = [
        *epsilon_rows(guarantee, "epsilon (Renyi, a second computation)"),
        ("status", status_words(guarantee)),
        ("analysis", analysis_words(guarantee) if is_search else guarantee["analysis"]),
        ("neighboring graphs", guarantee["adjacency"]),
        ("sizes", guarantee["sizes"]),
        ("clipping", guarantee["clipping"]),
    ]
    return section(
        "steps",
        "What ran?",
        facts("The guarantee", details),
        facts("Settings and steps", rows),
    )


def _checks(checks: Iterable[str], values: _Values) -> str:
    ledger = values["ledger"]
    return section(
        "verification",
        "Was it verified?",
        paragraph(
            "These checks passed when the page was written. The page is a function of the run's files, and reldp "
            "verify recomputes and compares it. The sections of theory.md that it cites are shown by reldp theory."
        ),
        sentences(checks),
        facts(
            "To be noted in another place",
            [
                ("ledger", f"{ledger['entries']} entries"),
                ("head of the ledger", ledger["head"]),
                ("plan", values["plan_hash"]),
            ],
        ),
    )
