r"""Structures in Thrift's compact protocol, in which Parquet writes its footer and the headers of its pages.

Reads numbers and structures by the numbers of their fields, and lists of structures where asked, and passes over the
rest: enough for sizes and counts.

Private to the package: `read_struct`.

>>> read_struct(b"\x15\x0a\x1c\x15\x02\x00\x00", 0)  # field 1: 5, field 2: a structure whose field 1 is 1
({1: 5, 2: {1: 1}}, 7)
"""

from typing import Any

import pyarrow as pa

__all__ = ["read_struct"]

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_MAX_DEPTH, _MAX_VALUES = 16, 1000  # a page has about twenty, at most three deep


def read_struct(
    data: Any, start: int, *, max_values: int = _MAX_VALUES, with_lists: bool = False
) -> tuple[dict[int, Any], int]:
    """Return the fields of a structure, and where it ends.

    Args:
        data: Bytes, or a mapped file.
        start: Where the structure begins.
        max_values: Number of values after which it is refused.
        with_lists: Whether lists are returned, and not passed over.

    Raises:
        pa.ArrowInvalid: There is no structure, or one of too many parts.
    """
    reader = _Reader(data, start, max_values, with_lists=with_lists)
    try:
        return reader.struct(0), reader.at
    except IndexError:
        raise pa.ArrowInvalid("the header of a page is cut off") from None


class _Reader:
    """Reads values one after another."""

    def __init__(self, data: Any, at: int, max_values: int, *, with_lists: bool) -> None:
        self.data, self.at, self._left = data, at, max_values
        self._with_lists = with_lists

    def struct(self, depth: int) -> dict[int, Any]:
        if depth > _MAX_DEPTH or self.at < 0:
            raise _damaged()
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            fields[number] = self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int, *, listed: bool = False) -> Any:
        """Return a value; None for a kind that is passed over."""
        self._left -= 1
        if self._left < 0 or depth > _MAX_DEPTH:
            raise _damaged()
        if kind in (_I32, _I64, _I16):
            return self._integer()
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_TRUE, _FALSE):
            self.at += (
                listed  # a field's kind is its value, an element of a list has a byte of its own
            )
        elif kind in (_BYTE, _DOUBLE):
            self.at += 1 if kind == _BYTE else 8
        elif kind == _BINARY:
            length = self._varint()  # moves on, so not in the same statement
            self.at += length
        elif kind in (_LIST, _SET):
            head = self._byte()
            length = head >> 4 if head >> 4 < 15 else self._varint()
            values = (self._value(head & 15, depth + 1, listed=True) for _ in range(length))
            if self._with_lists:
                return list(values)
            for _ in values:
                pass
        elif kind == _MAP:
            length = self._varint()
            head = self._byte() if length else 0
            for place in range(2 * length):
                self._value(head & 15 if place % 2 else head >> 4, depth + 1, listed=True)
        else:
            raise _damaged()
        return None

    def _integer(self) -> int:
        """Return a signed number."""
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _varint(self) -> int:
        """Return an unsigned number."""
        value = 0
        for bits in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << bits
            if byte < 128:
                return value
        raise _damaged()

    def _byte(self) -> int:
        self.at += 1
        return int(self.data[self.at - 1])


def _damaged() -> Any:
    return pa.ArrowInvalid("the header of a page is damaged")
