"""Relations of a source: ids joined to entities, checked, merged and written.

The engine looks the ids up; what it finds is written to the place of its row in a mapped array, so the rows
keep their order whatever the order of the results. Repeated relations are found bucket by bucket. The array
is compacted in place at the end: no second copy of the relations is ever on the disk.

Public: `write_relations`, `StoredRelations`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reldp.graph.columns import id_column, is_text
from reldp.graph.disclosure import guarded
from reldp.graph.relation_validation import (
    check_endpoints,
    check_relation_columns,
    check_repeats,
    check_self_relations,
    common_type,
    drop_with_entities,
    repeated_rows,
    repeats,
    types_of_rows,
)
from reldp.graph.sources import SourceTable
from reldp.graph.store.arrays import GrowingArray, row_chunks
from reldp.graph.store.buckets import Buckets
from reldp.graph.store.chunked_checks import ChunkedChecklist, LazyColumn
from reldp.graph.store.engine import Engine
from reldp.graph.store.entity_pass import StoredEntities
from reldp.graph.store.progress import Progress
from reldp.graph.store.source_files import SourceFiles
from reldp.graph.validation import blank_rows, require_columns

__all__ = ["DEGREES", "RELATIONS", "TYPES", "StoredRelations", "write_relations"]

RELATIONS, TYPES, DEGREES = "relations.npy", "types.npy", "degrees.npy"
_ENDPOINTS = ("source", "target")
_CHUNK = 1 << 20
_BLANK = (1, 2)  # flags: the source, or the target, is missing
_REPEATED = 4
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # odd: multiplying by it spreads keys over the buckets


@dataclass(frozen=True, kw_only=True)
class StoredRelations:
    """Relations that were written.

    Attributes:
        num_relations: Number of relations.
        type_names: Names of their types; empty without types.
        drops: Count by kind of what was dropped on request.
    """

    num_relations: int
    type_names: tuple[str, ...] = ()
    drops: dict[str, int] = field(default_factory=dict)


class _Pass:
    """The arrays of one build of relations."""

    def __init__(
        self, files: SourceFiles, folder: Path, scratch: Path, entities: StoredEntities
    ) -> None:
        self.files = files
        self.entities = entities
        self.scratch = scratch
        self.typed = "type" in files.column_names
        self.pairs = GrowingArray(folder / RELATIONS, np.int64, columns=2)
        self.flags = GrowingArray(scratch / "flags.npy", np.uint8)
        self.types = GrowingArray(folder / TYPES, np.int32) if self.typed else None
        self.num_rows = 0


def write_relations(
    files: SourceFiles,
    entities: StoredEntities,
    folder: Path,
    scratch: Path,
    drop: frozenset[str],
    engine: Engine,
    progress: Progress,
    *,
    declared: tuple[str, ...],
    memory_bytes: int,
    show_ids: bool,
) -> StoredRelations:
    """Check the relations of a source and write those that are left.

    Args:
        files: The table of relations.
        entities: The entities, whose ids the engine has.
        folder: Folder for the arrays.
        scratch: Folder for temporary files.
        drop: Kinds of damage to drop and count.
        engine: Looks ids up.
        progress: Receives how far the work is.
        declared: Names of types that the graph's record declares.
        memory_bytes: Memory for sorting.
        show_ids: Whether errors may show ids.

    Raises:
        GraphError: Something is wrong that the caller did not ask to drop.
    """
    with guarded(files.name, show_ids=show_ids):
        source = SourceTable(table=files.empty_table(), name=files.name, show_ids=show_ids)
        require_columns(source, required=(*_ENDPOINTS, "type") if declared else _ENDPOINTS)
        checks = ChunkedChecklist(files, drop, np.ones(0, dtype=bool), show_ids=show_ids)
        check_relation_columns(checks)
        work = _Pass(files, folder, scratch, entities)
        _join(work, engine, progress)
        alive = GrowingArray(scratch / "alive.npy", np.bool_)
        alive.grow(max(work.num_rows, 1))
        alive.rows[:] = True
        checks.follow(alive.rows)
        names = _check_rows(work, checks, declared, progress)
        _find_repeats(work, alive.rows, names, memory_bytes, progress)
        for start, stop in row_chunks(work.num_rows, _CHUNK):
            checks.begin(start, files.empty_table(), stop - start, after=True)
            again = np.flatnonzero(work.flags.rows[start:stop] & _REPEATED)
            check_repeats(checks, again, _columns(files, start), typed=work.typed)
        checks.finish()
        return _compact(work, alive.rows, names, declared, checks.drops, folder, progress)


def _columns(files: SourceFiles, start: int) -> dict[str, LazyColumn]:
    return {name: LazyColumn(files, name, start) for name in _ENDPOINTS}


def _join(work: _Pass, engine: Engine, progress: Progress) -> None:
    """Write the row of its entity, from 1, to the place of every id that is known; 0 elsewhere."""
    files, entities = work.files, work.entities
    empty = files.empty_table()
    kinds = [id_column(empty.column(name), files.name, name).type for name in _ENDPOINTS]
    both_typed = files.typed and entities.typed
    common = [common_type(files.name, k, entities.id_type, typed=both_typed) for k in kinds]
    kind = pa.large_string() if any(map(is_text, common)) else common[0]
    if is_text(kind) and not is_text(entities.id_type):
        engine.ids_as_text()

    def batches() -> Iterator[Any]:
        with progress.phase("joining relations to entities") as advance:
            for chunk in files.chunks(list(_ENDPOINTS)):
                count = chunk.table.num_rows
                work.pairs.grow(chunk.start + count)
                work.flags.grow(chunk.start + count)
                work.num_rows = chunk.start + count
                for end, name in enumerate(_ENDPOINTS):
                    ids = id_column(chunk.table.column(name), files.name, name)
                    blank = blank_rows(ids)
                    if len(blank):
                        work.flags.rows[chunk.start + blank] |= _BLANK[end]
                    places = np.arange(2 * chunk.start + end, 2 * (chunk.start + count), 2)
                    yield pa.record_batch([pa.array(places), ids.cast(kind)], names=["place", "id"])
                advance(count)

    for places, rows in engine.lookups(kind, batches()):
        work.pairs.rows.reshape(-1)[places] = rows + 1


def _check_rows(
    work: _Pass, checks: ChunkedChecklist, declared: tuple[str, ...], progress: Progress
) -> tuple[str, ...]:
    """Check all rows but for repeats; turn rows of entities into indices and types into codes.

    Returns:
        Names of the types, in the order of their codes.
    """
    names: dict[str, int] = {name: code for code, name in enumerate(declared)}
    index = work.entities.index
    with progress.phase("checking relations", work.num_rows) as advance:
        for start, stop, table in _type_chunks(work):
            checks.begin(start, table, stop - start)
            codes_by_row = work.pairs.rows[start:stop] - 1  # (rows, 2)
            codes = [np.ascontiguousarray(codes_by_row[:, end]) for end in (0, 1)]
            flags = work.flags.rows[start:stop]
            blank = [np.flatnonzero((codes[end] < 0) & (flags & _BLANK[end] > 0)) for end in (0, 1)]
            check_endpoints(checks, codes, _columns(work.files, start), blank)
            endpoints = codes if index is None else [index[code] for code in codes]
            drop_with_entities(checks, endpoints)
            chunk_names, types = types_of_rows(checks, declared)
            check_self_relations(checks, endpoints, _columns(work.files, start))
            work.pairs.rows[start:stop] = np.stack(endpoints, axis=1)
            if types is not None and work.types is not None:
                for name in chunk_names:
                    names.setdefault(name, len(names))
                codes_of_names = np.array([names[name] for name in chunk_names], dtype=np.int32)
                work.types.grow(stop)
                work.types.rows[start:stop] = codes_of_names[types] if len(chunk_names) else types
            advance(stop - start)
    return tuple(names)


def _type_chunks(work: _Pass) -> Iterator[tuple[int, int, Any]]:
    """Yield ranges of rows, with a table of their types if they have some."""
    if not work.typed:
        empty = pa.table({name: pa.array([], pa.string()) for name in _ENDPOINTS})
        for start, stop in row_chunks(work.num_rows, _CHUNK):
            yield start, stop, empty
        return
    for chunk in work.files.chunks(["type"]):
        yield chunk.start, chunk.start + chunk.table.num_rows, chunk.table


def _find_repeats(
    work: _Pass,
    alive: npt.NDArray[np.bool_],
    names: tuple[str, ...],
    memory_bytes: int,
    progress: Progress,
) -> None:
    """Flag the rows, of those that are still in, whose relation an earlier row has."""
    fields = [("key", "i8"), ("row", "i8")] + ([("type", "i4")] if work.typed else [])
    folder = work.scratch / "repeats"
    folder.mkdir()
    buckets = Buckets(
        folder, np.dtype(fields), num_records=work.num_rows, memory_bytes=memory_bytes
    )
    base = max(work.entities.num_entities, 1)  # keys are below 2**63 up to 3 billion entities
    with progress.phase("finding repeated relations", 2 * work.num_rows) as advance:
        for start, stop in row_chunks(work.num_rows, _CHUNK):
            rows = np.flatnonzero(alive[start:stop])
            pairs = work.pairs.rows[start:stop][rows]
            if not work.typed:
                pairs = np.sort(pairs, axis=1)
            values = {"key": pairs[:, 0] * base + pairs[:, 1], "row": rows + start}
            if work.types is not None:
                values["type"] = work.types.rows[start:stop][rows]
            buckets.add(values["key"].view(np.uint64) * _SPREAD, values)
            advance(stop - start)
        for records in buckets.read():
            if work.typed:
                again = repeated_rows(records["type"], records["key"])
            else:
                again = repeats(np.ascontiguousarray(records["key"]))
            work.flags.rows[records["row"][again]] |= _REPEATED
            advance(len(records))
    folder.rmdir()


def _compact(
    work: _Pass,
    alive: npt.NDArray[np.bool_],
    names: tuple[str, ...],
    declared: tuple[str, ...],
    drops: dict[str, int],
    folder: Path,
    progress: Progress,
) -> StoredRelations:
    """Move the rows that are left together, in order, and count degrees."""
    num_entities, num_kept = work.entities.num_entities, 0
    degrees = GrowingArray(folder / DEGREES, np.int64)
    degrees.grow(num_entities)
    counts = degrees.rows[:num_entities]
    used = np.zeros(len(names), dtype=bool)
    size = max(_CHUNK, num_entities // 4)  # a count of all entities per chunk
    with progress.phase("writing relations", work.num_rows) as advance:
        for start, stop in row_chunks(work.num_rows, size):
            mask = alive[start:stop]
            pairs = work.pairs.rows[start:stop][mask]
            work.pairs.rows[num_kept : num_kept + len(pairs)] = pairs
            counts += np.bincount(pairs.reshape(-1), minlength=num_entities)
            if work.types is not None:
                types = work.types.rows[start:stop][mask]
                work.types.rows[num_kept : num_kept + len(types)] = types
                used[np.unique(types)] = True
            num_kept += len(pairs)
            advance(stop - start)
    work.pairs.close(num_kept)
    degrees.close(num_entities)
    if work.types is None:
        return StoredRelations(num_relations=num_kept, drops=drops)
    final = declared or tuple(sorted(name for name, code in zip(names, used, strict=True) if code))
    place = np.array([final.index(n) if n in final else -1 for n in names] or [0], dtype=np.int32)
    for start, stop in row_chunks(num_kept, size):
        work.types.rows[start:stop] = place[work.types.rows[start:stop]]
    work.types.close(num_kept)
    return StoredRelations(num_relations=num_kept, type_names=final, drops=drops)
