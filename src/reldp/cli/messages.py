r"""Messages of the library as a shell user reads them: names of options that exist, one line, printable.

The library writes arguments as `` `max_degree` ``. Here they become the options of the command that was called,
``--max-degree``; a setting that ``reldp train`` has no option for becomes its name in a recipe,
``performance.threads``; any other name stays as it is, without a dash: there is no such option. Advice in
Python, ``drop={'self_relations'}``, becomes ``--drop self_relations`` where the command has it,
`` `eval_shares_ids=True` `` becomes ``--set data.eval_shares_ids=true``, and the name of a class or function
becomes the option that does the same, or is left out.

Public to `reldp.cli.main`: `as_shell_message`.

>>> as_shell_message("`num_steps` must be small, and\n`analyshs` is nothing.", "account")
'--num-steps must be small, and analyshs is nothing.'
"""

import re
from functools import lru_cache
from importlib import import_module

import click

__all__ = ["as_shell_message"]

_NAME = re.compile(r"`([a-z][a-z_0-9]*(?:\.[a-z_0-9]+)?)`")
_TRUE = re.compile(r"`([a-z][a-z_]*)=True`")
_DROP = re.compile(r"drop=\{'([a-z_]+)'\}")
_OR_DROP = re.compile(r",? or drop [a-z ]+ with drop=\{'[a-z_]+'\}")
_IN_PYTHON = {
    " Use FeatureEncoder for them.": {
        "train": " Leave out --model: a linear layer is trained on features."
    },
    " Use TextEncoder for entities with text.": {},
    " Use cap_degrees to drop relations.": {
        "train": " Leave out --promise-degrees to drop relations at random instead."
    },
}
"""Advice for users of the library, with what it is for users of a command; nothing for other commands."""
_SHOW_IDS = re.compile(r"[;.] ?[Ss]et `show_ids` to see ([a-z ]+)\.")


def as_shell_message(message: str, command: str | None) -> str:
    """Return a message on one line, with the options of a command.

    Args:
        message: A message of the library.
        command: Name of the command that was called, if one was.
    """
    flags = _flags(command)
    if "--drop" in flags:
        message = _DROP.sub(r"--drop \1", message)
    else:
        message = _OR_DROP.sub("", message)
    if "--show-ids" not in flags:
        message = _SHOW_IDS.sub(".", message)
    for advice, instead in _IN_PYTHON.items():
        message = message.replace(advice, instead.get(command or "", ""))
    message = _TRUE.sub(lambda match: _set(match.group(1), flags), message)
    line = " ".join(
        _NAME.sub(lambda match: _shown(match.group(1), command, flags), message).split()
    )
    # Messages quote what the user typed: no control character may reach the terminal.
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def _shown(name: str, command: str | None, flags: frozenset[str]) -> str:
    """Return a name as the user of a command writes it."""
    if name == "source" and "--model" in flags:  # the library's name for a model's place
        return "--model"
    flag = "--" + name.replace("_", "-")
    if flag in flags:
        return flag
    if name.upper() in flags:
        return name.upper()
    return _settings().get(name, name) if command == "train" else name


def _set(name: str, flags: frozenset[str]) -> str:
    """Return how a setting is turned on."""
    setting = _settings().get(name)
    return f"--set {setting}=true" if setting and "--set" in flags else f"{name}=True"


@lru_cache
def _flags(command: str | None) -> frozenset[str]:
    """Return every option of a command and of its parts, and its arguments in capitals."""
    from reldp.cli.main import COMMANDS

    if command not in COMMANDS:
        return frozenset()
    whole = import_module(f"reldp.cli.{command}").command
    parts = [whole, *getattr(whole, "commands", {}).values()]
    parameters = [parameter for part in parts for parameter in part.params]
    shown = [p for p in parameters if not getattr(p, "hidden", False)]
    options = [p for p in shown if isinstance(p, click.Option)]
    arguments = [str(p.name).upper() for p in shown if isinstance(p, click.Argument)]
    return frozenset([s for p in options for s in (*p.opts, *p.secondary_opts)] + arguments)


@lru_cache
def _settings() -> dict[str, str]:
    """Return the name in a recipe of each setting."""
    from reldp.training.recipe_settings import SECTIONS

    return {name: f"{section}.{name}" for section, names in SECTIONS.items() for name in names}
