"""Options of commands that read a graph.

Public to the other commands: `drop_option`.

>>> drop_option.__name__
'drop_option'
"""

from collections.abc import Callable
from typing import Any, TypeVar

from reldp.cli.commands import OTHER, option
from reldp.training.recipe_settings import SECTIONS

__all__ = ["drop_option"]

Function = TypeVar("Function", bound=Callable[..., Any])


def drop_option(function: Function) -> Function:
    """Give a command ``--drop``."""
    return option(
        "--drop",
        multiple=True,
        group=OTHER,
        metavar="KIND",
        help=f"{SECTIONS['data']['drop'].about.rstrip('.')}; may be repeated.",
    )(function)
