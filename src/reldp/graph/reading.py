r"""Finds and reads the files of a graph folder.

A folder holds one `entities` file and one `relations` file, in any format of `formats.EXTENSIONS`;
or `nodes.tsv.gz` and `edges.tsv.gz` (plain `.tsv` too) without a header: id and text, id and id. A
`record.json` beside them is the graph's record.

Public: `read_folder`, `read_files`. What they return is not checked yet: see `validation`. Inside the
package also: `find_file`, `header_of`, `read_record`.

>>> import tempfile, pathlib
>>> with tempfile.TemporaryDirectory() as folder:
...     _ = (pathlib.Path(folder) / "entities.csv").write_text("id,text\na,x\n")
...     read_folder(folder)
Traceback (most recent call last):
reldp.errors.GraphError: The graph folder must hold one relations file, got none. ...
"""

import os
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from reldp.errors import GraphError
from reldp.graph.compression import COMPRESSED
from reldp.graph.formats import EXTENSIONS, read_table
from reldp.graph.record import GraphRecord
from reldp.graph.sources import SourceTable

__all__ = ["GraphFiles", "find_file", "header_of", "read_files", "read_folder", "read_record"]

_LARGEST_RECORD = 2**24  # bytes of record.json
_HEADERLESS = (".tsv", *(f".tsv{end}" for end in COMPRESSED))
_ROLES = {
    "entities": ("nodes", ("id", "text")),
    "relations": ("edges", ("source", "target")),
}


@dataclass(frozen=True, kw_only=True)
class GraphFiles:
    """Two tables and a record, as read."""

    entities: SourceTable
    relations: SourceTable
    record: GraphRecord


def read_folder(
    path: str | PathLike[str], drop: frozenset[str] = frozenset(), *, show_ids: bool = False
) -> GraphFiles:
    """Read the files of a graph folder.

    Raises:
        GraphError: A file is missing, there twice, or damaged.
    """
    folder = Path(path)
    if not folder.is_dir():
        what = "a file" if folder.exists() else "nothing"
        raise GraphError(f"A graph must be a folder, got {what} at {str(path)!r}.")
    paths = {role: find_file(folder, role) for role in _ROLES}
    return read_files(
        paths["entities"],
        paths["relations"],
        drop,
        show_ids=show_ids,
    )


def read_files(
    entities: str | PathLike[str],
    relations: str | PathLike[str],
    drop: frozenset[str] = frozenset(),
    *,
    show_ids: bool = False,
) -> GraphFiles:
    """Read an entities file and a relations file, and a record.json beside the former."""
    tables = {
        role: read_table(
            Path(path), columns=header_of(Path(path), role), drop=drop, show_ids=show_ids
        )
        for role, path in (("entities", entities), ("relations", relations))
    }
    record = read_record(Path(entities).parent / "record.json")
    return GraphFiles(entities=tables["entities"], relations=tables["relations"], record=record)


def header_of(path: Path, role: str) -> tuple[str, ...] | None:
    """Return the column names of a file that by its name has no header; None for other files."""
    stem, columns = _ROLES[role]
    return columns if path.name in {stem + end for end in _HEADERLESS} else None


def find_file(folder: Path, role: str) -> Path:
    """Return the one file of a role, "entities" or "relations"."""
    stem, _ = _ROLES[role]
    names = [role + end for end in EXTENSIONS] + [stem + end for end in _HEADERLESS]
    there = [name for name in names if (folder / name).exists()]
    if len(there) > 1:
        raise GraphError(
            f"The graph folder must hold one {role} file, got {there[0]} and {there[1]}. "
            "Remove one."
        )
    if not there:
        similar = sorted(p.name for p in folder.iterdir() if p.name.startswith((role, stem)))
        got = f"got {similar[0]}" if similar else "got none"
        raise GraphError(
            f"The graph folder must hold one {role} file, {got}. "
            f"Expected {role}.{{parquet,arrow,csv,tsv,jsonl}} (text files also with .gz, .bz2 or .zst), or "
            f"{stem}.tsv.gz."
        )
    return folder / there[0]


def read_record(path: Path) -> GraphRecord:
    """Return the record in a file, or an empty one where there is no file.

    The name of a folder or a file is no source: a source is published, and names may say more than they should.
    """
    if not os.path.lexists(path):
        return GraphRecord()
    if not path.is_file():  # a named pipe would never end
        raise GraphError(
            f"{path.name} must be a file, got something else. Remove it, or write it again."
        )
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_RECORD + 1)
        if len(data) > _LARGEST_RECORD:
            raise GraphError(f"{path.name} must have at most {_LARGEST_RECORD:,} bytes, got more.")
        text = data.decode("utf-8")
    except (UnicodeDecodeError, OSError):
        raise GraphError(f"{path.name} must be readable UTF-8 text. Write it again.") from None
    return GraphRecord.from_json(text)
