"""Exit codes: the same for every command, so that a script can tell a refuted claim from a crash.

| code | meaning |
|---|---|
| 0 | success |
| 2 | bad input, or a machine that cannot do what was asked (disk full, no permission, a package missing) |
| 3 | refuted (`audit`) or not verified (`verify`, `report`, `publish`, `sign`) |
| 70 | internal error: a bug in reldp |
| 129 | the terminal was closed (SIGHUP) |
| 130 | stopped by Ctrl-C (SIGINT) |
| 141 | the reader of the output closed the pipe (SIGPIPE), as in ``reldp ... | head -1`` |
| 143 | stopped by SIGTERM |

The code 1 is never used on purpose: Python itself exits with it. The line of an internal error names the class of the
exception and the place in reldp's source, never the exception's message, which may quote private data. With
RELDP_DEBUG=1 in the environment the traceback is printed as well.

Public inside the command line: the codes, `EPILOG`, `Terminated`, `termination_as_exception`, `of_os_error`,
`pipe_closed`, `flush_output`, `interruption`, `is_out_of_memory`, `bug_line`, `show_traceback`.

>>> bug_line(KeyError("bob@example.com")).partition(". ")[0]
'Internal error: KeyError'
"""

import _thread
import errno
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import reldp
from reldp import _signals
from reldp.runs.durable import REASONS

__all__ = [
    "BAD_INPUT",
    "EPILOG",
    "FINE",
    "HUNG_UP",
    "INTERNAL_ERROR",
    "INTERRUPTED",
    "NOT_VERIFIED",
    "PIPE_CLOSED",
    "TERMINATED",
    "Terminated",
    "bug_line",
    "flush_output",
    "interruption",
    "is_out_of_memory",
    "of_os_error",
    "pipe_closed",
    "show_traceback",
    "termination_as_exception",
]

FINE = 0
BAD_INPUT = 2
NOT_VERIFIED = 3
INTERNAL_ERROR = 70
HUNG_UP = 129
INTERRUPTED = 130
PIPE_CLOSED = 141
TERMINATED = 143

EPILOG = (
    "Exit codes: 0 success; 2 bad input; 3 refuted or not verified; 70 internal error, a bug in reldp; "
    "129 terminal closed; 130 stopped by Ctrl-C; 141 output pipe closed; 143 stopped by SIGTERM."
)

_MAX_NAME = 80  # characters of a file's name that a line shows: its end has the suffix
_SOURCE = Path(reldp.__file__).parent
_CODES: dict[int, int] = {signal.SIGTERM: TERMINATED}
if hasattr(signal, "SIGHUP"):
    _CODES[signal.SIGHUP] = HUNG_UP


class Terminated(BaseException):
    """Control-flow signal for SIGTERM and SIGHUP: only `main` catches it, like KeyboardInterrupt.

    Attributes:
        code: The exit code.
        hint: How to go on, or nothing.
    """

    def __init__(self, code: int = TERMINATED, hint: str = "") -> None:
        super().__init__()
        self.code, self.hint = code, hint

    def __str__(self) -> str:
        cause = (
            "by a termination signal" if self.code == TERMINATED else "as the terminal was closed"
        )
        return f"stopped {cause}.{self.hint}"


def _send_later(number: int) -> None:
    """Send a signal to this process, once whoever asked for it is done."""
    time.sleep(0.1)
    os.kill(os.getpid(), number)


@contextmanager
def termination_as_exception(*, for_good: bool = False) -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exception; a process that ignores one continues to ignore it.

    Every signal is noted in `reldp._signals`, also Ctrl-C, in case the exception is dropped on its way. Once the end of
    the command is reported (`reldp._signals.end`), a signal does nothing.

    Args:
        for_good: Whether the process exits afterwards, so that signals after a reported end stay ignored.

    Raises:
        Terminated: One of them arrived inside.
    """
    _signals.forget()

    def _stop(number: int, stack: Any) -> None:
        _signals.note(number)
        if _signals.is_ending():
            return
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise Terminated(_CODES[number])

    def _repeat(unraisable: Any) -> None:
        """Send a signal again whose exception Python threw away, as it does inside of finalizers."""
        error = unraisable.exc_value
        if isinstance(error, Terminated):
            number = next(n for n, code in _CODES.items() if code == error.code)
        elif isinstance(error, KeyboardInterrupt):
            number = signal.SIGINT
        else:
            show_unraisable(unraisable)
            return
        # Not by a `Timer`, which waits for its thread: the signal would arrive in here, and be thrown away again.
        _thread.start_new_thread(_send_later, (number,))

    in_main_thread = threading.current_thread() is threading.main_thread()
    free = [n for n in _CODES if in_main_thread and signal.getsignal(n) == signal.SIG_DFL]
    if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        free.append(signal.SIGINT)
    before = {number: signal.signal(number, _stop) for number in free}
    show_unraisable, sys.unraisablehook = sys.unraisablehook, _repeat
    try:
        yield
    finally:
        sys.unraisablehook = show_unraisable
        stays = for_good and _signals.is_ending()
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if stays else handler)
        _signals.forget()


def interruption(hint: str) -> tuple[str, int]:
    """Return the line and the code of an interrupted command.

    DuckDB reports every signal as an interruption by the user, so what arrived decides.
    """
    codes = [_CODES[number] for number in _signals.noted() if number in _CODES]
    if codes:
        ended = Terminated(codes[0], hint)
        return str(ended), ended.code
    return f"stopped by the user.{hint}", INTERRUPTED


def flush_output() -> None:
    """Flush the standard output: a full disk or a closed pipe shows here at the latest."""
    if sys.stdout is not None:  # None if the process was started without one
        sys.stdout.flush()


def pipe_closed() -> int:
    """Return the code of a closed pipe, and discard what is still buffered."""
    _forget_output()
    return PIPE_CLOSED


def of_os_error(error: OSError, fail: Callable[[str], int]) -> int:
    """Return the code of an error of the operating system, with one line by `fail` unless the pipe is closed."""
    if error.errno == errno.EPIPE:
        return pipe_closed()
    name = Path(error.filename).name if isinstance(error.filename, str) else ""
    name = name if len(name) <= _MAX_NAME else f"...{name[3 - _MAX_NAME :]}"
    where = f" ({name})" if name else ""
    reason = REASONS.get(error.errno or 0) if error.filename is None else None
    what = error.strerror or type(error).__name__
    code = fail(f"A file could not be written: {reason}" if reason else f"{what}{where}.")
    if error.errno == errno.ENOSPC:
        _forget_output()
    return code


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether torch could not get memory, on the CPU or on a GPU."""
    words = str(error).lower() if isinstance(error, RuntimeError) else ""
    return "can't allocate memory" in words or "out of memory" in words


def bug_line(error: BaseException) -> str:
    """Return one line about a bug: the class of the exception and its place in reldp, never a value."""
    return (
        f"Internal error: {type(error).__name__}{_place(error)}. This is a bug in reldp "
        f"{reldp.__version__}: please report this line and the command, without private data. "
        "RELDP_DEBUG=1 shows the traceback, which may quote private data."
    )


def show_traceback(error: BaseException) -> None:
    """Print the traceback if RELDP_DEBUG is set."""
    if os.environ.get("RELDP_DEBUG", "") not in ("", "0"):
        traceback.print_exception(error)


def _place(error: BaseException) -> str:
    """Return the innermost line of reldp's source that the error passed through."""
    place = ""
    for entry in traceback.extract_tb(error.__traceback__):
        path = Path(entry.filename)
        if path.is_relative_to(_SOURCE):
            place = f" in {path.relative_to(_SOURCE).as_posix()}, line {entry.lineno}"
    return place


def _forget_output() -> None:
    """Discard what is still buffered: Python would fail on it again when it exits."""
    try:
        output = sys.stdout.fileno()
    except (
        OSError,
        ValueError,
        AttributeError,
    ):  # the stream has no file, so nothing is left to flush
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, output)
    os.close(nowhere)
