r"""One file of a source, read a bounded number of rows at a time.

The same rows, types and errors as `formats.read_table` gives for the whole file. JSONL is read twice: a block
of lines can lack a column, or hold whole numbers only, so the types are known after the last block.

Public: `FileChunks`, `file_chunks`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "relations.tsv"
...     _ = path.write_text("source\ttarget\na\tb\nb\tc\n")
...     [table.num_rows for table in file_chunks(path).tables(["source"], 1)]
[1, 1]
"""

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from reldp.graph.arrow_size import refuse_arrow_flood
from reldp.graph.diagnosis import (
    explain_delimited,
    explain_jsonl,
    field_count,
    line_numbers,
    open_bytes,
    records,
)
from reldp.graph.formats import (
    BLOCK_BYTES,
    ID_COLUMNS,
    binary_errors,
    delimited_options,
    explained,
    file_kind,
    header,
    json_schema,
    open_stream,
)
from reldp.graph.parquet_size import refuse_parquet_flood
from reldp.graph.sources import by_row
from reldp.graph.text_lines import line_blocks

__all__ = ["FileChunks", "file_chunks"]


class FileChunks(ABC):
    """A file that is read in pieces.

    Attributes:
        path: The file.
        typed: False for a text file, whose columns are written without a type.
        schema: Names and types of its columns.
        num_malformed: Lines that were left out on request.
        locate: Says where rows of the file stand ("line 7"); rows count from 0.
    """

    typed: ClassVar[bool] = True
    num_malformed = 0

    def __init__(self, path: Path, show_ids: bool) -> None:
        self.path = path
        self.show_ids = show_ids
        self.schema: Any = None
        self.locate: Callable[[Sequence[int]], list[str]] = by_row

    def tables(self, columns: Sequence[str], num_rows: int) -> Iterator[Any]:
        """Yield tables of at most so many rows with the columns asked for, at least one."""
        for table in self._tables(list(columns), num_rows):
            for start in range(0, table.num_rows, num_rows):
                yield table.slice(start, num_rows)

    @abstractmethod
    def _tables(self, columns: list[str], num_rows: int) -> Iterator[Any]:
        """Yield tables of any size."""


def file_chunks(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    drop: frozenset[str] = frozenset(),
    show_ids: bool = False,
    scratch: Path | None = None,
    num_files: int = 1,
) -> FileChunks:
    """Return a file as chunks, by its extension.

    Args:
        path: The file.
        columns: Column names of a file without a header (CSV and TSV only).
        drop: Kinds of damage to drop; here only "malformed_lines".
        show_ids: Whether errors may show ids and other content of rows.
        scratch: Folder for a copy without the malformed lines (default: the system's).
        num_files: Number of files of the source, which share what small files may decode to.

    Raises:
        GraphError: The file is damaged, empty or of no known format.
    """
    kind = file_kind(path)
    if kind == ".parquet":
        return _Parquet(path, show_ids, num_files)
    if kind == ".arrow":
        return _Arrow(path, show_ids, num_files)
    if kind.startswith(".jsonl"):
        return _JsonLines(path, show_ids)
    delimiter = "," if kind.startswith(".csv") else "\t"
    spool = None
    if "malformed_lines" in drop:
        handle, spool_name = tempfile.mkstemp(dir=scratch, suffix=".lines")
        os.close(handle)
        spool = Path(spool_name)
    return _Delimited(path, show_ids, delimiter, columns, spool)


class _Parquet(FileChunks):
    def __init__(self, path: Path, show_ids: bool, num_files: int) -> None:
        import pyarrow.parquet as pq

        super().__init__(path, show_ids)
        with binary_errors(path, "Parquet", show_ids):
            refuse_parquet_flood(path, num_files=num_files)
            with pq.ParquetFile(path) as file:
                self.schema = file.schema_arrow
                self.schema.names  # noqa: B018  # raises where a name is no text

    def _tables(self, columns: list[str], num_rows: int) -> Iterator[Any]:
        import pyarrow.parquet as pq

        with (
            binary_errors(self.path, "Parquet", self.show_ids),
            pq.ParquetFile(self.path, memory_map=True) as file,
        ):
            # A group of rows at a time: what Arrow decodes ahead is freed with it.
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(num_rows, row_groups=[group], columns=columns):
                    batch.validate(full=True)
                    yield pa.Table.from_batches([batch])


class _Arrow(FileChunks):
    def __init__(self, path: Path, show_ids: bool, num_files: int) -> None:
        super().__init__(path, show_ids)
        with binary_errors(path, "Arrow", show_ids):
            refuse_arrow_flood(path, num_files=num_files)
            with pa.memory_map(str(path)) as mapped:
                self.schema = pa.ipc.open_file(mapped).schema
                self.schema.names  # noqa: B018  # raises where a name is no text

    def _tables(self, columns: list[str], num_rows: int) -> Iterator[Any]:
        with (
            binary_errors(self.path, "Arrow", self.show_ids),
            pa.memory_map(str(self.path)) as mapped,
        ):
            file = pa.ipc.open_file(mapped)
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                batch.validate(full=True)  # a damaged file must not send Arrow out of bounds later
                yield pa.Table.from_batches([batch]).select(columns)


class _Delimited(FileChunks):
    typed: ClassVar[bool] = False

    def __init__(
        self,
        path: Path,
        show_ids: bool,
        delimiter: str,
        columns: Sequence[str] | None,
        spool: Path | None,
    ) -> None:
        super().__init__(path, show_ids)
        self._delimiter, self._spool = delimiter, spool
        self._names, self._skip = (list(columns), 0) if columns else header(path, delimiter)
        self.schema = pa.schema([(name, pa.string()) for name in self._names])
        if spool is not None:
            self._write_spool(spool, has_header=not columns)
            self._skip = 0
        self.locate = partial(
            line_numbers,
            path,
            delimiter=delimiter.encode(),
            header=not columns,
            num_columns=len(self._names) if self.num_malformed else 0,
        )

    def _tables(self, columns: list[str], num_rows: int) -> Iterator[Any]:
        import pyarrow.csv as pc

        options = delimited_options(self._delimiter, self._names, self._skip)
        try:
            with open_stream(self._spool or self.path) as stream:
                for batch in pc.open_csv(stream, **options):
                    yield pa.Table.from_batches([batch]).select(columns)
        except (pa.ArrowException, OSError) as error:
            what = explain_delimited(self.path, self._delimiter.encode(), len(self._names))
            raise explained(error, self.path, what, self.show_ids) from None

    def _write_spool(self, spool: Path, *, has_header: bool) -> None:
        """Write the lines that have the right number of columns, and count the others."""
        separator, quoted = self._delimiter.encode(), self._delimiter == ","
        with open_bytes(self.path) as stream, spool.open("wb") as out:
            out.write(b"\n")  # a blank line, which is skipped: a file must not be empty
            for _, record in islice(records(stream, quoted, self.path.name), int(has_header), None):
                if field_count(record, separator, quoted) == len(self._names):
                    out.write(record + b"\n")
                else:
                    self.num_malformed += 1


class _JsonLines(FileChunks):
    def __init__(self, path: Path, show_ids: bool) -> None:
        super().__init__(path, show_ids)
        self.locate = partial(line_numbers, path, header=False)
        schema = json_schema(path, show_ids)
        schemas = [table.schema for table in self._parsed(schema)]
        with _explaining(self.path, self.show_ids):
            self.schema = pa.unify_schemas(schemas, promote_options="permissive")

    def _tables(self, columns: list[str], num_rows: int) -> Iterator[Any]:
        for table in self._parsed(self.schema):
            yield table.select(columns)

    def _parsed(self, schema: Any) -> Iterator[Any]:
        import pyarrow.json as pj

        with _explaining(self.path, self.show_ids):
            for block in self._blocks():
                table = pj.read_json(
                    pa.BufferReader(block),
                    read_options=pj.ReadOptions(block_size=BLOCK_BYTES),
                    parse_options=pj.ParseOptions(explicit_schema=schema),
                )
                table.validate(full=True)
                table.column_names  # noqa: B018  # raises where a name is no text
                yield table

    def _blocks(self) -> Iterator[bytes]:
        """Yield whole lines, about a block of them at a time."""
        with open_bytes(self.path) as stream:
            for _, lines in line_blocks(stream, self.path.name, BLOCK_BYTES - (1 << 20)):
                if lines.strip():
                    yield lines


@contextmanager
def _explaining(path: Path, show_ids: bool) -> Iterator[None]:
    """Turn what Arrow says of a JSONL file into an error that names the lines."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        what = explain_jsonl(path, ID_COLUMNS, show_ids=show_ids)
        raise explained(error, path, what, show_ids) from None
