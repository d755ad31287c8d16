"""certificate.html: the certificate on one page, with places for names, signatures and dates.

For the person who has to sign that a run's guarantee was looked at. It has nothing sensitive, and is a function of the
certificate: `reldp.verify` recomputes and compares it.

Public inside the package: `certificate_form`.

>>> "Signature" in certificate_form.__doc__
True
"""

from collections.abc import Iterable, Mapping
from typing import Any

from reldp.reporting.page import facts, page, paragraph, sentences
from reldp.reporting.report import encoder_name
from reldp.reporting.short_sentences import short_assumptions
from reldp.runs.certificate import Certificate
from reldp.runs.certificate_text import analysis_words, given_rows, size_rows, status_words
from reldp.runs.inert_text import html_text
from reldp.runs.made_by import is_since
from reldp.runs.wording import SEARCH_EPSILON, shown

__all__ = ["certificate_form"]

_LINES = ("Responsible for the training", "Responsible for the data", "Privacy officer")


def certificate_form(certificate: Certificate, checks: Iterable[str]) -> str:
    """Return the content of certificate.html: one page to print, with lines for a name, a Signature and a date.

    Args:
        certificate: The certificate of the run.
        checks: The checks that `reldp.verify` made, in words.
    """
    values = certificate.values
    guarantee, steps, ledger = values["guarantee"], values["steps"], values["ledger"]
    kind = "guarantee" if certificate.status in ("proven", "computed") else "guarantee warning"
    made = list(checks)
    assumed = short_assumptions(values["assumptions"])
    rows = [
        (
            f"{SEARCH_EPSILON} and delta"
            if certificate.status == "computed"
            else "epsilon and delta",
            f"{shown(guarantee['epsilon']['pld'])} and {shown(guarantee['delta'])}{_large_delta(values)}",
        ),
        *given_rows(guarantee),
        ("status", _status(values)),
        ("who is protected", guarantee["adjacency"]),
        ("data", _data(values)),
        ("model", f"{encoder_name(values)}; plan {values['plan_hash']}"),
        (
            "steps",
            f"{steps['counted']:,} counted of {steps['planned']:,} planned, {values['date']}",
        ),
        ("audits", _audits(values["audits"])),
        (
            "verification",
            f"{len(made)} checks of reldp verify passed when this page was written; one more compares the page itself",
        ),
        ("head of the ledger", ledger["head"]),
    ]
    signing = "".join(
        f"<div>{html_text(who)}: name</div><div>signature</div><div>date</div>" for who in _LINES
    )
    return page(
        "Privacy certificate",
        f"{encoder_name(values)}, trained on private relations with reldp {values['versions'].get('reldp', '')}",
        [
            paragraph(certificate.summary, kind),
            facts("Certified run", rows),
            "<h2>Assumed</h2>",
            sentences(assumed) if assumed else paragraph("Nothing is guaranteed."),
            *_not_guaranteed(values),
            f'<div class="lines" role="group" aria-label="Places to sign">{signing}</div>',
        ],
        style="form",
    )


def _not_guaranteed(values: Mapping[str, Any]) -> list[str]:
    """Return what is not guaranteed, by its names alone where it is explained, and where the full text is."""
    if not is_since(values["versions"], 0, 9):
        return [
            paragraph(
                "The full text, with what is not guaranteed, is in certificate.md, whose ledger has the head above."
            )
        ]
    names = [sentence.partition(": ")[0].rstrip(".") for sentence in values["not_guaranteed"]]
    return [
        "<h2>Not guaranteed</h2>",
        paragraph(f"{'; '.join([names[0], *map(_lower, names[1:])])}."),
        paragraph("The full text is in certificate.md, whose ledger has the head above."),
    ]


def _lower(name: str) -> str:
    return name[:1].lower() + name[1:]


def _large_delta(values: Mapping[str, Any]) -> str:
    """Return a warning of a delta that allows to publish one of what is protected; empty for a smaller one."""
    by_relation = values["plan"]["unit"] == "relation" and is_since(values["versions"], 0, 11)
    name = "num_relations" if by_relation else "num_entities"
    if values["guarantee"]["delta"] < 1 / values["plan"][name]:
        return ""
    number, one = ("m", "relation") if by_relation else ("n", "entity")
    return f". Delta is not below 1/{number}: publishing one {one} outright would be allowed"


def _status(values: Mapping[str, Any]) -> str:
    guarantee = values["guarantee"]
    words = {
        "proven": f"proven ({guarantee['analysis']} analysis)",
        "computed": f"{status_words(guarantee)}; analysis: {analysis_words(guarantee)}",
        "claimed": "claimed, not proven",
        "none": "no guarantee",
    }
    return words.get(guarantee["status"], str(guarantee["status"]))


def _data(values: Mapping[str, Any]) -> str:
    data = values["data"]
    sizes = "; ".join(f"{name}: {value}" for name, value in size_rows(values["plan"], data))
    source = data["record"].get("source")
    return f"{f'{source}; ' if source else ''}{sizes}; commitment {data['commitment']}"


def _audits(audits: list[Mapping[str, Any]]) -> str:
    if not audits:
        return "none yet"
    refuted = sum(bool(audit.get("refuted")) for audit in audits)
    return f"{len(audits)}, of which {refuted} refuted the claim"
