"""Calls a command of the command line in this process, and judges how it ended.

A command must end with a documented exit code and, unless it is well, one line per complaint that starts with
``reldp:``. The options that such a line names must be options of the command that ran, or of the command that
the line tells the user to run, as in "reldp budget share GRAPH --with FOLDER".
"""

import io
import re
from contextlib import redirect_stderr, redirect_stdout
from functools import lru_cache
from importlib import import_module

from reldp.cli.main import COMMANDS, main

__all__ = ["Refused", "call", "command_of", "commands", "wrong_options"]

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
GLOBAL = frozenset({"--help", "--version"})
MENTION = re.compile(rf"(?<![\w./-])reldp ((?:{'|'.join(COMMANDS)})\b(?: [a-z]+\b)?)")


class Refused(Exception):
    """A command complained as it should."""


def call(*words, codes=(0, 2)):
    """Run a command in this process.

    Returns:
        Whether it was well, and what it printed.

    Raises:
        AssertionError: It ended with another code, or complained in a way that nobody understands.
    """
    out, errors = io.StringIO(), io.StringIO()
    words = [str(word) for word in words]
    with redirect_stdout(out), redirect_stderr(errors):
        code = main(words)
    said = errors.getvalue()
    problem = ""
    if code not in codes:
        problem = "exit code"
    elif code and not said.strip():
        problem = "no words"
    elif any(line and not line.startswith("reldp: ") for line in said.split("\n")):
        problem = "more than lines of reldp"
    elif code and (wrong := wrong_options(words, said)):
        problem = f"no such option {sorted(wrong)} of {' '.join(command_of(words) or ['reldp'])}"
    if problem:
        raise AssertionError(f"{problem}: {code} of {words}: {said[-600:]!r}")
    return code == 0, out.getvalue()


def wrong_options(words, said) -> set[str]:
    """Return the options that a message names and that its reader cannot use."""
    typed = {part for word in words for part in OPTION.findall(word)}
    own = _options(command_of(words)) | GLOBAL | typed
    # Text, the command that it mentions, the text after that, and so on.
    text, *rest = MENTION.split(QUOTED.sub(" ", said))
    wrong = set(OPTION.findall(text)) - own
    for mentioned, text in zip(rest[::2], rest[1::2], strict=True):
        wrong |= set(OPTION.findall(text)) - own - _options(command_of(mentioned.split()))
    return wrong


@lru_cache
def commands():
    """Return every command and part of one, with its options."""
    found = {}
    for name in COMMANDS:
        whole = import_module(f"reldp.cli.{name}").command
        found[name,] = whole
        for part, command in getattr(whole, "commands", {}).items():
            found[name, part] = command
    return found


def command_of(words):
    """Return the command, and the part of it, that some words call; None if they call none."""
    for length in (2, 1):
        if tuple(words[:length]) in commands():
            return tuple(words[:length])
    return None


@lru_cache
def _options(path) -> frozenset[str]:
    """Return the options of a command, or those of all if it is not known."""
    chosen = [command for name, command in commands().items() if path in (None, name)]
    parameters = [p for command in chosen for p in command.params]
    return frozenset(
        name
        for p in parameters
        if not getattr(p, "hidden", False)
        for name in (*p.opts, *p.secondary_opts)
    )
