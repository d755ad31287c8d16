"""Where a Parquet file has its columns, from its footer.

pyarrow has the same numbers (`ParquetFile.metadata.row_group(i).column(j)`), but asking for them ends the whole process
where the footer is damaged: an exception of its C++ code leaves a function that cannot pass it on.

Private to the package: `Chunk`, `read_footer`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from reldp.graph.thrift import read_struct

__all__ = ["Chunk", "read_footer"]

_MAGIC = b"PAR1"
_TAIL = 8  # length of the footer in four bytes, and the magic ones
# Numbers of fields in the format's parquet.thrift.
_ROW_GROUPS = 4
_COLUMNS, _NUM_ROWS = 1, 3
_METADATA = 3
_TYPE, _NUM_VALUES, _COMPRESSED, _DATA_OFFSET, _DICTIONARY_OFFSET = 1, 5, 7, 9, 11
_BYTE_ARRAY = 6


class Chunk(NamedTuple):
    """One column in one group of rows.

    Attributes:
        is_text: Whether its values are texts.
        num_values: How many it states.
        start: Where its first page begins.
        size: Bytes that its pages take.
    """

    is_text: bool
    num_values: int
    start: int
    size: int


def read_footer(data: Any) -> Iterator[tuple[int, list[Chunk]]]:
    """Yield the stated number of rows of each group of rows, and its columns in order.

    Args:
        data: Bytes of the file, or the mapped file.

    Raises:
        pa.ArrowInvalid: The footer is damaged.
    """
    size = len(data)
    length = int.from_bytes(data[size - _TAIL : size - _TAIL + 4], "little")
    if size < _TAIL or bytes(data[size - 4 : size]) != _MAGIC or length > size - _TAIL:
        raise pa.ArrowInvalid("its footer is damaged")
    footer = bytes(data[size - _TAIL - length : size - _TAIL])
    try:
        fields, _ = read_struct(footer, 0, max_values=length + 1, with_lists=True)
    except pa.ArrowInvalid:
        raise pa.ArrowInvalid("its footer is damaged") from None
    for group in _listed(fields, _ROW_GROUPS):
        yield _number(group, _NUM_ROWS), [_chunk(column) for column in _listed(group, _COLUMNS)]


def _chunk(column: dict[int, Any]) -> Chunk:
    stated = column.get(_METADATA)
    if not isinstance(stated, dict):
        raise pa.ArrowInvalid("its footer is damaged")
    start = _number(stated, _DATA_OFFSET)
    first = _number(stated, _DICTIONARY_OFFSET) if _DICTIONARY_OFFSET in stated else 0
    return Chunk(
        is_text=stated.get(_TYPE) == _BYTE_ARRAY,
        num_values=_number(stated, _NUM_VALUES),
        start=first if first and first < start else start,
        size=max(0, _number(stated, _COMPRESSED)),
    )


def _listed(fields: dict[int, Any], number: int) -> list[dict[int, Any]]:
    values = fields.get(number)
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise pa.ArrowInvalid("its footer is damaged")
    return values


def _number(fields: dict[int, Any], number: int) -> int:
    value = fields.get(number)
    if not isinstance(value, int):
        raise pa.ArrowInvalid("its footer is damaged")
    return value
