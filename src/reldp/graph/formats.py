r"""Readers of the file formats of a graph folder, each giving a `SourceTable`.

Parquet, Arrow (memory-mapped), CSV, TSV and JSONL, the last three plain or compressed (`compression`). CSV follows RFC
4180, and its quotes are checked (`csv_quotes`); TSV has no quoting at all: a tab separates, a line end ends. Text files
carry no types, so their columns are strings. What Arrow's readers refuse is looked at again, slowly, for an error that
names the lines.

Public: `read_table`, `EXTENSIONS`. The parts of a reader are shared with `store.format_chunks`, which
reads the same files a bounded number of rows at a time.

>>> import tempfile, pathlib
>>> with tempfile.TemporaryDirectory() as folder:
...     path = pathlib.Path(folder) / "entities.tsv"
...     _ = path.write_text('id\ttext\na\tsays "hello"\n')
...     read_table(path).table.to_pylist()
[{'id': 'a', 'text': 'says "hello"'}]
"""

import csv
import io
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from reldp.errors import GraphError
from reldp.graph.arrow_size import refuse_arrow_flood
from reldp.graph.column_count import refuse_columns, refuse_keys
from reldp.graph.compression import COMPRESSED, open_unpacked
from reldp.graph.csv_quotes import CheckedStream
from reldp.graph.diagnosis import (
    explain_delimited,
    explain_jsonl,
    is_text,
    json_object,
    line_numbers,
    open_bytes,
    records,
    well_formed,
)
from reldp.graph.disclosure import reason_words
from reldp.graph.file_signatures import LONGEST, refuse_other_content
from reldp.graph.parquet_size import refuse_parquet_flood
from reldp.graph.sources import SourceTable
from reldp.graph.text_lines import num_line_ends
from reldp.runs.plain_files import refuse_holes

__all__ = [
    "BLOCK_BYTES",
    "EXTENSIONS",
    "ID_COLUMNS",
    "binary_errors",
    "delimited_options",
    "explained",
    "file_kind",
    "header",
    "json_schema",
    "open_stream",
    "read_table",
]

EXTENSIONS = (
    ".parquet",
    ".arrow",
    *(f".{kind}{end}" for kind in ("csv", "tsv", "jsonl") for end in ("", *COMPRESSED)),
)

_CSV = tuple(f".csv{end}" for end in ("", *COMPRESSED))
ID_COLUMNS = ("id", "source", "target")
BLOCK_BYTES = 1 << 24  # a JSON line must fit into a block
_SEARCHED = 200_000  # lines
_LONGEST_HEADER = 2**20  # bytes


def read_table(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    drop: frozenset[str] = frozenset(),
    show_ids: bool = False,
) -> SourceTable:
    """Return the table in a file, by its extension.

    Args:
        path: The file.
        columns: Column names of a file without a header (CSV and TSV only).
        drop: Kinds of damage to drop; here only "malformed_lines".
        show_ids: Whether errors may show ids and other content of rows.

    Raises:
        GraphError: The file is damaged, empty or of no known format.
    """
    kind = file_kind(path)
    if kind == ".parquet":
        return _binary(path, "Parquet", _parquet, show_ids)
    if kind == ".arrow":
        return _binary(path, "Arrow", _arrow, show_ids)
    if kind.startswith(".jsonl"):
        return _jsonl(path, show_ids)
    delimiter = "," if kind.startswith(".csv") else "\t"
    return _delimited(path, delimiter, columns, drop, show_ids)


def file_kind(path: Path) -> str:
    """Return the extension of a file that is there and has content.

    Raises:
        GraphError: It is not there, is empty or consists almost of holes, is of no known format, or its first bytes
            are those of another one.
    """
    kind = next((end for end in EXTENSIONS if path.name.endswith(end)), None)
    if kind is None:
        raise GraphError(f"{path.name} must end in one of {', '.join(EXTENSIONS)}.")
    if not path.is_file():
        what = "a folder" if path.is_dir() else "none"
        raise GraphError(f"{path.name} must be a file, got {what}.")
    if path.stat().st_size == 0:
        raise GraphError(f"{path.name} must not be empty, got 0 bytes. Write it again.")
    try:
        with path.open("rb") as file:
            refuse_holes(path, file, error=GraphError)
            first = file.read(LONGEST)
    except OSError as error:
        raise GraphError(f"{path.name} cannot be read: {error.strerror or error}.") from None
    if kind not in (".parquet", ".arrow"):  # whose readers say that they are others
        refuse_other_content(path, first)
    return kind


@contextmanager
def binary_errors(path: Path, name: str, show_ids: bool) -> Iterator[None]:
    """Turn what Arrow says of a damaged Parquet or Arrow file into one clear error."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = reason_words(error, path, show_ids=show_ids)
        raise GraphError(
            f"{path.name} must be a whole {name} file: {reason}. Write it again."
        ) from None


def _binary(path: Path, name: str, read: Callable[[Path], Any], show_ids: bool) -> SourceTable:
    with binary_errors(path, name, show_ids):
        table = read(path)
        table.validate(full=True)  # a damaged file must not send Arrow out of bounds later
    pa.default_memory_pool().release_unused()  # what decoding took
    return SourceTable(table=table, name=path.name, show_ids=show_ids)


def _parquet(path: Path) -> Any:
    import pyarrow.parquet as pq

    refuse_parquet_flood(path)
    return pq.read_table(path, memory_map=True, partitioning=None)


def _arrow(path: Path) -> Any:
    refuse_arrow_flood(path)
    with pa.memory_map(str(path)) as mapped:
        return pa.ipc.open_file(mapped).read_all()


def _delimited(
    path: Path,
    delimiter: str,
    columns: Sequence[str] | None,
    drop: frozenset[str],
    show_ids: bool,
) -> SourceTable:
    import pyarrow.csv as pc

    separator = delimiter.encode()
    names, skip = (list(columns), 0) if columns else header(path, delimiter)
    num_malformed = 0
    try:
        if "malformed_lines" in drop:
            records, num_malformed = well_formed(path, separator, len(names), header=not columns)
            table = pc.read_csv(pa.BufferReader(records), **delimited_options(delimiter, names, 0))
        else:
            with open_stream(path) as stream:
                table = pc.read_csv(stream, **delimited_options(delimiter, names, skip))
    except (pa.ArrowException, OSError) as error:
        what = explain_delimited(path, separator, len(names))
        raise explained(error, path, what, show_ids) from None
    locate = partial(
        line_numbers,
        path,
        delimiter=separator,
        header=not columns,
        num_columns=len(names) if num_malformed else 0,
    )
    drops = (("malformed_lines", num_malformed),) if num_malformed else ()
    return SourceTable(
        table=table,
        name=path.name,
        typed=False,
        locate=locate,
        drops=drops,
        show_ids=show_ids,
    )


def delimited_options(delimiter: str, names: list[str], skip: int) -> dict[str, Any]:
    """Return the options of Arrow's reader, for which every column is text."""
    import pyarrow.csv as pc

    quoted = delimiter == ","
    return {
        "read_options": pc.ReadOptions(column_names=names, skip_rows=skip, block_size=BLOCK_BYTES),
        "parse_options": pc.ParseOptions(
            delimiter=delimiter,
            quote_char='"' if quoted else False,
            double_quote=quoted,
            escape_char=False,
            newlines_in_values=quoted,
        ),
        "convert_options": pc.ConvertOptions(
            column_types={name: pa.string() for name in names}, strings_can_be_null=False
        ),
    }


def header(path: Path, delimiter: str) -> tuple[list[str], int]:
    """Return the column names, not too many, and how many lines there are up to and with them."""
    names, line = _header(path, delimiter)
    refuse_columns(path.name, len(names))
    return names, line


def _header(path: Path, delimiter: str) -> tuple[list[str], int]:
    with open_bytes(path) as stream:
        line, first = next(records(stream, delimiter == ",", path.name), (1, b""))
    if len(first) > _LONGEST_HEADER:
        raise GraphError(
            f"{path.name} must start with the names of its columns, of at most {_LONGEST_HEADER:,} bytes, got "
            f"{len(first):,} bytes. Add a first line that names them."
        )
    text = _decoded(first, path.name)
    if not text.strip():
        raise GraphError(f"{path.name} must not be empty, got blank lines only. Write it again.")
    if delimiter == "\t":
        if text.startswith('"') and text.endswith('"'):
            raise GraphError(
                f"{path.name} must be written without quotes, which mean nothing between tabs, got "
                "quoted column names. Write it without, or as CSV."
            )
        return text.split("\t"), line
    try:
        names = next(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise GraphError(
            f"{path.name} must start with the names of its columns: {error}."
        ) from None
    if len(names) == 1 and (other := next((mark for mark in ";\t" if mark in names[0]), None)):
        kind, fix = (
            ("semicolons", "Write it with commas") if other == ";" else ("tabs", "Name it .tsv")
        )
        raise GraphError(
            f"{path.name} must have commas between its columns, got one column with {kind} in its name. {fix}."
        )
    return [name.strip() for name in names], line + num_line_ends(first)


def _decoded(first: bytes, name: str) -> str:
    """Return the text of a first line.

    Raises:
        GraphError: It is not UTF-8, or holds NUL characters.
    """
    is_wide = b"\x00" in first or first.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        if not is_wide:
            return first.decode("utf-8")
    except UnicodeDecodeError:
        pass
    fix = (
        "It may be UTF-16: convert it, for example with iconv -f utf-16 -t utf-8"
        if is_wide
        else "Convert it, for example with iconv -f windows-1252 -t utf-8"
    )
    raise GraphError(f"{name} must be UTF-8 text, but its first line is not. {fix}.")


def _jsonl(path: Path, show_ids: bool) -> SourceTable:
    import pyarrow.json as pj

    try:
        with open_stream(path) as stream:
            table = pj.read_json(
                stream,
                read_options=pj.ReadOptions(block_size=BLOCK_BYTES),
                parse_options=pj.ParseOptions(explicit_schema=json_schema(path, show_ids)),
            )
        table.validate(full=True)
        table.column_names  # noqa: B018  # raises where a name is no text
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        what = explain_jsonl(path, ID_COLUMNS, show_ids=show_ids) or _refused_line(path, show_ids)
        raise explained(error, path, what, show_ids) from None
    locate = partial(line_numbers, path, header=False)
    return SourceTable(table=table, name=path.name, locate=locate, show_ids=show_ids)


def _refused_line(path: Path, show_ids: bool) -> str:
    """Return the first line that does not fit those before it, for a file of moderate size; empty if none is found."""
    import pyarrow.json as pj

    schema = json_schema(path, show_ids)
    with open_bytes(path) as stream:
        lines = list(islice(records(stream, quoted=False, name=path.name), _SEARCHED + 1))
    if len(lines) > _SEARCHED:
        return ""

    def is_refused(count: int) -> bool:
        data = b"\n".join(record for _, record in lines[:count])
        try:
            pj.read_json(
                pa.BufferReader(data),
                read_options=pj.ReadOptions(block_size=BLOCK_BYTES),
                parse_options=pj.ParseOptions(explicit_schema=schema),
            )
        except pa.ArrowException:
            return True
        return False

    count = bisect_left(range(1, len(lines) + 1), True, key=is_refused) + 1
    if count > len(lines):
        return ""
    return (
        f"must hold one type of value in each column, got another on line {lines[count - 1][0]}, also inside of lists "
        "and objects. Write all the same way."
    )


def json_schema(path: Path, show_ids: bool) -> Any:
    """Types from the first record, so that a text that looks like a date stays a text; refuses too many keys."""
    with open_bytes(path) as stream:
        first = next(records(stream, quoted=False, name=path.name), (1, b""))[1]
    record = json_object(first)
    if record is None:
        what = explain_jsonl(path, ID_COLUMNS, show_ids=show_ids)
        what = what or "must hold one JSON object per line, got none."
        raise GraphError(f"{path.name} {what}")
    if any(not is_text(key) for key in record):
        raise GraphError(
            f"{path.name} must have names of columns that are text, got half of a surrogate pair. Write it again."
        )
    refuse_keys(path, show_ids=show_ids)
    strings = {key for key, value in record.items() if isinstance(value, str)} | {"text"}
    return pa.schema([(key, pa.string()) for key in sorted(strings & set(record))])


@contextmanager
def open_stream(path: Path) -> Iterator[Any]:
    """Open a text file for Arrow, unpacked if it is compressed; the quotes of a CSV file are checked on the way."""
    is_csv = path.name.endswith(_CSV)
    if is_csv or path.suffix in COMPRESSED:
        with open_unpacked(path) as stream:
            yield pa.PythonFile(CheckedStream(stream, path) if is_csv else stream, mode="r")
    else:
        with pa.input_stream(str(path), compression=None) as stream:
            yield stream


def explained(error: Exception, path: Path, what: str, show_ids: bool) -> GraphError:
    """Return the error for a text file: what was found to be wrong, else why it cannot be read."""
    reason = reason_words(error, path, show_ids=show_ids)
    return GraphError(f"{path.name} {what or f'cannot be read: {reason}. Write it again.'}")
