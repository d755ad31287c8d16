"""Degree capping of a store: the relations that capping in memory keeps, with memory for the entities alone.

One pass hashes the relations that a cap can touch and distributes them over buckets by their hash; each bucket
is sorted, and the greedy choice goes through them in order. What it decides is one bit per relation, in a
mapped file. See `reldp.graph.capping` for the algorithm and theory.md 2.2 for what it means.

Public inside the package: `keep_mask`, `mask_file`, `count_caps`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reldp.graph.counting import CapCount
from reldp.graph.greedy import Greedy, room_of
from reldp.graph.keyed_hash import entity_digests, priority_order, relation_hashes
from reldp.graph.store.arrays import GrowingArray, row_chunks
from reldp.graph.store.buckets import Buckets
from reldp.graph.store.lookahead import in_processes, in_threads
from reldp.graph.store.progress import Progress
from reldp.graph.store.settings import BuildSettings

if TYPE_CHECKING:
    from reldp.graph.store.stored_graph import StoredGraph

__all__ = ["count_caps", "keep_mask", "mask_file"]

_CHUNK = 1 << 20
_MAX_THREADS = (
    8  # each holds a chunk; the choice itself, in one thread, is slower than a few of them
)
_MANY = 1 << 22  # entities whose ids are worth the seconds that processes take to start
_RECORD = np.dtype([("hash", "u8"), ("row", "i8"), ("one", "i8"), ("other", "i8")])
_COMPACT = np.dtype([("hash", "u8"), ("row", "u4"), ("one", "u4"), ("other", "u4")])
_PURPOSE = "cap_degrees"

_Mask = npt.NDArray[np.bool_]


class _Priorities:
    """Hashes of the relations of a store for one seed."""

    def __init__(
        self, graph: "StoredGraph", seed: int | bytes, progress: Progress, processes: int
    ) -> None:
        digests = np.empty((2, graph.num_entities), dtype=np.uint64)
        start = 0
        with progress.phase("hashing ids", graph.num_entities, "entities") as advance:
            for part in _digests(graph, seed, processes):
                digests[:, start : start + part.shape[1]] = part
                start += part.shape[1]
                advance(part.shape[1])
        self._digests = digests
        names = pa.array(graph.type_names, pa.string())
        self._types = entity_digests(names, seed, f"{_PURPOSE}/types") if graph.type_names else None

    def of(self, pairs: npt.NDArray[np.int64], types: Any) -> npt.NDArray[np.uint64]:
        """Return the hash of each relation, (m,)."""
        return relation_hashes(self._digests, pairs, self._kinds(types))

    def order(self, records: npt.NDArray[Any], types: Any) -> npt.NDArray[np.intp]:
        """Return the order of the records of a bucket, the highest priority first."""
        hashes = np.ascontiguousarray(records["hash"])
        order = np.argsort(hashes)
        ordered = hashes[order]
        if not bool(np.any(ordered[1:] == ordered[:-1])):
            return order
        pairs = np.stack([records["one"], records["other"]], axis=1).astype(np.int64)
        return priority_order(self._digests, pairs, self._kinds(types))

    def _kinds(self, types: Any) -> Any:
        return None if self._types is None or types is None else self._types[:, types]


_WORK: dict[str, Any] = {}  # of a process that hashes ids


def _digests(
    graph: "StoredGraph", seed: int | bytes, processes: int
) -> Iterator[npt.NDArray[np.uint64]]:
    """Yield the digests of all ids, (2, ids of a batch): in processes, since Python hashes one by one."""
    if processes == 1 or graph.num_entities < _MANY:
        for number in range(graph.num_batches):
            yield entity_digests(graph.id_batch(number), seed, _PURPOSE)
        return
    batches = range(graph.num_batches)
    yield from in_processes(_digest_batch, batches, processes, _start, (graph, seed))


def _start(graph: "StoredGraph", seed: int | bytes) -> None:
    _WORK.update(graph=graph, seed=seed)


def _digest_batch(number: int) -> npt.NDArray[np.uint64]:
    return entity_digests(_WORK["graph"].id_batch(number), _WORK["seed"], _PURPOSE)


def keep_mask(
    graph: "StoredGraph",
    max_degree: int,
    seed: int | bytes,
    mask: _Mask,
    scratch: Path,
    *,
    memory_bytes: int,
    progress: Progress,
) -> None:
    """Say which relations a cap keeps.

    Args:
        graph: The store.
        max_degree: The bound.
        seed: Key of the hash that orders relations.
        mask: (m,) to write to.
        scratch: Folder for temporary files.
        memory_bytes: Memory for sorting.
        progress: Receives how far the work is.
    """
    over = graph.protected & (graph.degrees > max_degree)
    greedy = Greedy(room_of(over, max_degree))

    def untouched(start: int, contested: _Mask) -> None:
        mask[start : start + len(contested)] = ~contested

    for records in _in_order(graph, over, seed, scratch, memory_bytes, progress, untouched):
        mask[records["row"][greedy.accept(records["one"], records["other"])]] = True


def count_caps(
    graph: "StoredGraph",
    bounds: Sequence[int],
    seed: int | bytes,
    scratch: Path,
    *,
    memory_bytes: int,
    progress: Progress,
) -> dict[int, CapCount]:
    """Return what each of several caps keeps, from one pass over the sorted relations."""
    protected, num_entities = graph.protected, graph.num_entities
    overs = {bound: protected & (graph.degrees > bound) for bound in bounds}
    greedies = {bound: Greedy(room_of(over, bound)) for bound, over in overs.items()}
    num_relations = dict.fromkeys(bounds, 0)
    touched = {bound: np.zeros(num_entities, dtype=bool) for bound in bounds}
    widest = overs[min(bounds)]

    def untouched(start: int, contested: _Mask) -> None:
        pairs = graph.relations[start : start + len(contested)][~contested]
        for bound in bounds:
            num_relations[bound] += len(pairs)
            touched[bound][pairs] = True

    for records in _in_order(graph, widest, seed, scratch, memory_bytes, progress, untouched):
        one, other = records["one"], records["other"]
        for bound, greedy in greedies.items():
            # A relation that this cap cannot touch has room at both endpoints.
            accepted = greedy.accept(one, other)
            num_relations[bound] += int(np.count_nonzero(accepted))
            touched[bound][one[accepted]] = True
            touched[bound][other[accepted]] = True
    has_relations = graph.degrees > 0
    return {
        bound: CapCount(
            num_relations=num_relations[bound],
            num_left_alone=int(np.count_nonzero(has_relations & ~touched[bound])),
        )
        for bound in bounds
    }


def _in_order(
    graph: "StoredGraph",
    over: _Mask,
    seed: int | bytes,
    scratch: Path,
    memory_bytes: int,
    progress: Progress,
    untouched: Callable[[int, _Mask], None],
) -> Iterator[npt.NDArray[Any]]:
    """Yield the relations with an endpoint above a bound, in order of priority, some at a time.

    Args:
        graph: The store.
        over: (n,) which entities have more relations than the bound.
        seed: Key of the hash.
        scratch: Folder for temporary files.
        memory_bytes: Memory for sorting.
        progress: Receives how far the work is.
        untouched: Called for every chunk of relations with its first row and which of them are yielded.
    """
    processes = BuildSettings().num_threads
    threads = min(processes, _MAX_THREADS)
    priorities = _Priorities(graph, seed, progress, processes)
    compact = max(graph.num_relations, graph.num_entities) < 2**32
    dtype = _COMPACT if compact else _RECORD
    buckets = Buckets(scratch, dtype, num_records=graph.num_relations, memory_bytes=memory_bytes)
    num_contested = 0

    def hashed(span: tuple[int, int]) -> tuple[int, _Mask, dict[str, npt.NDArray[Any]]]:
        start, stop = span
        pairs = graph.relations[start:stop]
        contested = over[pairs[:, 0]] | over[pairs[:, 1]]
        rows = np.flatnonzero(contested)
        pairs = pairs[rows]
        hashes = priorities.of(pairs, graph.types_at(rows + start))
        values = {"hash": hashes, "row": rows + start, "one": pairs[:, 0], "other": pairs[:, 1]}
        return start, contested, values

    def ordered(records: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return records[priorities.order(records, graph.types_at(records["row"]))]

    with progress.phase("ordering relations", graph.num_relations, "relations") as advance:
        chunks = row_chunks(graph.num_relations, _CHUNK)
        for start, contested, values in in_threads(hashed, chunks, threads):
            untouched(start, contested)
            buckets.add(values["hash"], values)
            num_contested += len(values["row"])
            advance(len(contested))
    with progress.phase("choosing relations", num_contested, "relations") as advance:
        for records in buckets.read(ordered, threads=threads):
            yield records
            advance(len(records))


@contextmanager
def mask_file(scratch: Path, num_relations: int) -> Iterator[_Mask]:
    """Make a mask of all relations, all False, in a file that is removed afterwards."""
    array = GrowingArray(scratch / "mask.npy", np.bool_)
    array.grow(max(num_relations, 1))
    try:
        yield array.rows[:num_relations]
    finally:
        array.close(0)
        array.path.unlink()
