r"""TOML: text that is safe to parse (short, and without long dotted keys), and values as TOML writes them.

Python's parser needs memory that grows with the square of the number of dots in a key: a key of 40 KB takes 1.5 GB.
`parse_toml` refuses such a text before it is parsed.

Inside the package: `parse_recipe`, `parse_toml`, `toml_sections`, `toml_value`, `UnsafeToml`, `MAX_BYTES`.

>>> parse_toml('[data]\ngraph = "a.b.c"')
{'data': {'graph': 'a.b.c'}}
>>> parse_toml("a.b.c.d.e.f.g.h.i.j = 1")
Traceback (most recent call last):
reldp.training.toml_text.UnsafeToml: keys must have at most 8 dots, got more on line 1
"""

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from reldp.errors import ConfigError

__all__ = ["MAX_BYTES", "UnsafeToml", "parse_recipe", "parse_toml", "toml_sections", "toml_value"]

MAX_BYTES = 2**16
_MAX_DOTS = 8
_SEPARATORS = frozenset("=,{}[]\n")

# A comment, a string, a dot, the end of a line, or what separates keys; everything else is of no interest. A string
# that is not closed ends with its line, or of several lines with the text, as it does for the parser: each character
# is looked at once.
_TOKEN = re.compile(
    r"""\#[^\n]*|\"{3}(?:[^\\]|\\.)*?(?:\"{3,5}|\\?\Z)|'{3}.*?(?:'{3,5}|\Z)|"(?:[^"\\\n]|\\[^\n])*+"?|'[^'\n]*+'?|[.=,{}\[\]\n]""",
    re.DOTALL,
)


class UnsafeToml(ValueError):
    """A text that would cost too much to parse; the message says which limit it exceeds."""


def parse_recipe(text: str) -> dict[str, dict[str, Any]]:
    """Parse the text of a recipe.

    Raises:
        ConfigError: It is not TOML, or would cost too much to parse.
    """
    try:
        return parse_toml(text)
    except (tomllib.TOMLDecodeError, UnsafeToml) as error:
        raise ConfigError(f"The recipe must be TOML: {error}.") from None
    except (ValueError, RecursionError):  # thousands of digits or brackets
        raise ConfigError(
            "The recipe must be TOML, got a number or a list that is too long."
        ) from None


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML text.

    Raises:
        UnsafeToml: The text is too long, or has a key with too many dots.
        ValueError: It is no TOML (`tomllib.TOMLDecodeError`), or has a number of thousands of digits.
        RecursionError: It has thousands of brackets within brackets.
    """
    if len(text) > MAX_BYTES or len(text.encode(errors="replace")) > MAX_BYTES:
        raise UnsafeToml(f"it must have at most {MAX_BYTES:,} bytes, got more")
    num_dots = 0
    for token in _TOKEN.finditer(text):
        num_dots = num_dots + 1 if token[0] == "." else num_dots
        if num_dots > _MAX_DOTS:
            line = text.count("\n", 0, token.start()) + 1
            raise UnsafeToml(f"keys must have at most {_MAX_DOTS} dots, got more on line {line}")
        if token[0] in _SEPARATORS:
            num_dots = 0
    return tomllib.loads(text)


def toml_value(value: Any) -> str:
    """Return a plain value as TOML writes it."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{k} = {toml_value(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def toml_sections(values: Mapping[str, Mapping[str, Any]]) -> str:
    """Return sections of plain values as a TOML text."""
    sections = [
        "\n".join([f"[{section}]", *(f"{k} = {toml_value(v)}" for k, v in settings.items())])
        for section, settings in values.items()
    ]
    return "\n\n".join(sections) + "\n"
