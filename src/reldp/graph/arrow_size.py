"""Arrow files that decode to far more than their size, refused before they are decoded.

An Arrow file is used as it lies on the disk, except where it is compressed, lists a batch several times, or gives
texts by dictionaries and views. Each compressed buffer begins with its true size, and the metadata of each batch,
in the format FlatBuffers, says where the buffers are: this module adds them up. Dictionaries and views are
multiplied out once their buffers are known to be small.

Private to the package: `refuse_arrow_flood`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "entities.arrow"
...     table = pa.table({"id": pa.DictionaryArray.from_arrays([0] * 300_000, ["x" * 5000])})
...     with pa.ipc.new_file(path, table.schema) as writer:
...         writer.write_table(table)
...     refuse_arrow_flood(path)
Traceback (most recent call last):
reldp.errors.GraphError: entities.arrow must decode to at most 100 times its size, ...
"""

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from reldp.graph.column_count import refuse_columns
from reldp.graph.decoded_size import WIDTH, DecodedSize, text_bytes

__all__ = ["refuse_arrow_flood"]

_MAGIC = b"ARROW1"
_DICTIONARIES, _BATCHES = 2, 3  # fields of a footer
_DICTIONARY = 2  # kind of a message
_OLD_COMPRESSION = b"ARROW:experimental_compression"  # where version 0.17 wrote it


def refuse_arrow_flood(path: Path, *, num_files: int = 1) -> None:
    """Refuse a file that would decode to more than its size allows.

    Args:
        path: The file.
        num_files: Number of files that share the allowance for small ones.

    Raises:
        GraphError: It would decode to too much.
        pa.ArrowInvalid: It is damaged; other errors of pyarrow are possible.
    """
    size = DecodedSize(path, num_files)
    try:
        with (
            path.open("rb") as opened,
            mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            for start, length in _messages(data):
                _add_message(data, start, length, size)
        _add_repeated(path, size)
    except (struct.error, IndexError, OverflowError, RecursionError):
        raise pa.ArrowInvalid("the metadata of a batch is damaged") from None


def _add_repeated(path: Path, size: DecodedSize) -> None:
    """Add what the columns take that dictionaries and views abbreviate."""
    with pa.memory_map(str(path)) as mapped:
        file = pa.ipc.open_file(mapped)
        refuse_columns(path.name, len(file.schema))
        if not any(_repeats(item.type) for item in file.schema):
            return
        for number in range(file.num_record_batches):
            batch = file.get_batch(number)
            batch.validate()
            for column in batch.columns:
                size.add(text_bytes(column))


def _messages(data: Any) -> Iterator[tuple[int, int]]:
    """Yield where each dictionary and batch of a file begins, and how long its metadata is."""
    end = len(data) - len(_MAGIC) - 4
    if data[max(0, end + 4) :] != _MAGIC:
        raise struct.error
    footer = _Table.root(data, end - _read(data, "<i", end))
    for name in (_DICTIONARIES, _BATCHES):
        first, count = footer.vector(name)
        for place in range(first, first + 24 * count, 24):
            yield _read(data, "<q", place), _read(data, "<i", place + 8)


def _add_message(data: Any, start: int, length: int, size: DecodedSize) -> None:
    """Add what the buffers and rows of a dictionary or batch take."""
    message = _Table.root(data, start + (8 if _read(data, "<i", start) == -1 else 4))
    batch = message.table(2)
    if message.byte(1) == _DICTIONARY:  # it contains a batch
        batch = batch.table(1)
    nodes, num_nodes = batch.vector(1)
    buffers, num_buffers = batch.vector(2)
    size.count_parts(1 + (num_nodes + num_buffers) // 16)
    compressed = batch.place(3) > 0 or _OLD_COMPRESSION in data[start : start + max(0, length)]
    for place in range(nodes, nodes + 16 * num_nodes, 16):
        size.add(_read(data, "<q", place) * WIDTH)
    for place in range(buffers, buffers + 16 * num_buffers, 16):
        num_bytes = _read(data, "<q", place + 8)
        size.add(num_bytes)
        if compressed and num_bytes > 0:
            size.add(_read(data, "<q", start + length + _read(data, "<q", place)))


class _Table:
    """A table of FlatBuffers: its fields by their numbers."""

    def __init__(self, data: Any, at: int) -> None:
        self._data, self._at = data, at
        self._fields = at - _read(data, "<i", at)
        self._size = _read(data, "<H", self._fields)

    @classmethod
    def root(cls, data: Any, start: int) -> "_Table":
        """Return the table to which the first bytes of a buffer lead."""
        return cls(data, start + _read(data, "<I", start))

    def place(self, number: int) -> int:
        """Return where a field is; 0 if the table has none."""
        entry = 4 + 2 * number
        offset = _read(self._data, "<H", self._fields + entry) if entry < self._size else 0
        return self._at + offset if offset else 0

    def byte(self, number: int) -> int:
        """Return a field of one byte."""
        place = self.place(number)
        return _read(self._data, "<B", place) if place else 0

    def table(self, number: int) -> "_Table":
        """Return a field that is a table."""
        return _Table.root(self._data, self._required(number))

    def vector(self, number: int) -> tuple[int, int]:
        """Return where the elements of a vector begin, and their number."""
        if not self.place(number):
            return 0, 0
        at = self.place(number)
        at += _read(self._data, "<I", at)
        return at + 4, _read(self._data, "<I", at)

    def _required(self, number: int) -> int:
        if not self.place(number):
            raise struct.error
        return self.place(number)


def _read(data: Any, form: str, at: int) -> int:
    """Return a number; a negative place would count from the end."""
    if at < 0:
        raise struct.error
    return int(struct.unpack_from(form, data, at)[0])


def _repeats(kind: Any) -> bool:
    """Return whether arrays of a type, or of a type within, can give one value many times."""
    if isinstance(kind, pa.BaseExtensionType):
        return _repeats(kind.storage_type)
    if (
        pa.types.is_dictionary(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary_view(kind)
    ):
        return True
    return any(_repeats(kind.field(number).type) for number in range(kind.num_fields))
