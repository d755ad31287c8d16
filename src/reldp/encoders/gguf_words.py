"""Bounds on what the header of a GGUF file says, before any library reads it.

Where a file names no merges, transformers makes them: it cuts each token at every place, which takes time and memory
traffic that grow with the square of its length. The reader of the package gguf takes each number of an array by
itself, as many as the header states, also where the file has ended. And transformers computes all numbers of each
tensor, also where a thousand of them name the same bytes. All three are bounded here, from lengths alone.

Headers that are cut short or inconsistent are left to that reader, which has an error for them.

Private to the package: `refuse_long_words`, `FEWEST_BITS`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as home:
...     path = Path(home) / "model.gguf"
...     header = struct.pack("<4sIQQ", b"GGUF", 3, 0, 1)
...     tokens = struct.pack("<Q6sIIQ", 6, b"tokens", 9, 8, 1)
...     _ = path.write_bytes(header + tokens + struct.pack("<Q600000s", 600_000, b"long"))
...     refuse_long_words(path)
Traceback (most recent call last):
reldp.errors.EncoderError: `source` must have tokens of ordinary length, got one of 600,000 bytes in model.gguf. ...
"""

import math
import mmap
import struct
from contextlib import suppress
from pathlib import Path

from reldp.errors import EncoderError

__all__ = ["FEWEST_BITS", "refuse_long_words"]

FEWEST_BITS = 1.5  # of a number, whose smallest type has 1.56 on average

# Takes about a second; 500,000 merges of a large vocabulary have a tenth of it.
_MAX_SQUARES = 10**9
_MAX_ENTRIES = 10**7  # large vocabularies have two million: tokens, scores, types, merges
_MAX_DEPTH = 4
_MAX_DIMENSIONS = 8  # of a tensor; the format has 4
_STRING, _ARRAY = 8, 9
_SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes by type


def refuse_long_words(path: Path) -> None:
    """Refuse a GGUF file with texts, arrays or tensors in its header that take minutes to read.

    Args:
        path: A regular file. One that is no GGUF file, or a damaged one, is left to the reader.

    Raises:
        EncoderError: Its texts are too long, its arrays too large or too deep, or it states more tensors than it holds.
    """
    with path.open("rb") as stream:
        try:
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # nothing can be mapped of an empty file
            return
        with mapped, suppress(struct.error):  # the header ends early
            _Header(mapped, path.name).check()


class _Header:
    """A place in a header, and what was counted before it."""

    def __init__(self, data: mmap.mmap, name: str) -> None:
        (version,) = struct.unpack_from("<I", data, 4)
        order = ">" if version & 0xFFFF == 0 else "<"
        self._data, self._size, self._name = data, len(data), name
        self._small, self._large = struct.Struct(f"{order}I"), struct.Struct(f"{order}Q")
        self._place = self._entries = self._squares = 0

    def check(self) -> None:
        """Go through all keys and values, then through what is said about tensors."""
        if self._data[:4] != b"GGUF":
            return
        self._place = 8  # after magic and version
        num_tensors, count = self._number(self._large), self._number(self._large)
        for _ in range(count):
            self._count(1)
            self._skip(self._number(self._large))
            if not self._value(self._number(self._small), 1):
                return
        self._tensors(num_tensors)

    def _tensors(self, count: int) -> None:
        """Go over names, shapes, types and places of tensors, whose bytes must not overlap by much."""
        numbers, max_numbers = 0, int(self._size * 8 / FEWEST_BITS)
        for _ in range(count):
            self._count(1)
            self._skip(self._number(self._large))
            dimensions = self._number(self._small)
            sides = [self._number(self._large) for _ in range(min(dimensions, _MAX_DIMENSIONS))]
            numbers += math.prod(sides)
            if numbers > max_numbers or dimensions > _MAX_DIMENSIONS:
                raise EncoderError(
                    f"`source` must hold the bytes of each of its tensors, got tensors with more numbers, or more "
                    f"dimensions, than {self._name} can hold. Convert the original model again."
                )
            self._skip(self._small.size + self._large.size)

    def _value(self, kind: int, depth: int) -> bool:
        """Go over a value; return False for a type that no reader knows."""
        if kind == _STRING:
            self._skip(self._number(self._large))
        elif kind == _ARRAY:
            return self._array(depth)
        else:
            self._skip(_SCALARS.get(kind, 0))
        return kind in _SCALARS or kind == _STRING

    def _array(self, depth: int) -> bool:
        if depth > _MAX_DEPTH:
            raise EncoderError(
                f"`source` must have arrays in one another up to {_MAX_DEPTH} deep, got more in the header of "
                f"{self._name}. Convert the original model again."
            )
        kind, count = self._number(self._small), self._number(self._large)
        self._count(count)
        if kind == _STRING:
            self._texts(count)
        elif kind == _ARRAY:
            return all(self._array(depth + 1) for _ in range(count))
        else:
            self._skip(_SCALARS.get(kind, 0) * count)
        return kind in _SCALARS or kind == _STRING or count == 0

    def _texts(self, count: int) -> None:
        """Go over the texts of an array; the last one may be cut short, as for the reader."""
        data, size, place, squares = self._data, self._size, self._place, self._squares
        unpack = self._large.unpack_from
        for _ in range(count):
            (length,) = unpack(data, place)
            place += 8
            length = min(length, size - place)
            place += length
            squares += length * length
            if squares > _MAX_SQUARES:
                raise EncoderError(
                    f"`source` must have tokens of ordinary length, got one of {length:,} bytes in {self._name}. "
                    "Convert the original model again."
                )
        self._place, self._squares = place, squares

    def _count(self, entries: int) -> None:
        self._entries += entries
        if self._entries > _MAX_ENTRIES:
            raise EncoderError(
                f"`source` must have at most {_MAX_ENTRIES:,} entries in the header of a GGUF file, got "
                f"{self._entries:,} in {self._name}. Convert the original model again."
            )

    def _number(self, form: struct.Struct) -> int:
        (number,) = form.unpack_from(self._data, self._place)
        self._place += form.size
        return int(number)

    def _skip(self, length: int) -> None:
        """Go over bytes, up to the end of the file."""
        self._place = min(self._place + length, self._size)
