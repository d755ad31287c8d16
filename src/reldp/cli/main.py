"""``reldp``: finds the command, and turns every error into one clear line and exit code 2.

Commands are imported only when called, so ``reldp account`` never loads torch. Each command module exposes
``command``, a click command; all logic lives in the library.
"""

import os
import re
import sys
from importlib import import_module
from pathlib import Path

import click

import reldp
from reldp.errors import ReldpError

__all__ = ["main"]

COMMANDS = {
    "account": "epsilon of a plan",
    "calibrate": "the noise a target epsilon needs",
    "inspect": "what a graph holds, and a plan to start from",
    "prepare": "graphs from real sources",
    "demo": "the main job on the bundled graph",
}


class _LazyGroup(click.Group):
    """A group whose commands are modules of reldp.cli, imported when named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"reldp.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(reldp.__version__, prog_name="reldp")
def _root() -> None:
    """Fine-tune an encoder on private relations, and say exactly what is promised."""


def _one_line(message: str) -> str:
    """The message on one line, with `snake_case` names written as the flags they are."""
    flags = re.sub(r"`([a-z][a-z_0-9]*)`", lambda m: "--" + m.group(1).replace("_", "-"), message)
    return " ".join(flags.split())


def _usage_message(error: click.UsageError) -> str:
    return error.format_message()


def _fail(message: str) -> int:
    click.echo(f"reldp: {_one_line(message)}", err=True)
    return 2


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    try:
        result = _root.main(args=arguments, prog_name="reldp", standalone_mode=False)
        code = result if isinstance(result, int) else 0
    except click.UsageError as error:
        code = _fail(_usage_message(error))
    except click.ClickException as error:
        code = _fail(error.format_message())
    except click.exceptions.Exit as error:
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("reldp: stopped by the user.", err=True)
        code = 130
    except ReldpError as error:
        code = _fail(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except OSError as error:
        where = f" ({Path(error.filename).name})" if isinstance(error.filename, str) else ""
        code = _fail(f"{error.strerror or error}{where}.")
    if arguments is None:
        sys.exit(code)
    return code
