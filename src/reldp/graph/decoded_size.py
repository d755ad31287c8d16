"""How much a Parquet or Arrow file may decode to, and what texts take once they are decoded.

These formats repeat a value for next to nothing, so a small file can decode to any number of bytes. As compressed
text (`compression`), a file may hold a hundred times its size, and 100 MB: honest tables of few values,
such as ids of consecutive numbers, are small files too.

Private to the package: `DecodedSize`, `text_bytes`, `text_lengths`, `WIDTH`.

>>> import pyarrow as pa
>>> text_bytes(pa.array(["abc"] * 4).dictionary_encode())
44
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reldp.errors import GraphError

__all__ = ["WIDTH", "DecodedSize", "text_bytes", "text_lengths"]

WIDTH = 8  # bytes of a number, and of where a text begins
_RATIO, _ALLOWANCE = 100, 100 * 10**6
_MAX_PARTS = 1_000_000


class DecodedSize:
    """What is known of the decoded size of a file.

    Args:
        path: The file.
        num_files: Number of files that share the allowance.
    """

    def __init__(self, path: Path, num_files: int = 1) -> None:
        self._name = path.name
        self._left = _RATIO * path.stat().st_size + _ALLOWANCE // num_files
        self._parts = 0

    def fits(self, num_bytes: int) -> bool:
        """Return whether so much may come on top of what was added."""
        return num_bytes <= self._left

    def add(self, num_bytes: int) -> None:
        """Add what some part of the file decodes to.

        Raises:
            GraphError: It is too much.
        """
        self._left -= max(0, num_bytes)
        if self._left < 0:
            raise GraphError(
                f"{self._name} must decode to at most {_RATIO} times its size, got more. Write it as plain CSV "
                "or JSONL if this is right."
            )

    def count_parts(self, number: int = 1) -> None:
        """Count pages or batches, each of which takes time.

        Raises:
            GraphError: There are too many.
        """
        self._parts += number
        if self._parts > _MAX_PARTS:
            raise GraphError(
                f"{self._name} must have at most {_MAX_PARTS:,} pages or batches, got more. Write it with more "
                "rows in each."
            )


def text_bytes(array: Any) -> int:
    """Return what an array takes when its values are written out one after another.

    Dictionaries and views repeat a value by a number. Nothing is decoded to find out, so the array
    may be damaged: validate its layout first, not its values.
    """
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return text_bytes(array.storage)
    if pa.types.is_dictionary(kind):
        return len(array) * WIDTH + _repeated(array)
    lengths = text_lengths(array) if _is_view(kind) else None
    if lengths is not None:
        return len(array) * WIDTH + int(lengths.sum())
    if pa.types.is_struct(kind) or pa.types.is_union(kind):
        return sum(text_bytes(array.field(number)) for number in range(kind.num_fields))
    if pa.types.is_nested(kind) and hasattr(array, "values"):
        return int(array.nbytes) + text_bytes(array.values)
    return max(int(array.nbytes), len(array) * WIDTH)


def text_lengths(array: Any) -> npt.NDArray[np.int64] | None:
    """Return the length of each text or byte string of an array; None if it holds something else."""
    kind = array.type
    if _is_view(kind):
        views = np.frombuffer(
            array.buffers()[1] or b"", np.int32
        )  # 16 bytes each, the length first
        lengths = views[4 * array.offset : 4 * (array.offset + len(array)) : 4].astype(np.int64)
        if array.null_count:
            lengths = np.where(array.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    elif _is_text(kind):
        measured = pc.fill_null(pc.binary_length(array), 0)
        lengths = measured.to_numpy(zero_copy_only=False).astype(np.int64)
    else:
        return None
    return np.maximum(lengths, 0)


def _repeated(array: Any) -> int:
    """Return the bytes of the values that a dictionary gives to the rows of an array."""
    values, indices = array.dictionary, array.indices
    lengths = text_lengths(values)
    if lengths is not None:
        if (
            len(indices) * int(lengths.max(initial=0)) <= _ALLOWANCE
        ):  # not worth the time to be exact
            return len(indices) * int(lengths.max(initial=0))
        taken = pc.take(pa.array(lengths), pc.drop_null(indices))  # refuses indices out of bounds
        return int(pc.sum(taken).as_py() or 0)
    try:
        return len(indices) * (int(values.type.bit_width) // 8 + 1)
    except ValueError:  # values of several lengths, or dictionaries of their own
        return len(indices) * int(values.nbytes)


def _is_view(kind: Any) -> bool:
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def _is_text(kind: Any) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )
