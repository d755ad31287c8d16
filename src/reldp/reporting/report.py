"""report.html: one self-contained page about a run, for readers who will not open JSON.

It shows the guarantee, the steps that ran, training curves, evaluations, and how to verify all this.
Curves and evaluations are sensitive: they stand under a heading that says so, and a public page omits
them. The page loads no script, font or picture. It is a function of the certificate and, unless it is
public, of the run's sensitive files: `reldp.verify` recomputes and compares it.

Public inside the package: `report_page`, `is_full`.

>>> _table([("epsilon", "< 4")])
'<table><tr><td>epsilon</td><td>&lt; 4</td></tr></table>'
"""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from reldp.errors import RunError
from reldp.reporting.charts import line_chart
from reldp.runs.certificate import Certificate
from reldp.runs.certificate_text import size_rows
from reldp.runs.run_folder import RunFolder
from reldp.runs.wording import shown

__all__ = ["is_full", "report_page"]

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 46rem; margin: 2.5rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.92rem; }
td, th { padding: 0.3rem 0.6rem 0.3rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent); overflow-wrap: anywhere; }
td:first-child { opacity: 0.7; width: 14rem; }
.guarantee { font-size: 1.15rem; padding: 0.9rem 1.1rem; border-left: 4px solid #3b82f6;
  background: color-mix(in srgb, #3b82f6 8%, transparent); }
.warning { border-left-color: #d97706; background: color-mix(in srgb, #d97706 10%, transparent); }
.sensitive { border: 1px dashed #d97706; padding: 0 1rem 0.6rem; border-radius: 6px; }
svg { width: 100%; font-size: 11px; fill: currentColor; } figure { margin: 1rem 0; }
figcaption, footer { font-size: 0.85rem; opacity: 0.75; }
""".strip()

_MARK = "sensitive"
_CURVES = (
    ("loss", "mean loss of a tuple"),
    ("median_norm", "median gradient norm before clipping"),
    ("clipped_share", "share of gradients that were clipped"),
    ("num_tuples", "realized batch size"),
)

_SENSITIVE = "<h2>Sensitive: keep this part to yourself</h2>"

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
    sections = [
        _guarantee(certificate),
        _run_section(values),
        _list("Assumptions", values["assumptions"]),
        _list("Not guaranteed", values["not_guaranteed"]),
        _audits(values["audits"]),
        "" if public else _sensitive(run),
        _checks(checks, values),
    ]
    return _page("Training on private relations", sections)


def is_full(page: bytes) -> bool:
    """Return whether a page has the part with sensitive values."""
    return _SENSITIVE.encode() in page


def _page(title: str, sections: Iterable[str]) -> str:
    body = "\n".join(section for section in sections if section)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style></head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def _guarantee(certificate: Certificate) -> str:
    guarantee = certificate.values["guarantee"]
    kind = "guarantee" if certificate.status == "proven" else "guarantee warning"
    rows = [
        ("epsilon (privacy-loss distributions)", shown(guarantee["epsilon"]["pld"])),
        ("epsilon (Renyi)", shown(guarantee["epsilon"]["rdp"])),
        ("delta", shown(guarantee["delta"])),
        ("status", guarantee["status"]),
        ("neighboring graphs", guarantee["adjacency"]),
        ("sizes", guarantee["sizes"]),
        ("clipping", guarantee["clipping"]),
        ("noise", certificate.values["noise"]["description"]),
        ("key", certificate.values["key"]),
    ]
    return f'<p class="{kind}">{escape(certificate.summary)}</p>\n{_table(rows)}'


def _run_section(values: _Values) -> str:
    plan, steps, data, encoder = (values[n] for n in ("plan", "steps", "data", "encoder"))
    trained = encoder.get("adaptation", {}).get("train", "all layers")
    rows = [
        ("date", values["date"]),
        *size_rows(plan, data),
        ("degree bound", f"{data['max_degree']}, {data['degree_bound']}"),
        (
            "encoder",
            f"{encoder.get('base_model') or encoder.get('module', 'features')}, trained: {trained}",
        ),
        ("steps", f"{steps['counted']:,} counted of {steps['planned']:,} planned"),
        ("resumed", f"{steps['resumes']} times, {steps['abandoned']} steps abandoned"),
        ("batch", f"{plan['expected_batch_size']:,.6g} relations expected"),
        ("negatives", f"{plan['num_negatives']} per relation, from {plan['negatives']}"),
        ("noise multiplier", f"{plan['noise_multiplier']:.6g}"),
        ("clip norm", f"{plan['clip_norm']:g}"),
    ]
    return f"<h2>Steps that ran</h2>\n{_table(rows)}"


def _list(title: str, sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f"<h2>{escape(title)}</h2>\n<ul>{items}</ul>"


def _audits(audits: list[_Values]) -> str:
    if not audits:
        return "<h2>Audits</h2>\n<p>None yet.</p>"
    return "<h2>Audits</h2>\n" + "".join(_table(list(audit.items())) for audit in audits)


def _sensitive(run: RunFolder) -> str:
    """Return curves and evaluations, under their warning."""
    broken = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError)
    try:
        figures = "".join(_figures(run.read_lines(run.metrics)))
    except broken:
        raise RunError(
            f"{run.metrics.name} must hold the lines that training logged, got damage."
        ) from None
    try:
        evaluations = _evaluations(run.read_lines(run.evaluations))
    except broken:
        raise RunError(
            f"{run.evaluations.name} must hold results of evaluations, got damage."
        ) from None
    if not figures and not evaluations:
        return ""
    return (
        f'{_SENSITIVE}\n<div class="sensitive">'
        "<p>Computed from private data without noise: epsilon does not cover this part.</p>"
        f"{figures}{evaluations}</div>"
    )


def _figures(lines: Iterable[_Values]) -> Iterable[str]:
    """Yield a curve of each number that training logged."""
    logged = [line for line in lines if _MARK in line]
    for name, label in _CURVES:
        known = [line for line in logged if name in line[_MARK]]
        if known:
            steps = [line["step"] for line in known]
            values = [float(line[_MARK][name]) for line in known]
            chart = line_chart(steps, values, label=label)
            yield f"<figure>{chart}<figcaption>{escape(label)}</figcaption></figure>"


def _evaluations(lines: list[dict[str, Any]]) -> str:
    if not lines:
        return ""
    rows = []
    for line in lines:
        words = ", ".join(
            f"{name} {100 * line[name]:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
            for name, (low, high) in line["intervals"].items()
        )
        rows.append((f"{line.get('graph', '')}, {line['candidates']} candidates", words))
    return f"<h3>Relation prediction</h3>{_table(rows)}"


def _checks(checks: Iterable[str], values: _Values) -> str:
    items = "".join(f"<li>{escape(check)}</li>" for check in checks)
    return (
        f"<h2>Verified when this page was written</h2>\n<ul>{items}</ul>\n<footer>Ledger: "
        f"{values['ledger']['entries']} entries, head {escape(values['ledger']['head'])}. Check "
        "again with <code>reldp verify</code>.</footer>"
    )


def _table(rows: Iterable[tuple[str, object]]) -> str:
    cells = "".join(
        f"<tr><td>{escape(str(name))}</td><td>{escape(str(value))}</td></tr>"
        for name, value in rows
    )
    return f"<table>{cells}</table>"
