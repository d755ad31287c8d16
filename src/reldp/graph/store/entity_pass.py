"""Entities of a source, read twice: once for their ids, once for everything else.

The first pass keeps the ids in the engine, which finds the repeated ones. The second checks every row with
the checks of `validation`, and writes the rows that are left.

Public: `write_entities`, `StoredEntities`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reldp.errors import GraphError
from reldp.graph.columns import first_length, id_column, is_text
from reldp.graph.disclosure import guarded
from reldp.graph.sources import SourceTable
from reldp.graph.store.arrays import GrowingArray
from reldp.graph.store.chunked_checks import ChunkedChecklist
from reldp.graph.store.column_file import ColumnWriter
from reldp.graph.store.engine import Engine
from reldp.graph.store.progress import Progress
from reldp.graph.store.source_files import SourceFiles
from reldp.graph.validation import entity_columns, require_entity_columns

__all__ = ["ENTITIES", "FEATURES", "StoredEntities", "write_entities"]

ENTITIES, FEATURES = "entities.arrow", "features.npy"


@dataclass(frozen=True, kw_only=True)
class StoredEntities:
    """Entities that were written.

    Attributes:
        num_entities: Number of entities.
        index: (rows of the source,) each row's entity, -1 if it was dropped; None if none was.
        id_type: Arrow type of the ids.
        typed: Whether the ids have a type of their own (a text file's do not).
        columns: Names of the columns, in a graph's order.
        feature_size: Length of the feature vectors, 0 without features.
        drops: Count by kind of what was dropped on request.
        boundaries: Where the blocks of the file of columns end.
    """

    num_entities: int
    index: npt.NDArray[np.int64] | None = field(repr=False)
    id_type: Any
    typed: bool
    columns: tuple[str, ...]
    feature_size: int
    drops: dict[str, int]
    boundaries: list[int] = field(repr=False)


def write_entities(
    files: SourceFiles,
    folder: Path,
    drop: frozenset[str],
    engine: Engine,
    progress: Progress,
    *,
    show_ids: bool,
) -> StoredEntities:
    """Check the entities of a source and write those that are left.

    Args:
        files: The table of entities.
        folder: Folder for the columns and features.
        drop: Kinds of damage to drop and count.
        engine: Keeps the ids, with the row of each, for the relations.
        progress: Receives how far the work is.
        show_ids: Whether errors may show ids.

    Raises:
        GraphError: Something is wrong that the caller did not ask to drop.
    """
    with guarded(files.name, show_ids=show_ids):
        source = SourceTable(table=files.empty_table(), name=files.name, show_ids=show_ids)
        require_entity_columns(source)
        if "owner" in files.column_names:
            raise GraphError(
                f"{files.name} must have no column 'owner' in a graph store, got one. Owners work for "
                "graphs in memory: read the folder itself."
            )
        num_rows, id_type = _keep_ids(files, engine, progress)
        if not num_rows:
            raise GraphError(f"{files.name} must name at least one entity, got none.")
        alive = np.ones(num_rows, dtype=bool)
        checks = ChunkedChecklist(files, drop, alive, show_ids=show_ids)
        written = _write(files, folder, checks, engine.repeated_rows(), progress, num_rows)
        checks.finish()
        writer, columns, feature_size = written
        if not writer.num_rows:
            raise GraphError(f"{files.name} must name at least one entity, all were dropped.")
    return StoredEntities(
        num_entities=writer.num_rows,
        index=None if alive.all() else np.where(alive, np.cumsum(alive) - 1, -1),
        id_type=id_type,
        typed=files.typed,
        columns=columns,
        feature_size=feature_size,
        drops=checks.drops,
        boundaries=writer.boundaries,
    )


def _keep_ids(files: SourceFiles, engine: Engine, progress: Progress) -> tuple[int, Any]:
    """Give the engine all ids; return the number of rows and the type of the ids."""
    num_rows = 0
    first = files.empty_table().column("id")
    id_type = id_column(first, files.name, "id").type
    kind = pa.large_string() if is_text(id_type) else id_type

    def batches() -> Iterator[Any]:
        nonlocal num_rows
        with progress.phase("reading ids of entities") as advance:
            for chunk in files.chunks(["id"]):
                ids = id_column(chunk.table.column("id"), files.name, "id").cast(kind)
                rows = pa.array(np.arange(chunk.start, chunk.start + len(ids)))
                yield pa.record_batch([ids, rows], names=["id", "row"])
                num_rows += len(ids)
                advance(len(ids))

    engine.keep_ids(kind, batches())
    return num_rows, id_type


def _write(
    files: SourceFiles,
    folder: Path,
    checks: ChunkedChecklist,
    repeated: npt.NDArray[np.int64],
    progress: Progress,
    num_rows: int,
) -> tuple[ColumnWriter, tuple[str, ...], int]:
    """Check all rows and write those that are left, until one is found that may not be dropped."""
    size = _feature_size(files) if "features" in files.column_names else 0
    vectors = GrowingArray(folder / FEATURES, np.float32, columns=size) if size else None
    columns: tuple[str, ...] = ()
    extra_drops = None
    with (
        ColumnWriter(folder / ENTITIES) as writer,
        progress.phase("checking entities", num_rows) as advance,
    ):
        for chunk in files.chunks():
            checks.begin(chunk.start, chunk.table)
            ids = id_column(chunk.table.column("id"), files.name, "id")
            first, last = np.searchsorted(repeated, [chunk.start, chunk.start + len(ids)])
            contents = entity_columns(checks, ids, repeated[first:last] - chunk.start, size or None)
            extra_drops = _counted_once(checks, extra_drops)
            columns = tuple(contents)
            advance(len(ids))
            if checks.has_problems:
                continue
            features = contents.pop("features", None)
            left = pa.array(checks.alive)
            if vectors is not None:
                matrix = features.flatten().to_numpy().reshape(-1, size)[checks.alive]
                vectors.grow(writer.num_rows + len(matrix))
                vectors.rows[writer.num_rows : writer.num_rows + len(matrix)] = matrix
            writer.add(pa.table(contents).filter(left))
    if vectors is not None:
        vectors.close(writer.num_rows)
    return writer, columns, size


def _feature_size(files: SourceFiles) -> int:
    """Return the length of the first feature vector."""
    for chunk in files.chunks(["features"]):
        size = first_length(chunk.table.column("features"), files.name)
        if size:
            return size
    raise GraphError(f"{files.name} must hold a vector per entity in column 'features', got none.")


def _counted_once(checks: ChunkedChecklist, before: int | None) -> int:
    """Keep the number of dropped columns at that of the first chunk: they are the same in each."""
    count = checks.drops.get("extra_columns", 0)
    if before is None:
        return count
    if before:
        checks.drops["extra_columns"] = before
    return before
