r"""Tables of entities and relations as files, read a bounded number of rows at a time.

A source is one folder: `entities.parquet` and `relations.csv.gz` (any format of `formats`), or folders
`entities/` and `relations/` that hold files of these formats at any depth, in the order of their paths. A
folder named `key=value` in between is a column, as Hive writes partitions. Patterns (`part-*.parquet`) name
files too. What a chunk holds is what `formats.read_table` would have read, with the same errors.

Public: `SourceFiles`, `Chunk`, `find_files`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     _ = (Path(folder) / "entities.csv").write_text("id,text\na,x\n")
...     files = find_files(folder, "entities")
...     [(chunk.start, chunk.table.to_pylist()) for chunk in files.chunks()]
[(0, [{'id': 'a', 'text': 'x'}])]
"""

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from reldp.errors import GraphError
from reldp.graph.disclosure import column_words, type_words
from reldp.graph.formats import EXTENSIONS
from reldp.graph.reading import find_file, header_of
from reldp.graph.store.format_chunks import FileChunks, file_chunks

__all__ = ["CHUNK_ROWS", "Chunk", "SourceFiles", "find_files"]

CHUNK_ROWS = 1 << 18


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Some rows of a source: an Arrow table, and the number of its first row."""

    start: int
    table: Any = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class _Part:
    """One file, and the columns that its folders name."""

    file: FileChunks
    keys: tuple[tuple[str, str], ...]


class SourceFiles:
    """The files of one table.

    Attributes:
        name: What errors call the table: the file's name, or the folder's or pattern's.
        typed: False if a file is a text file, whose ids are written without a type.
        column_names: Names of the columns, of all files.
        drops: What was left out of the files on request.
        size: Bytes of all files, for progress.
    """

    def __init__(self, name: str, parts: Sequence[_Part]) -> None:
        self.name = name
        self._parts = list(parts)
        self.typed = all(part.file.typed for part in parts)
        self.size = sum(part.file.path.stat().st_size for part in parts)
        self._schema = self._unified()
        self.column_names = list(self._schema.names)
        malformed = sum(part.file.num_malformed for part in parts)
        self.drops = (("malformed_lines", malformed),) if malformed else ()
        self._starts = [0]  # first rows of the files that have been reached

    def chunks(self, columns: Sequence[str] | None = None) -> Iterator[Chunk]:
        """Yield all rows in order; `columns` names the columns to read (default: all)."""
        schema = self._schema
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        start = 0
        for number, part in enumerate(self._parts):
            if number == len(self._starts):
                self._starts.append(start)
            names = part.file.schema.names
            wanted = [name for name in schema.names if name in names] or names[:1]
            for table in part.file.tables(wanted, CHUNK_ROWS):
                yield Chunk(start=start, table=_with_keys(table, part.keys, schema))
                start += table.num_rows

    def empty_table(self) -> Any:
        """Return a table with all columns and no rows."""
        return self._schema.empty_table()

    def locate(self, rows: Sequence[int]) -> list[str]:
        """Return where rows stand: "line 7", with the file's name if there are several."""
        places = []
        for row in rows:
            at = sum(start <= row for start in self._starts) - 1
            place = self._parts[at].file.locate([row - self._starts[at]])[0]
            several = len(self._parts) > 1
            places.append(f"{self._parts[at].file.path.name} {place}" if several else place)
        return places

    def value(self, row: int, column: str) -> Any:
        """Return a column's value in one row, by reading up to it; for error messages only."""
        for chunk in self.chunks([column]):
            if row < chunk.start + chunk.table.num_rows:
                return chunk.table.column(column).slice(row - chunk.start, 1)
        raise GraphError(f"`row` must be a row of {self.name}, got {row}.")

    def _unified(self) -> Any:
        """Return the columns and types of all files."""
        schemas = [
            _key_fields(part.file.schema, [key for key, _ in part.keys]) for part in self._parts
        ]
        first = schemas[0]
        for part, schema in zip(self._parts, schemas, strict=True):
            for column in schema:
                _refuse_unknown(part.file.path.name, column)
        for part, schema in zip(self._parts[1:], schemas[1:], strict=True):
            missing = sorted(set(first.names) ^ set(schema.names))
            if missing:
                there = first.names if missing[0] in first.names else schema.names
                label = column_words(missing[0], there, show_ids=False)
                raise GraphError(
                    f"{self.name} must have the same columns in every file, got {label} in some of "
                    f"them only ({self._parts[0].file.path.name}, {part.file.path.name}). Write all "
                    "the same way."
                )
        if len(schemas) == 1:
            return first
        try:
            return pa.unify_schemas(schemas, promote_options="permissive")
        except (pa.ArrowException, NotImplementedError):
            raise GraphError(
                f"{self.name} must have one type per column, got files that differ. Write all the "
                "same way."
            ) from None


def _refuse_unknown(name: str, column: Any) -> None:
    """Refuse a column of a type of which Arrow can make no table, such as tensors."""
    try:  # pyarrow raises NotImplementedError where it cannot build a column
        pa.schema([column]).empty_table()
    except (pa.ArrowException, NotImplementedError):
        raise GraphError(
            f"{name} must hold columns of text, numbers or vectors, got {type_words(column.type)}. Write them as lists "
            "of numbers, or leave them out."
        ) from None


def find_files(
    source: str | PathLike[str],
    role: str,
    *,
    pattern: str | None = None,
    drop: frozenset[str] = frozenset(),
    show_ids: bool = False,
    scratch: Path | None = None,
) -> SourceFiles:
    """Return the files of a role.

    Args:
        source: Folder of the source.
        role: "entities" or "relations".
        pattern: Pattern of the files' paths, relative to the folder, in place of their usual names.
        drop: Kinds of damage to drop; here only "malformed_lines".
        show_ids: Whether errors may show ids and other content of rows.
        scratch: Folder for temporary files.

    Raises:
        GraphError: No file is there, or one is damaged.
    """
    folder = Path(source)
    if not folder.is_dir():
        what = "a file" if folder.exists() else "nothing"
        raise GraphError(f"A graph must be a folder, got {what} at {str(source)!r}.")
    if pattern is not None:
        names = sorted(glob.glob(pattern, root_dir=folder, recursive=True))
        name, paths = pattern, [folder / n for n in names if (folder / n).is_file()]
    elif (folder / role).is_dir():
        below = (folder / role).rglob("*")
        name = f"{role}/"
        paths = sorted(path for path in below if path.is_file() and not _is_hidden(path, folder))
    else:
        path = find_file(folder, role)
        name, paths = path.name, [path]
    if not paths:
        raise GraphError(f"{name} must name at least one file, got none.")
    wrong = [path for path in paths if not path.name.endswith(EXTENSIONS)]
    if wrong and len(paths) > 1:
        raise GraphError(f"{wrong[0].name} must end in one of {', '.join(EXTENSIONS)}.")
    parts = [
        _Part(
            file=file_chunks(
                path,
                columns=header_of(path, role),
                drop=drop,
                show_ids=show_ids,
                scratch=scratch,
                num_files=len(paths),
            ),
            keys=_keys(path.relative_to(folder).parts[:-1]),
        )
        for path in paths
    ]
    return SourceFiles(name, parts)


def _is_hidden(path: Path, folder: Path) -> bool:
    """Whether other programs' files are meant: markers such as _SUCCESS, and hidden files."""
    return any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)


def _keys(folders: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the columns that folders name: `type=bought` is the column `type` with one value."""
    pairs = (folder.partition("=") for folder in folders)
    return tuple((key, unquote(value)) for key, equals, value in pairs if equals and key)


def _key_fields(schema: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        if key in schema.names:
            raise GraphError(
                f"A folder must not name a column that its files have too, got "
                f"{column_words(key, schema.names, show_ids=False)}. Remove one of them."
            )
        schema = schema.append(pa.field(key, pa.string()))
    return schema


def _with_keys(table: Any, keys: Sequence[tuple[str, str]], schema: Any) -> Any:
    """Return a table with the columns of its folders, in the types of all files."""
    for key, value in keys:
        if key in schema.names:
            column = pa.repeat(pa.scalar(value, pa.string()), table.num_rows)
            table = table.append_column(key, column)
    if table.schema.equals(schema):
        return table
    return table.select(schema.names).cast(schema)
