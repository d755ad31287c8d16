"""One setting of a recipe: its kind, what it does, and its default.

Inside the package: `Setting`.

>>> Setting("number", "Epsilon.").check("target_epsilon", "four")
Traceback (most recent call last):
reldp.errors.ConfigError: `target_epsilon` must be a number, got 'four'.
"""

import textwrap
from dataclasses import dataclass
from typing import Any

from reldp._validate import refuse
from reldp.errors import ConfigError

__all__ = ["Setting"]

_KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "whole number": (int,),
    "number": (int, float),
    "true or false": (bool,),
    "list": (list, tuple),
    "list or text": (list, tuple, str),
    "table": (dict,),
}


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        kind: One of the words of `_KINDS`.
        about: What it does, in sentences.
        example: How to write it in TOML, where there is no default to show.
        choices: The values that are allowed, where there are only a few.
        default: The value that holds if none is given; None if it follows from the data or the model.
    """

    kind: str
    about: str
    example: str = ""
    choices: tuple[str, ...] = ()
    default: Any = None

    def lines(self) -> list[str]:
        """Return the description as lines of a comment."""
        choices = f" One of {', '.join(self.choices)}." if self.choices else ""
        return textwrap.wrap(self.about + choices, 96)

    def check(self, name: str, value: Any) -> None:
        """Refuse a value of another kind; the class that the setting belongs to checks its range."""
        fits = isinstance(value, _KINDS[self.kind])
        if isinstance(value, bool) and self.kind != "true or false":
            fits = False
        if not fits:
            article = "" if self.kind in ("true or false", "text") else "a "
            refuse(name, f"{article}{self.kind}", value, error=ConfigError)
