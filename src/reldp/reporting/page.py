r"""Parts of the pages that reldp writes: the page itself, tables with headers, figures, folded parts. Text is escaped.

Private to the package: `page`, `section`, `facts`, `numbers`, `figure`, `folded`, `sentences`, `paragraph`,
`key_figures`, `percent`.

>>> paragraph("epsilon < 4")
'<p>epsilon &lt; 4</p>'
>>> percent(0.04799), percent(0.0004), percent(0.99999)
('4.8\xa0%', '0.04\xa0%', '100\xa0%')
"""

import math
import re
from collections.abc import Iterable, Sequence

from reldp.reporting.style import POLICY, SCRIPT, STYLE
from reldp.runs.inert_text import html_text

__all__ = [
    "facts",
    "figure",
    "folded",
    "key_figures",
    "numbers",
    "page",
    "paragraph",
    "percent",
    "section",
    "sentences",
]

_HASH = re.compile(r"\b[0-9a-f]{64}\b")


def page(
    title: str,
    subtitle: str,
    body: Iterable[str],
    *,
    contents: Sequence[tuple[str, str]] = (),
    style: str = "",
) -> str:
    """Return a whole page.

    Args:
        title: Its heading.
        subtitle: A line below the heading.
        body: Its parts, as HTML; empty ones are left out.
        contents: Names of sections and their headings, for the navigation.
        style: Class of the page in the style sheet.
    """
    parts = "\n".join(part for part in body if part)
    links = "".join(
        f'<li><a href="#{name}">{html_text(words)}</a></li>' for name, words in contents
    )
    navigation = f'\n<nav aria-label="Contents"><ul>{links}</ul></nav>' if links else ""
    kind = f' class="{style}"' if style else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html_text(title)}</title>\n<style>{STYLE}</style></head>\n<body{kind}>\n"
        f'<header><h1>{html_text(title)}</h1>\n<p class="lead">{html_text(subtitle)}</p>{navigation}</header>\n'
        f"<main>\n{parts}\n</main>\n<script>{SCRIPT}</script>\n</body></html>\n"
    )


def section(name: str, title: str, *parts: str) -> str:
    """Return a section with a heading that the navigation can link to."""
    body = "\n".join(part for part in parts if part)
    return f'<section aria-labelledby="{name}">\n<h2 id="{name}">{html_text(title)}</h2>\n{body}\n</section>'


def paragraph(text: str, style: str = "") -> str:
    """Return a paragraph."""
    kind = f' class="{style}"' if style else ""
    return f"<p{kind}>{html_text(text)}</p>"


def sentences(items: Iterable[str]) -> str:
    """Return a list with one sentence per item; nothing for no sentences."""
    body = "".join(f"<li>{html_text(item)}</li>" for item in items)
    return f"<ul>{body}</ul>" if body else ""


def facts(caption: str, rows: Iterable[tuple[str, object]]) -> str:
    """Return a table of names and values."""
    body = "".join(
        f'<tr><th scope="row">{html_text(str(name))}</th><td>{_value(value)}</td></tr>'
        for name, value in rows
    )
    return f"<table><caption>{html_text(caption)}</caption><tbody>{body}</tbody></table>"


def _value(value: object) -> str:
    """Return a value as text; hashes as code."""
    return _HASH.sub(r"<code>\g<0></code>", html_text(str(value)))


def numbers(
    caption: str,
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    stressed: object = None,
    name: str = "",
) -> str:
    """Return a table of numbers, whose first column names the rows.

    Args:
        caption: What the table shows.
        headers: Names of the columns.
        rows: Values.
        stressed: First value of the row to stress: that of the run itself.
        name: Identifier of the table, so that programs find it.
    """
    head = "".join(f'<th scope="col">{html_text(header)}</th>' for header in headers)
    lines = []
    for first, *rest in rows:
        cells = "".join(f"<td>{html_text(str(value))}</td>" for value in rest)
        kind = ' class="own"' if stressed is not None and first == stressed else ""
        lines.append(f'<tr{kind}><th scope="row">{html_text(str(first))}</th>{cells}</tr>')
    identifier = f' id="{name}"' if name else ""
    return (
        f'<table class="numbers"{identifier}><caption>{html_text(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )


def figure(drawing: str, caption: str = "", *, wide: bool = False) -> str:
    """Return a drawing with its caption."""
    kind = ' class="wide"' if wide else ""
    below = f"<figcaption>{html_text(caption)}</figcaption>" if caption else ""
    return f"<figure{kind}>{drawing}{below}</figure>"


def folded(title: str, *parts: str) -> str:
    """Return parts that are folded away until a reader opens them."""
    return f"<details><summary>{html_text(title)}</summary>\n{''.join(parts)}</details>"


def key_figures(rows: Iterable[tuple[str, str]]) -> str:
    """Return the few numbers that a reader looks for first."""
    body = "".join(
        f"<div><dt>{html_text(name)}</dt><dd>{html_text(value)}</dd></div>" for name, value in rows
    )
    return f'<dl class="figures">{body}</dl>'


def percent(share: float) -> str:
    """Return a share in percent, rounded up: one decimal, below 1 % two."""
    value = 100 * share
    digits = 10.0 if value >= 1 else 100.0
    return f"{math.ceil(round(value * digits, 6)) / digits:g}\u00a0%"
