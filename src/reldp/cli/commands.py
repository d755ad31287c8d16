"""Help pages: options under headings, the important ones first, and examples that can be copied.

`Command` prints its options by the ``group`` of each `Option`, in the order in which groups first appear, and its
examples as they are written. Options without a group come last.

Public to the other commands: `Command`, `Option`, `option`.

>>> @click.command(cls=Command, examples=["greet --name Ada"])
... @option("--name", group="Main options", help="Name to greet.")
... def greet(name):
...     "Say hello."
>>> print(greet.get_help(click.Context(greet, info_name="greet")))
Usage: greet [OPTIONS]
<BLANKLINE>
  Say hello.
<BLANKLINE>
Main options:
  --name TEXT  Name to greet.
<BLANKLINE>
Other options:
  --help  Show this message and exit.
<BLANKLINE>
Examples:
  greet --name Ada
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import click

__all__ = ["Command", "Option", "option"]

Function = TypeVar("Function", bound=Callable[..., Any])

OTHER = "Other options"


class Option(click.Option):
    """An option with a heading to stand under."""

    def __init__(self, *names: Any, group: str = OTHER, **settings: Any) -> None:
        """Make an option; see `click.Option`.

        Args:
            *names: Its spellings.
            group: The heading.
            **settings: As for `click.Option`.
        """
        super().__init__(*names, **settings)
        self.group = group

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the flag and its help, with a default in parentheses at the end of the sentence."""
        record = super().get_help_record(ctx)
        if record is None:
            return None
        return record[0], re.sub(r"\.?\s+\[(default: .*|required)\]$", r" (\1).", record[1])


option = partial(click.option, cls=Option)


class Command(click.Command):
    """A command whose help page has headings and examples."""

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        """Make a command; see `click.Command`.

        Args:
            *arguments: As for `click.Command`.
            examples: Command lines, each printed as it is.
            **settings: As for `click.Command`.
        """
        super().__init__(*arguments, **settings)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse empty words before the rest is read.

        Raises:
            click.UsageError: A word, or the value of an option, is empty.
        """
        for word in args:
            name, is_set, value = word.partition("=")
            if not word or (is_set and not value and name.startswith("--")):
                which = f"{name} " if name else "A word of the command "
                raise click.UsageError(  # as a path, it would be the current folder
                    f"{which}must not be empty, got ''. A variable of the shell may not be set", ctx
                )
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each group under its heading."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                groups.setdefault(getattr(parameter, "group", OTHER), []).append(record)
        for heading in sorted(
            groups, key=lambda name: name == OTHER
        ):  # stable: the rest keep their order
            with formatter.section(heading):
                formatter.write_dl(groups[heading])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples without wrapping them."""
        super().format_epilog(ctx, formatter)
        if not self.examples:
            return
        with formatter.section("Examples"):
            for example in self.examples:
                for line in example.splitlines():
                    formatter.write(f"{' ' * formatter.current_indent}{line}\n")
