"""``reldp``: runs a command, and turns every error into one line and an exit code.

Commands are imported only when they are called, so ``reldp account`` never loads torch. Each command module has a
click command named ``command``; all logic is in the library. Whatever the user types, the answer is a result or one
line on the error stream that names the flag, the rule and the fix: never a traceback. `reldp.cli.exit_codes` lists the
exit codes.

>>> main(["--version"])
reldp, version 0.11.0
0
"""

import io
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import import_module

import click

import reldp
from reldp import _signals
from reldp._optional import missing_text_package
from reldp._progress import is_on_terminal
from reldp._validate import did_you_mean, nearest
from reldp.cli import exit_codes
from reldp.cli.messages import as_shell_message
from reldp.cli.options import with_hint
from reldp.cli.torchrun import refuse_several
from reldp.cli.warning_lines import reldp_as_lines
from reldp.errors import (
    ConfigError,
    EncoderError,
    GraphError,
    MissingDependency,
    PlanError,
    ReldpError,
    VerificationError,
)
from reldp.runs.inert_text import visible_text

__all__ = ["main"]

COMMANDS = {
    "account": "Compute the epsilon of a training run from its settings.",
    "calibrate": "Compute the noise, or the number of steps, for a target epsilon.",
    "inspect": "Show sizes and degrees of a graph, and suggest a plan.",
    "prepare": "Make a graph folder from WordNet, Debian or pairs of texts.",
    "train": "Train an encoder on a private graph, and certify the result.",
    "finish": "Certify the steps of a run so far, and end it.",
    "abandon": "End a run without a model; its steps stay spent.",
    "evaluate": "Evaluate how well an encoder predicts relations.",
    "encode": "Write the embeddings of a graph's entities to a file.",
    "verify": "Check a run's certificate against its ledger.",
    "report": "Write an HTML report about a run.",
    "publish": "Write what may be published of a run into a folder.",
    "sign": "Sign a published folder with an Ed25519 key.",
    "budget": "Show and limit what all runs on the same data cost together.",
    "audit": "Try to refute the epsilon of a plan or a run.",
    "demo": "Train, evaluate and certify MiniLM on bundled graphs.",
    "theory": "Show the definitions and proofs that certificates cite.",
}


# The command that is running, for messages that name its options; None before it is known.
_LONG = ("train", "evaluate", "encode")  # commands that cap or tokenize
_called: list[str | None] = [None]


class _LazyGroup(click.Group):
    """A group whose commands are modules of reldp.cli, imported when named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        refuse_several(cmd_name)
        command = import_module(f"reldp.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = did_you_mean(args[0], COMMANDS)
            fix = near or f"The commands are {', '.join(COMMANDS)}."
            raise ReldpError(f"{args[0]!r} is not a command. {fix}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(
    cls=_LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=exit_codes.EPILOG,
)
@click.version_option(reldp.__version__, prog_name="reldp")
@click.pass_context
def _root(context: click.Context) -> None:
    """Fine-tune an encoder on private relations with differential privacy.

    Start with: reldp train GRAPH --target-epsilon 4. Fix the maximum degree and the target epsilon before you look at
    private data, also with reldp inspect GRAPH.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _parameter_name(parameter: click.Parameter, context: click.Context | None) -> str:
    """Return the longest spelling of a flag, or an argument in capitals."""
    if isinstance(parameter, click.Argument) and context is not None:
        return parameter.make_metavar(context)
    return max(parameter.opts, key=len)


def _usage_message(error: click.UsageError) -> str:
    """Return click's complaint in the form: flag, rule, fix."""
    where = error.ctx.command_path if error.ctx is not None else "reldp"
    see = f"See {where} --help."
    if isinstance(error, click.NoSuchOption):
        near = _near_options(error.option_name, sorted(error.possibilities or []))
        fix = f"Did you mean {' or '.join(near)}?" if near else see
        return f"{error.option_name} is not an option of {where}. {fix}"
    if isinstance(error, click.BadParameter) and error.param is not None:
        name = _parameter_name(error.param, error.ctx)
        if isinstance(error, click.MissingParameter):
            return f"{name} must be given. {see}"
        return f"{name}{'' if error.message.startswith('must ') else ':'} {error.message}"
    message = error.format_message().rstrip(".")
    return f"{message}. {see}"


def _near_options(typed: str, near: list[str]) -> list[str]:
    """Return those of several options that share a whole word with the one that was typed, or the nearest."""
    words = set(typed.strip("-").split("-"))
    sharing = [option for option in near if words & set(option.strip("-").split("-"))]
    return sharing or nearest(typed, near)


def _fail(message: str, code: int = exit_codes.BAD_INPUT) -> int:
    with suppress(OSError):  # nobody may be reading
        click.echo(visible_text(f"reldp: {as_shell_message(message, _called[-1])}"), err=True)
    return code


def _stopped(message: str, code: int) -> int:
    """Print the line of a stop by a signal, which names no option: no command is imported for it."""
    with suppress(OSError):
        click.echo(visible_text(f"reldp: {message}"), err=True)
    return code


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code, or exit with it if no arguments are given.

    Args:
        arguments: What follows ``reldp``; the arguments of the process if None.
    """
    if arguments is None:
        _never_fail_to_encode()
    with exit_codes.termination_as_exception(for_good=arguments is None):
        try:
            code = _run(arguments)
        except (
            exit_codes.Terminated,
            KeyboardInterrupt,
        ):  # a second one, before the first was reported
            _signals.end()
            code = exit_codes.interruption("")[1]
    if arguments is None:
        sys.exit(code)
    return code


def _never_fail_to_encode() -> None:
    """Print escapes where a file name is not text or the terminal has no Unicode, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _progress(words: list[str]) -> AbstractContextManager[None]:
    """Show what takes long on a graph store, unless nobody looks or wants to."""
    if _called[-1] not in _LONG or "--quiet" in words or not is_on_terminal():
        return nullcontext()
    from reldp.cli.prepare_store import progress_lines

    return progress_lines()


def _run(arguments: list[str] | None) -> int:
    streams = sys.stdout, sys.stderr
    words = sys.argv[1:] if arguments is None else arguments
    if (sizes := sys.modules.get("reldp.graph.sizes")) is not None:
        sizes.drawn_epsilon(forget=True)
    _called[-1] = next((word for word in words if word in COMMANDS), None)
    try:
        with _progress(words), reldp_as_lines():
            result = _root.main(args=arguments, prog_name="reldp", standalone_mode=False)
        exit_codes.flush_output()
    except click.UsageError as error:
        return _fail(_usage_message(error))
    except click.ClickException as error:
        return _fail(error.format_message())
    except click.exceptions.Exit as error:
        return error.exit_code
    except exit_codes.Terminated as error:
        _signals.end()
        return _stopped(str(error), error.code)
    except (click.Abort, KeyboardInterrupt) as error:
        if isinstance(error.__cause__, EOFError):  # click takes any end of file for an abort
            return _fail_by(error.__cause__)
        _signals.end()
        hint = str(error.__cause__ or error)  # how to resume, or nothing
        return _stopped(*exit_codes.interruption(hint))
    except SystemExit as error:
        # Click (which replaces streams) and rich exit so when a pipe is closed; nothing else here exits.
        closed = sys.stdout is not streams[0] or isinstance(error.__context__, BrokenPipeError)
        sys.stdout, sys.stderr = streams
        return exit_codes.pipe_closed() if closed else _fail_by(error)
    except Exception as error:
        return _fail_by(error)
    return result if isinstance(result, int) else exit_codes.FINE


def _spent_words(error: ReldpError) -> str:
    """Return what a refused run has spent: its private sizes may have been drawn before it could be refused."""
    sizes = sys.modules.get("reldp.graph.sizes")  # whatever draws sizes has imported it
    if (
        sizes is None
        or not isinstance(error, (PlanError, ConfigError, GraphError, EncoderError))
        or not sizes.drawn_epsilon()
    ):
        return ""
    from reldp.cli.output import round_up

    return (
        f" Private sizes were released before this, for epsilon {round_up(sizes.drawn_epsilon())}, which is spent; "
        "they are kept, so that another try with the same degree bound does not spend it again."
    )


def _fail_by(error: BaseException) -> int:
    """Print the line of an error that did not come from click, and return its code."""
    cause = error.__cause__
    if isinstance(error, MissingDependency) and cause and missing_text_package(cause) is not None:
        error = cause  # the command knows which extra it needs
    if isinstance(error, VerificationError):
        return _fail(str(error), exit_codes.NOT_VERIFIED)
    if isinstance(error, ReldpError):
        return _fail(with_hint(str(error)) + _spent_words(error))
    if isinstance(error, OSError):
        return exit_codes.of_os_error(error, _fail)
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        # A file name or argument whose bytes are not UTF-8, which some libraries cannot take.
        return _fail(
            "Names of files and other arguments must be valid UTF-8 here. Rename the file or folder."
        )
    if isinstance(error, ValueError) and "embedded null" in str(error):
        return _fail("Names of files must not hold a null character. Rename the file or folder.")
    missing = missing_text_package(error, "demo" if _called[-1] == "demo" else "text")
    if missing is not None:
        return _fail(str(missing))
    if isinstance(error, MemoryError) or exit_codes.is_out_of_memory(error):
        return _fail("This machine has too little memory. Use a smaller graph, model or batch.")
    exit_codes.show_traceback(error)
    # A module that was being imported may have dropped the exception of a signal, and raised another.
    if _signals.noted():
        _signals.end()
        return _stopped(*exit_codes.interruption(""))
    return _fail(exit_codes.bug_line(error), exit_codes.INTERNAL_ERROR)
