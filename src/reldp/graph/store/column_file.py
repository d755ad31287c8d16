"""Columns of entities in an Arrow file of batches of equal size: written in order, read at any rows.

The bytes depend on the values alone, not on the chunks in which they came. A batch is one block of the file
(`blocks`), so a batch is checked when one of its rows is first read.

Public: `ColumnWriter`, `ColumnFile`, `BATCH_ROWS`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     with ColumnWriter(Path(folder) / "entities.arrow") as writer:
...         writer.add(pa.table({"id": ["a", "b"]}))
...         writer.add(pa.table({"id": ["c"]}))
...     blocks = hash_blocks(Path(folder) / "entities.arrow", writer.boundaries)
...     ColumnFile(Path(folder) / "entities.arrow", blocks).take("id", np.array([2, 0]))
['c', 'a']
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reldp.errors import GraphError
from reldp.graph.arrow_size import refuse_arrow_flood
from reldp.graph.columns import is_text
from reldp.graph.store.blocks import BlockChecker, FileBlocks, hash_blocks
from reldp.graph.store.column_values import check_batch

__all__ = ["BATCH_ROWS", "ColumnFile", "ColumnWriter", "hash_blocks"]

BATCH_ROWS = 1 << 16
_TYPES = (pa.large_string(), pa.int64(), pa.float64(), pa.bool_())
_COLUMN_TYPES = {
    "id": (pa.large_string(), pa.int64()),
    "text": (pa.large_string(),),
    "protected": (pa.bool_(),),
}


class ColumnWriter:
    """Write tables one after the other as batches of `BATCH_ROWS` rows.

    Attributes:
        boundaries: After closing: where each block of the file ends.
        num_rows: Rows written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.boundaries: list[int] = []
        self.num_rows = 0
        self._held: list[Any] = []
        self._num_held = 0
        self._sink: Any = None
        self._writer: Any = None

    def __enter__(self) -> "ColumnWriter":
        return self

    def add(self, table: Any) -> None:
        """Add a table; all have the same columns."""
        table = table.cast(_canonical(table.schema))
        if self._writer is None:
            self.path.touch(mode=0o600)
            self._sink = pa.OSFile(str(self.path), "wb")
            self._writer = pa.ipc.new_file(self._sink, table.schema)
        self.num_rows += table.num_rows
        self._held.append(table)
        self._num_held += table.num_rows
        if self._num_held >= BATCH_ROWS:
            whole = pa.concat_tables(self._held)
            start = 0
            while self._num_held - start >= BATCH_ROWS:
                self._write(whole.slice(start, BATCH_ROWS))
                start += BATCH_ROWS
            self._held = [whole.slice(start)]
            self._num_held -= start

    def __exit__(self, *error: object) -> None:
        if self._writer is None:
            return
        if error[0] is None:
            if self._num_held:
                self._write(pa.concat_tables(self._held))
            self._writer.close()
            end = self._sink.tell()
            self.boundaries = [
                *self.boundaries[:-1],
                end,
            ]  # the last block holds the file's footer too
        self._sink.close()

    def _write(self, table: Any) -> None:
        arrays = [_plain_copy(column) for column in table.columns]
        self._writer.write_batch(pa.record_batch(arrays, schema=table.schema))
        self.boundaries.append(self._sink.tell())


class ColumnFile:
    """Read the columns of entities at any rows.

    Args:
        path: A file of `ColumnWriter`.
        blocks: Its blocks.
    """

    def __init__(self, path: Path, blocks: FileBlocks) -> None:
        self._checker = BlockChecker(path, blocks)
        self._checker.check(
            blocks.size - 1, blocks.size
        )  # the footer, which says where batches are
        try:
            self._file = pa.ipc.open_file(pa.py_buffer(self._checker.mapped))
        except pa.ArrowException:
            raise _damage(path) from None
        self.schema = self._file.schema
        _refuse_others(path, self.schema)
        if self.num_batches != len(blocks.boundaries):  # a batch would be read without a check
            raise _damage(path)
        self._batches: dict[int, Any] = {}

    @property
    def num_batches(self) -> int:
        """Number of batches."""
        return int(self._file.num_record_batches)

    @property
    def num_rows(self) -> int:
        """Number of rows: all batches but the last have `BATCH_ROWS`."""
        last = self.num_batches - 1
        return last * BATCH_ROWS + len(self._read(last)) if last >= 0 else 0

    def holds(self, names: list[str]) -> bool:
        """Whether the columns are these, in this order, and have the types of entities."""
        return self.schema.names == names and all(
            kind in _COLUMN_TYPES.get(name, _TYPES)
            for name, kind in zip(self.schema.names, self.schema.types, strict=True)
        )

    def batch(self, number: int) -> Any:
        """Return one batch, mapped, after checking its block and its values.

        Raises:
            GraphError: The block differs, or the batch is none that a `ColumnWriter` wrote.
        """
        batch = self._batches.get(number)
        if batch is None:
            boundaries = self._checker.blocks.boundaries
            self._checker.check(boundaries[number - 1] if number else 0, boundaries[number])
            batch = self._read(number)
            is_last = number == self.num_batches - 1
            if not (0 < len(batch) <= BATCH_ROWS and (is_last or len(batch) == BATCH_ROWS)):
                raise _damage(self._checker.path)
            check_batch(batch, self._checker.path.name)
            self._batches[number] = batch
        return batch

    def check_blocks(self) -> None:
        """Check all blocks at once, which is faster than one after the other."""
        self._checker.check_all()

    def _read(self, number: int) -> Any:
        try:
            return self._file.get_batch(number)
        except (pa.ArrowException, OSError):  # pyarrow raises both for damage
            raise _damage(self._checker.path) from None

    def batches(self) -> Iterator[Any]:
        """Yield all batches in order."""
        for number in range(self.num_batches):
            yield self.batch(number)

    def table(self) -> Any:
        """Return all columns as one mapped table, after checking the whole file."""
        return pa.Table.from_batches(list(self.batches()), self.schema)

    def take(self, name: str, rows: npt.NDArray[np.int64]) -> list[Any]:
        """Return the values of a column at some rows, in the order asked for."""
        numbers, places = np.divmod(rows, BATCH_ROWS)
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        values: list[Any] = [None] * len(rows)
        for part in np.split(order, starts[1:]) if len(rows) else []:
            column = self.batch(int(numbers[part[0]])).column(name)
            taken = column.take(pa.array(places[part])).to_pylist()
            for place, value in zip(part.tolist(), taken, strict=True):
                values[place] = value
        return values


def _refuse_others(path: Path, schema: Any) -> None:
    """Refuse a file that no `ColumnWriter` wrote: its batches could be of any size once they are read."""
    plain = all(kind in _TYPES for kind in schema.types)
    try:
        if plain:
            refuse_arrow_flood(path)
    except pa.ArrowException:
        plain = False
    if not plain:
        raise _damage(path)


def _damage(path: Path) -> GraphError:
    return GraphError(f"{path.name} must be as it was built. Build the store again.")


def _canonical(schema: Any) -> Any:
    """Return the types of a store: strings with 64-bit offsets, the rest as they are."""
    fields = [
        pa.field(item.name, pa.large_string() if is_text(item.type) else item.type)
        for item in schema
    ]
    return pa.schema(fields)


def _plain_copy(column: Any) -> Any:
    """Return a column as one array whose bytes depend on its values alone."""
    array = pa.concat_arrays(column.chunks)
    if array.null_count:  # bits after the end and values under nulls are anything at all
        return pc.if_else(pc.is_valid(array), array, pa.scalar(None, array.type))
    if pa.types.is_boolean(array.type):
        return pa.array(array.to_numpy(zero_copy_only=False))
    if is_text(array.type):
        start, stop = array.offset, array.offset + len(array)
        offsets = np.frombuffer(array.buffers()[1], np.int64)[start : stop + 1]
        data = array.buffers()[2]
        data = data.slice(offsets[0], offsets[-1] - offsets[0]) if data is not None else None
        parts = [None, pa.py_buffer(offsets - offsets[0]), data or pa.py_buffer(b"")]
        return pa.Array.from_buffers(array.type, len(array), parts)
    return pa.array(array.to_numpy(), array.type)
