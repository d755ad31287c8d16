"""Settings of a build: memory, threads and the folder for temporary files, with defaults from the machine.

The memory limit is for what the process allocates, not for mapped files, which the system keeps in memory
only while there is room. DuckDB gets half of it; the rest is for arrays with one number per entity and for
the chunks that are on their way.

Public: `BuildSettings`, `parse_bytes`.

>>> parse_bytes("1.5GB")
1500000000
>>> BuildSettings(memory_limit="300MB", threads=2).engine_bytes
150000000
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from reldp._validate import as_integer, check_integer, shown
from reldp.errors import GraphError

__all__ = ["BuildSettings", "parse_bytes"]

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_LEAST = 100 * 10**6
_MAX_BYTES = 2**50  # bytes, which DuckDB can still count
_MAX_THREADS = 1024  # DuckDB crashes where the system does not give it the threads
_SHARE = 4  # the default limit is this part of the machine's memory


def parse_bytes(text: str | int) -> int:
    """Return a number of bytes, also written as 6GB or 500MiB.

    Raises:
        GraphError: It is none, or more than a pebibyte.
    """
    words = shown(text)
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgtKMGT]?[iI]?[bB]?)\s*", _digits(text))
    unit = match.group(2).upper() if match else None
    if unit in ("K", "M", "G", "T", "KI", "MI", "GI", "TI"):
        unit += "B"
    if match is None or unit not in (*_UNITS, "B"):
        raise GraphError(f"`memory_limit` must be a size such as 6GB, got {words}.")
    size = float(match.group(1)) * _UNITS.get("" if unit == "B" else str(unit), 1)
    if size > _MAX_BYTES:
        raise GraphError(
            f"`memory_limit` must be at most {_MAX_BYTES // 2**40}TiB, got {words}. Give the memory that the build "
            "may use, such as 6GB."
        )
    return int(size)


def _digits(size: str | int) -> str:
    """Return a size as text; Python refuses to write out integers of thousands of digits."""
    return str(min(size, 2 * _MAX_BYTES) if isinstance(size, int) else size)


@dataclass(frozen=True, kw_only=True)
class BuildSettings:
    """How a store is built; none of these changes the store.

    Attributes:
        memory_limit: Memory for the build, in bytes or as "6GB" (default: a quarter of the machine's).
        threads: Number of threads (default: one per core that the process may use).
        temp_dir: Folder for temporary files (default: beside the store). They need about as much room as
            the store.
    """

    memory_limit: int | str | None = None
    threads: int | None = None
    temp_dir: str | Path | None = None

    def __post_init__(self) -> None:
        if self.memory_limit is not None and self.memory_bytes < _LEAST:
            raise GraphError(
                f"`memory_limit` must be at least 100MB, got {self.memory_limit}. A build needs that "
                "much for its chunks."
            )
        if self.threads is not None:
            check_integer(
                "threads",
                as_integer(self.threads),
                low=1,
                high=_MAX_THREADS,
                error=GraphError,
            )

    @property
    def memory_bytes(self) -> int:
        """The limit in bytes."""
        if self.memory_limit is not None:
            return parse_bytes(self.memory_limit)
        return max(_LEAST, machine_memory() // _SHARE)

    @property
    def engine_bytes(self) -> int:
        """What DuckDB may use, in bytes."""
        return self.memory_bytes // 2

    @property
    def num_threads(self) -> int:
        """The number of threads."""
        return self.threads or min(len(os.sched_getaffinity(0)), _MAX_THREADS)


def machine_memory() -> int:
    """Return the machine's memory in bytes, or the limit of its container if that is smaller."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total
