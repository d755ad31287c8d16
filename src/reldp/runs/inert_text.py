r"""Words of somebody else in what reldp writes: no control characters, no markup, nothing that leaves its place.

A ledger is written by whoever publishes a run. Names and values in it that reldp does not choose, such as the name of
a model, appear in certificate.md, in the model card, in pages and on terminals, where they must stay words.

Public inside the package: `code_text`, `html_text`, `inert_text`, `visible_text`.

>>> inert_text("a\n# Privacy <script>")
'a # Privacy &lt;script>'
>>> code_text("a`b")
"`a'b`"
>>> html_text("<b>")
'&lt;b&gt;'
"""

import re
import unicodedata
from html import escape

__all__ = ["code_text", "html_text", "inert_text", "visible_text"]

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})  # categories of Unicode


def inert_text(text: str) -> str:
    """Return one line of Markdown without control and direction characters, tags, links and pictures.

    Letters, digits and punctuation that Markdown shows as they are stay as they are.
    """
    printable = "".join(c if c.isprintable() else " " for c in text)
    return _TAG.sub("&lt;", " ".join(printable.split())).replace("](", "] (")


def code_text(text: str) -> str:
    """Return text as a code span of Markdown, which it cannot end."""
    shown = (
        inert_text(text).replace("&lt;", "< ").replace("`", "'")
    )  # code spans show entities as they are
    return f"`{shown}`"


def html_text(text: str) -> str:
    """Return text for a page: escaped, without control and direction characters; lines may end."""
    return escape(visible_text(text))


def visible_text(text: str) -> str:
    """Return text for a terminal: without control and direction characters; lines may end."""
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in _HIDDEN:
        return character
    return " "
