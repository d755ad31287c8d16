"""The command ``reldp``: Ctrl-C while its modules are imported ends it in one line, as everywhere else.

>>> main.__module__
'reldp._entry'
"""

import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit."""
    try:
        from reldp.cli.main import main as run

        run()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough
        print("reldp: stopped by the user.", file=sys.stderr)
        sys.exit(130)
