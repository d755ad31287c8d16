r"""One line of a file as one record: a JSON object, or the dictionary that Python prints for one.

The public product metadata of 2014 are lines such as ``{'asin': 'B00A', 'title': "Rider's lamp"}``, which JSON does not
allow. They are read by `ast.literal_eval`, never by `eval`, and only after their outline was checked: strings,
numbers, ``None``, ``True`` and ``False`` inside of braces, brackets and parentheses that are nested a few levels deep.
So no line can call anything, and none can exhaust the parser's stack, which `ast.literal_eval` alone does not promise.

Inside the package: `parse_record`, `MAX_LINE`, `MAX_DEPTH`.

>>> parse_record(b"{'asin': 'B00A', 'salesRank': -1.5, 'related': {'also_bought': ['B00B']}}")["related"]
{'also_bought': ['B00B']}
>>> parse_record(b"{'asin': open('/etc/passwd')}")
Traceback (most recent call last):
ValueError: no literal
"""

import ast
import json
import re
import warnings
from typing import Any

__all__ = ["MAX_DEPTH", "MAX_LINE", "parse_record"]

MAX_LINE = 1 << 22
"""Maximum number of bytes of a line."""

MAX_DEPTH = 16
"""Maximum nesting of a Python literal; published records have three levels."""

# A string that does not end matches as well, up to the end of the line: otherwise every quote in it would be tried.
_STRING = re.compile(
    r"""u?'[^'\\]*+(?:\\.[^'\\]*+)*+(?:'|\\?$)|u?"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?$)"""
)
_ATOM = re.compile(r"-?\d[\d.]*(?:[eE][+-]?\d+)?|\b(?:None|True|False)\b")
# Anything but a literal: other characters, two values in a row (1 -1, or strings side by side), calls and subscripts.
_OTHER = re.compile(r"[^\[\](){},:v]|vv|[v)\]}][v(\[{]")


def parse_record(line: bytes) -> dict[str, Any]:
    """Return the record of a line.

    Raises:
        ValueError: The line is not UTF-8, too long, too deep, or no object; the message does not quote it.
    """
    if len(line) > MAX_LINE:
        raise ValueError("line too long")
    try:
        text = line.decode("utf-8").strip()
        record = _parsed(text)
    except (UnicodeDecodeError, SyntaxError, RecursionError, MemoryError, TypeError):
        raise ValueError("no record") from None
    if not isinstance(record, dict):
        raise ValueError("no object")
    return record


def _parsed(text: str) -> Any:
    """Return the value of a JSON line, or of a Python literal."""
    if not text.startswith("{'"):
        try:
            return json.loads(text)
        except ValueError:
            if not text.startswith("{"):
                raise
    _check_outline(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about escapes such as \d, which mean what they say
        return ast.literal_eval(text)


def _check_outline(text: str) -> None:
    """Refuse what is no plain nested literal before it reaches the parser."""
    outline = _STRING.sub("v", text)
    outline = "".join(_ATOM.sub("v", outline).split())
    if _OTHER.search(outline):
        raise ValueError("no literal")
    depth = deepest = 0
    for mark in outline:
        if mark in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif mark in ")]}":
            depth -= 1
    if deepest > MAX_DEPTH:
        raise ValueError("nested too deeply")
