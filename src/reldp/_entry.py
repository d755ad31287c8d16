"""The command ``reldp``: closed streams are opened, and Ctrl-C during imports ends it in one line, as everywhere else.

>>> main.__module__
'reldp._entry'
"""

import os
import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit."""
    _open_closed_streams()
    try:
        from reldp.cli.main import main as run

        run()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough
        print("reldp: stopped by the user.", file=sys.stderr)
        sys.exit(130)


def _open_closed_streams() -> None:
    """Open the null device in place of standard streams that are closed, as some schedulers close them.

    The next file that is opened would take the number of a closed stream, and what a library prints would go into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest free number
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
