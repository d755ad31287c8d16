"""Commands in several processes that torchrun has started: which can, and what they need.

>>> num_processes()
1
"""

import os
from pathlib import Path

from reldp.errors import ConfigError, ReldpError

__all__ = ["num_processes", "refuse_dry_run", "refuse_several", "require_folder"]

# Commands that processes run together; every other one would run once in each.
_TOGETHER = ("train", "evaluate", "encode")


def num_processes() -> int:
    """Return the number of processes that torchrun says it has started."""
    size = os.environ.get("WORLD_SIZE", "1")
    return int(size) if "RANK" in os.environ and size.isdigit() else 1


def refuse_several(command: str) -> None:
    """Refuse a command for one process in several."""
    if command not in _TOGETHER and num_processes() > 1:
        raise ReldpError(
            f"reldp {command} must run in one process, got {num_processes()} of torchrun. Start it without torchrun; "
            f"{', '.join(_TOGETHER)} run in several."
        )


def require_folder(output: Path | None) -> None:
    """Refuse a new folder at every restart of torchrun: each would hold a run of its own, and all of them count."""
    names = ("MAX_RESTARTS", "RESTART_COUNT")
    if output is None and any(os.environ.get(f"TORCHELASTIC_{n}", "0") != "0" for n in names):
        raise ConfigError(
            "`output` must be given where torchrun restarts processes, got none. Add -o FOLDER, in which a restart "
            "resumes the run."
        )


def refuse_dry_run(size: int) -> None:
    """Refuse a dry run in several processes: its estimates are about one."""
    if size > 1:
        raise ConfigError(
            f"`dry_run` must be used in one process, got {size} of torchrun. Start it without torchrun."
        )
