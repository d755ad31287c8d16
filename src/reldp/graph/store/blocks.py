r"""Files in blocks with a SHA-256 each, checked when a block is first read.

Hashing a whole store before the first step would take as long as reading it; hashing what is read costs
nothing that reading does not. A block that differs is an error that names file and block. The file is opened
once, and the bytes that are hashed are those of the mapping that is read afterwards: a store that is replaced
meanwhile does not change what an open one reads.

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
import mmap
import os
from bisect import bisect_right
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy.typing as npt

from reldp.errors import GraphError
from reldp.graph.store.arrays import array_in

__all__ = ["BLOCK_BYTES", "BlockChecker", "FileBlocks", "block_boundaries", "hash_blocks"]

BLOCK_BYTES = 1 << 22
_SEVERAL = 8  # blocks that are worth the start of threads
_MAX_THREADS = 16


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
    """Map one file and check its blocks, each once.

    Attributes:
        path: Where the file was when it was opened.
        blocks: What it must hold.
        mapped: All of its bytes, mapped and read-only. Check those that you read.
    """

    def __init__(self, path: Path, blocks: FileBlocks) -> None:
        """Open a file.

        Raises:
            GraphError: The file is not there, or of another size.
        """
        self.path = path
        self.blocks = blocks
        self._checked = bytearray(len(blocks.boundaries))
        self._num_unchecked = len(blocks.boundaries)
        try:
            if not path.is_file():  # a named pipe would block
                raise FileNotFoundError
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size == blocks.size:
                    self.mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError:
            size = -1
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
        if len(wanted) < _SEVERAL:
            digests = [self._digest(block) for block in wanted]
        else:
            with ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), _MAX_THREADS)) as threads:
                digests = list(threads.map(self._digest, wanted))
        for block, digest in zip(wanted, digests, strict=True):
            if digest != self.blocks.sha256[block]:
                raise GraphError(
                    f"{self.path.name} must be as it was built, but block {block + 1} of "
                    f"{len(boundaries)} differs. Build the store again."
                )
            self._num_unchecked -= not self._checked[block]
            self._checked[block] = 1

    def check_all(self) -> None:
        """Check the whole file."""
        self.check(0, self.blocks.size)

    def shape(self) -> tuple[int, ...]:
        """Return the shape of the array in a `.npy` file, which is not checked yet.

        Raises:
            GraphError: The file holds no array.
        """
        return self._array().shape

    def array(self) -> npt.NDArray[Any]:
        """Return the array in a `.npy` file, mapped and read-only, after checking the whole file.

        Raises:
            GraphError: A block differs.
        """
        self.check_all()
        return self._array()

    def _array(self) -> npt.NDArray[Any]:
        try:
            return array_in(self.mapped)
        except ValueError:
            raise GraphError(
                f"{self.path.name} must be as it was built. Build the store again."
            ) from None

    def _digest(self, block: int) -> str:
        start = self.blocks.boundaries[block - 1] if block else 0
        with memoryview(self.mapped) as view, view[start : self.blocks.boundaries[block]] as part:
            return hashlib.sha256(part).hexdigest()


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
