r"""``reldp theory``: shows the theory page that certificates and code cite, or one section of it.

The page is ``docs/theory.md``. A wheel carries it as package data; in a source checkout it is read from the ``docs``
folder. Public to tests: `page_path`, `sections`.

>>> sections("# Title\n## 1. One\ntext\n### 1.1 Part\nmore\n## 2. Two\n")["1"]
'## 1. One\ntext\n### 1.1 Part\nmore\n'
"""

import re
from importlib.resources import files
from pathlib import Path

import click

from reldp.cli.commands import Command, option
from reldp.cli.options import json_option
from reldp.cli.output import print_json
from reldp.errors import InputError

__all__ = ["command", "page_path", "sections"]

_HEADING = re.compile(r"^(#{2,3}) (?:(\d+(?:\.\d+)?)\.? )?(.+)$", re.MULTILINE)


def page_path(package: Path) -> Path:
    """Return where the page is, for the folder of the installed package or of a checkout's ``src/reldp``."""
    candidates = (package / "docs" / "theory.md", package.parent.parent / "docs" / "theory.md")
    for path in candidates:
        if path.is_file():
            return path
    raise InputError(
        "docs/theory.md must be part of the installation, got none. Install reldp again."
    )


def sections(page: str) -> dict[str, str]:
    """Return the text of every section, subsections included, by its number or, without one, by its title."""
    headings = list(_HEADING.finditer(page))
    texts = {}
    for place, heading in enumerate(headings):
        level = len(heading[1])
        after = (h.start() for h in headings[place + 1 :] if len(h[1]) <= level)
        texts[heading[2] or heading[3].lower()] = page[heading.start() : next(after, len(page))]
    return texts


@click.command(cls=Command, examples=["reldp theory 3.2"])
@click.argument("section", required=False)
@option(
    "--path",
    "show_path",
    is_flag=True,
    group="Main options",
    help="Print the path of the page instead of its text.",
)
@json_option
def command(section: str | None, show_path: bool, as_json: bool) -> None:
    """Show the definitions, theorems and proofs behind every epsilon.

    SECTION is a number as certificates cite it: reldp theory 3.2 shows what "theory.md 3.2" refers to. Without it the
    whole page is shown. On a terminal the text opens in a pager.
    """
    path = page_path(Path(str(files("reldp"))))
    if show_path:
        click.echo(path)
        return
    text = path.read_text(encoding="utf-8")
    if section is not None:
        known = sections(text)
        if section.lower() not in known:
            raise InputError(f"SECTION must be one of {', '.join(known)}, got {section!r}.")
        text = known[section.lower()]
    if as_json:
        print_json({"section": section, "path": str(path), "text": text})
        return
    click.echo_via_pager(text)
