"""Arrays in files: written in order or in any order, read by mapping them.

Room on the disk is reserved before anything is written through a mapping, so that a full disk is an
error that can be caught, and not a signal that ends the process.

Public: `GrowingArray`, `map_array`, `array_in`, `save_array`, `row_chunks`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     array = GrowingArray(Path(folder) / "pairs.npy", np.int64, columns=2)
...     array.grow(3)
...     array.rows[1] = [5, 6]
...     array.close(2)
...     map_array(Path(folder) / "pairs.npy").tolist()
[[0, 0], [5, 6]]
"""

import io
import math
import os
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reldp.errors import GraphError

__all__ = ["GrowingArray", "array_in", "map_array", "row_chunks", "save_array"]

_DAMAGE = (
    *(ValueError, EOFError, OSError, TypeError, KeyError, SyntaxError, RecursionError),
    *(OverflowError, tokenize.TokenError),
)
_HEADER = 128  # bytes, as numpy pads them
_LONGEST_HEADER = 1 << 12
_LEAST = 1 << 20  # rows that are reserved at a time, at least


class GrowingArray:
    """A `.npy` file whose number of rows is known at the end.

    Attributes:
        rows: (reserved rows, columns) or (reserved rows,): a mapping that can be written to; new rows
            are zero. Ask for it again after `grow`.
    """

    def __init__(self, path: Path, dtype: npt.DTypeLike, *, columns: int | None = None) -> None:
        self.path = path
        self._dtype = np.dtype(dtype)
        self._shape = () if columns is None else (columns,)
        self._row_bytes = self._dtype.itemsize * (columns or 1)
        self._reserved = 0
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        os.close(handle)
        self.rows: npt.NDArray[Any] = np.empty((0, *self._shape), self._dtype)

    def grow(self, count: int) -> None:
        """Make sure that there are so many rows."""
        if count <= self._reserved:
            return
        self._reserved = max(count, min(2 * self._reserved, self._reserved + (1 << 26)), _LEAST)
        size = _HEADER + self._reserved * self._row_bytes
        handle = os.open(self.path, os.O_RDWR)
        try:
            os.posix_fallocate(handle, 0, size)
        finally:
            os.close(handle)
        self.rows = np.memmap(
            self.path, self._dtype, "r+", offset=_HEADER, shape=(self._reserved, *self._shape)
        ).view(np.ndarray)

    def close(self, count: int) -> None:
        """Keep so many rows, the first ones, and make the file complete."""
        self.rows = np.empty((0, *self._shape), self._dtype)
        with self.path.open("r+b") as file:
            file.truncate(_HEADER + count * self._row_bytes)
            file.write(_header((count, *self._shape), self._dtype))


def save_array(path: Path, array: npt.NDArray[Any]) -> None:
    """Write an array as a new `.npy` file that its owner alone may read."""
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        np.save(file, array)


def map_array(path: Path) -> npt.NDArray[Any]:
    """Return the array in a `.npy` file, mapped and read-only."""
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except _DAMAGE:  # numpy reads a header as Python reads a literal
        raise GraphError(
            f"{path.name} must hold an array as reldp wrote it, got damage. Build the store again."
        ) from None
    return array.view(np.ndarray)


def array_in(data: Any) -> npt.NDArray[Any]:
    """Return the array in the bytes of a `.npy` file, without a copy.

    Args:
        data: A buffer, such as a mapping of the file.

    Raises:
        ValueError: The bytes are no such file.
    """
    head = io.BytesIO(bytes(data[:_LONGEST_HEADER]))
    np.lib.format.read_magic(head)
    try:
        shape, in_columns, dtype = np.lib.format.read_array_header_1_0(head)
    except _DAMAGE:
        raise ValueError("header") from None
    if in_columns or dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError("array")
    count = math.prod(shape)
    try:
        array = np.frombuffer(data, dtype, count, head.tell()) if count else np.empty(0, dtype)
        return array.reshape(shape)
    except (OverflowError, TypeError):  # sizes that no array has
        raise ValueError("shape") from None


def row_chunks(num_rows: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the first row and the row after the last of chunks of so many rows."""
    for start in range(0, num_rows, size):
        yield start, min(start + size, num_rows)


def _header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """Return the header of a `.npy` file, of the size that was left for it."""
    out = io.BytesIO()
    values = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(out, values)
    header = out.getvalue()
    assert len(header) == _HEADER
    return header
