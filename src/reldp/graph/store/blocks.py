r"""Files in blocks with a SHA-256 each, checked when a block is first read.

Hashing a whole store before the first step would take as long as reading it; hashing what is read costs
nothing that reading does not. A block that differs is an error that names file and block.

Public: `FileBlocks`, `BlockChecker`, `hash_blocks`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "numbers.npy"
...     _ = path.write_bytes(bytes(10))
...     blocks = hash_blocks(path, [6, 10])
...     BlockChecker(path, blocks).check(0, 10)
...     _ = path.write_bytes(bytes(9) + b"x")
...     BlockChecker(path, blocks).check(7, 8)
Traceback (most recent call last):
reldp.errors.GraphError: numbers.npy must be as it was built, but block 2 of 2 differs. Build the store again.
"""

import hashlib
import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from reldp.errors import GraphError

__all__ = ["BLOCK_BYTES", "BlockChecker", "FileBlocks", "block_boundaries", "hash_blocks"]

BLOCK_BYTES = 1 << 22


@dataclass(frozen=True, kw_only=True)
class FileBlocks:
    """Where the blocks of a file end, and their hashes.

    Attributes:
        boundaries: Offset of the end of each block; the last is the size of the file.
        sha256: Hash of each block, as hexadecimal digits.
    """

    boundaries: tuple[int, ...] = field(repr=False)
    sha256: tuple[str, ...] = field(repr=False)

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self.boundaries[-1]

    def to_json(self) -> dict[str, Any]:
        """Return plain values for `json.dumps`."""
        return {"boundaries": list(self.boundaries), "sha256": list(self.sha256)}

    @classmethod
    def from_json(cls, values: Any) -> "FileBlocks":
        """Return the blocks that `to_json` described.

        Raises:
            ValueError: The values describe no blocks.
        """
        boundaries, hashes = values["boundaries"], values["sha256"]
        whole = all(type(end) is int for end in boundaries) and all(type(h) is str for h in hashes)
        if not whole or not boundaries or len(boundaries) != len(hashes):
            raise ValueError("blocks")
        if not all(one < other for one, other in pairwise([0, *boundaries])):
            raise ValueError("blocks")
        return cls(boundaries=tuple(boundaries), sha256=tuple(hashes))


def block_boundaries(size: int) -> list[int]:
    """Return the boundaries of blocks of equal size."""
    return [*range(BLOCK_BYTES, size, BLOCK_BYTES), size]


def hash_blocks(path: Path, boundaries: Sequence[int] | None = None) -> FileBlocks:
    """Return the blocks of a file.

    Args:
        path: The file.
        boundaries: Where blocks end (default: every `BLOCK_BYTES`).
    """
    boundaries = block_boundaries(path.stat().st_size) if boundaries is None else list(boundaries)
    with path.open("rb", buffering=0) as file:
        hashes = [_digest(file.fileno(), *span) for span in pairwise([0, *boundaries])]
    return FileBlocks(boundaries=tuple(boundaries), sha256=tuple(hashes))


class BlockChecker:
    """Check the blocks of one file, each once."""

    def __init__(self, path: Path, blocks: FileBlocks) -> None:
        """Open the blocks of a file.

        Raises:
            GraphError: The file is not there, or of another size.
        """
        self.path = path
        self.blocks = blocks
        self._checked = bytearray(len(blocks.boundaries))
        self._num_unchecked = len(blocks.boundaries)
        size = path.stat().st_size if path.is_file() else -1
        if size != blocks.size:
            got = "none" if size < 0 else f"{size:,}"
            raise GraphError(
                f"{path.name} must be as it was built, {blocks.size:,} bytes, got {got}. Build the "
                "store again."
            )

    def check(self, start: int, stop: int) -> None:
        """Check every block that has bytes from `start` up to `stop`.

        Raises:
            GraphError: A block differs.
        """
        if not self._num_unchecked or start >= stop:
            return
        boundaries = self.blocks.boundaries
        first, last = bisect_right(boundaries, start), bisect_right(boundaries, stop - 1)
        wanted = [block for block in range(first, last + 1) if not self._checked[block]]
        if not wanted:
            return
        with self.path.open("rb", buffering=0) as file:
            for block in wanted:
                begin = boundaries[block - 1] if block else 0
                if _digest(file.fileno(), begin, boundaries[block]) != self.blocks.sha256[block]:
                    raise GraphError(
                        f"{self.path.name} must be as it was built, but block {block + 1} of "
                        f"{len(boundaries)} differs. Build the store again."
                    )
                self._checked[block] = 1
                self._num_unchecked -= 1

    def check_all(self) -> None:
        """Check the whole file."""
        self.check(0, self.blocks.size)


def _digest(file: int, start: int, stop: int) -> str:
    """Return the SHA-256 of some bytes of a file."""
    digest = hashlib.sha256()
    while start < stop:
        data = os.pread(file, min(stop - start, BLOCK_BYTES), start)
        if not data:
            break
        digest.update(data)
        start += len(data)
    return digest.hexdigest()
