"""Writes a graph to a folder that reads back as the same graph.

Parquet by default: small, and read by everything. Arrow on request: not compressed, and mapped
into memory when read, so text that does not fit is paged in by the system. Files are private (mode
0600), and each appears whole or not at all.

Public: `write_folder`.

>>> import tempfile, pathlib
>>> entities = pa.table({"id": [1, 2], "text": ["x", "y"]})
>>> relations = pa.table({"source": [1], "target": [2]})
>>> with tempfile.TemporaryDirectory() as folder:
...     write_folder(folder, entities, relations, GraphRecord(source="an example"))
...     sorted(path.name for path in pathlib.Path(folder).iterdir())
['entities.parquet', 'record.json', 'relations.parquet']
"""

import os
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from reldp._validate import shown
from reldp.errors import GraphError
from reldp.graph.record import GraphRecord

__all__ = ["write_folder"]

_STORE = "store.json"  # the manifest of a graph store
_STEMS = ("entities", "relations", "nodes", "edges", "record")


def write_folder(
    path: str | PathLike[str],
    entities: Any,
    relations: Any,
    record: GraphRecord,
    *,
    format: str = "parquet",
    overwrite: bool = False,
) -> None:
    """Write `entities`, `relations` and `record.json`.

    Args:
        path: The folder; made if it is not there.
        entities: Arrow table of the graph's entities.
        relations: Arrow table with columns `source` and `target`.
        record: The graph's record.
        format: "parquet" or "arrow".
        overwrite: Replace a graph that is already in the folder.

    Raises:
        GraphError: The folder holds a graph already or is a graph store, or cannot be written.
    """
    if format not in ("parquet", "arrow"):
        raise GraphError(f"`format` must be 'parquet' or 'arrow', got {shown(format)}.")
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise GraphError(f"A graph must be written to a folder, got a file at {str(path)!r}.")
    if (folder / _STORE).is_file():  # it would still be read as the store
        raise GraphError(
            f"A graph must not be written into the folder of a graph store, got {folder.name!r}. "
            "Choose another folder, or remove the store first."
        )
    new = not folder.exists()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    old = [item for item in folder.iterdir() if item.name.split(".")[0] in _STEMS]
    if old and not overwrite:
        raise GraphError(
            f"The folder must not hold a graph already, got {old[0].name}. "
            "Choose another folder or overwrite=True."
        )
    parts = {f"entities.{format}": entities, f"relations.{format}": relations}
    names = [*parts, "record.json"]
    try:
        for name, table in parts.items():
            _write_table(_private(folder / f".{name}.partial"), table, format)
        _private(folder / ".record.json.partial").write_text(record.to_json(), encoding="utf-8")
        for name in names:
            os.replace(folder / f".{name}.partial", folder / name)
    finally:
        for name in names:  # half a private file is still a private file
            (folder / f".{name}.partial").unlink(missing_ok=True)
        if new and not any(folder.iterdir()):  # nothing could be written
            folder.rmdir()
    for item in old:
        if item.name not in names:
            item.unlink()


def _private(path: Path) -> Path:
    """Return an empty file that only its owner can read."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    return path


def _write_table(path: Path, table: Any, format: str) -> None:
    if format == "arrow":
        # One record batch: what is read back is one contiguous, mapped array per column.
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table.combine_chunks())
        return
    import pyarrow.parquet as pq

    pq.write_table(table, path, compression="zstd")
