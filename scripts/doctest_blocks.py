r"""An extension of griffe: examples in docstrings become code blocks on the pages of the reference.

>>> fenced("Add.\n\n>>> 1 + 1\n2").split("\n")[2:]
['```pycon', '>>> 1 + 1', '2', '```']
"""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^|(?<=\n\n))>>> .*?(?=\n\n|\Z)", flags=re.DOTALL)


def fenced(docstring: str) -> str:
    """Return a docstring with fences around its examples, which are not indented."""
    return _EXAMPLE.sub(lambda match: f"```pycon\n{match.group().rstrip()}\n```", docstring)


class DoctestBlocks(griffe.Extension):
    """Put fences around the examples of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object that was loaded."""
        if obj.docstring is not None and not obj.is_alias:
            obj.docstring.value = fenced(obj.docstring.value)
