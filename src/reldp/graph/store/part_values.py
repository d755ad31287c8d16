"""What lies beside a store, compared with the store: a part that somebody else wrote must follow from it.

Whoever writes `capped/` or `parts/` writes their hashes too. Without a comparison, a cap could hold relations that the
graph does not have, and the training part of a split the entities that were held out.

Inside the package: `check_cap`, `check_kept`, `check_recoded`, `check_selected`, `save_kept`.

>>> packed = np.packbits([True, False, True])
>>> kept_rows(packed, 1, 3).tolist()
[2]
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reldp.errors import GraphError
from reldp.graph.capping import degrees
from reldp.graph.relation_types import recoded
from reldp.graph.store.arrays import GrowingArray, row_chunks
from reldp.graph.store.column_file import BATCH_ROWS
from reldp.graph.store.derived import Derived
from reldp.graph.store.entity_pass import ENTITIES, FEATURES
from reldp.graph.store.progress import Progress
from reldp.graph.store.relation_pass import RELATIONS, TYPES

if TYPE_CHECKING:
    from reldp.graph.store.stored_graph import StoredGraph

__all__ = [
    "MASK",
    "check_cap",
    "check_kept",
    "check_recoded",
    "check_selected",
    "kept_rows",
    "save_kept",
]

MASK = "kept.npy"
"""Which relations of the store a cap kept: one bit for each."""
_CHUNK = 1 << 20  # relations at a time, a multiple of 8
_FOLLOWS = "follow from the store"

_Mask = npt.NDArray[np.bool_]
_Rows = npt.NDArray[np.int64]


def save_kept(folder: Path, mask: _Mask) -> None:
    """Write which relations a cap kept."""
    packed = GrowingArray(folder / MASK, np.uint8)
    packed.grow(len(mask) // 8 + 1)
    for start, stop in row_chunks(len(mask), _CHUNK):
        packed.rows[start // 8 : -(-stop // 8)] = np.packbits(mask[start:stop])
    packed.close(-(-len(mask) // 8))


def kept_rows(packed: npt.NDArray[np.uint8], start: int, stop: int) -> _Rows:
    """Return the rows from a first one up to another whose bit is set."""
    first = start - start % 8
    bits = np.unpackbits(packed[first // 8 : -(-stop // 8)], count=stop - first)[start - first :]
    return start + np.flatnonzero(bits)


def check_cap(graph: "StoredGraph", cap: Derived, max_degree: int) -> None:
    """Refuse capped relations that a cap of the store cannot leave.

    They must be relations of the store, each once and in order, within the bound, and no relation that was left out may
    have room. Which of several relations were chosen is not compared: every choice keeps to the bound.

    Raises:
        GraphError: They are not.
    """
    num_relations, over = graph.num_relations, graph.protected & (graph.degrees > max_degree)
    packed, relations = cap.array(MASK), cap.array(RELATIONS)
    types = None if graph.relation_types is None else cap.array(TYPES)
    if packed.dtype != np.uint8 or packed.shape != (-(-num_relations // 8),):
        raise cap.refusal(MASK, _FOLLOWS)

    def rows(start: int, stop: int) -> _Rows:
        return kept_rows(packed, start, stop)

    _compare(graph, rows, relations, types, cap)
    counts = degrees(relations, graph.num_entities)
    is_full = over & (counts >= max_degree)
    has_room = bool((counts[over] > max_degree).any())  # more than the bound
    for start, stop in row_chunks(num_relations, _CHUNK):
        is_dropped = np.ones(stop - start, dtype=bool)
        is_dropped[rows(start, stop) - start] = False
        dropped = graph.relations[start:stop][is_dropped]
        has_room = has_room or not bool((is_full[dropped[:, 0]] | is_full[dropped[:, 1]]).all())
    if has_room:
        raise cap.refusal(RELATIONS, _FOLLOWS)


def check_kept(graph: "StoredGraph", mask: _Mask, part: Derived) -> None:
    """Refuse a part that does not have the relations of a mask.

    Raises:
        GraphError: It has others.
    """

    def rows(start: int, stop: int) -> _Rows:
        return start + np.flatnonzero(mask[start:stop])

    types = None if graph.relation_types is None else part.array(TYPES)
    _compare(graph, rows, part.array(RELATIONS), types, part)


def check_recoded(graph: "StoredGraph", declared: tuple[str, ...], part: Derived) -> None:
    """Refuse a part that does not have the store's relations with their types in a declared list.

    Raises:
        GraphError: It has others.
    """
    codes = graph.relation_types
    assert codes is not None
    _compare(graph, np.arange, part.array(RELATIONS), None, part)
    types = part.array(TYPES)
    if types.dtype != np.int32 or types.shape != (graph.num_relations,):
        raise part.refusal(TYPES, _FOLLOWS)
    for start, stop in row_chunks(graph.num_relations, _CHUNK):
        expected = recoded(codes[start:stop], graph.type_names, declared)
        if not np.array_equal(types[start:stop], expected):
            raise part.refusal(TYPES, _FOLLOWS)


def check_selected(
    graph: "StoredGraph", mask: _Mask, selected: "StoredGraph", part: Derived
) -> None:
    """Refuse a part that does not have the entities of a mask and all relations among them.

    Args:
        graph: The store.
        mask: (n,) bool.
        selected: The part, opened.
        part: The part as it lies beside the store.

    Raises:
        GraphError: It has others.
    """
    columns, start = selected.entities, 0
    names = [name for name in selected.columns if name != "features"]
    for number, batch in enumerate(graph.column_batches()):
        chosen = mask[number * BATCH_ROWS : number * BATCH_ROWS + len(batch)]
        expected = pa.Table.from_batches([batch]).filter(pa.array(chosen))
        got = columns.slice(start, expected.num_rows)
        start += expected.num_rows
        if not all(_same(got.column(name), expected.column(name)) for name in names):
            raise part.refusal(ENTITIES, _FOLLOWS)
    if graph.features is not None:
        rows, features = np.flatnonzero(mask), selected.features
        for first, stop in row_chunks(len(rows), BATCH_ROWS):
            if not np.array_equal(features[first:stop], graph.features[rows[first:stop]]):  # type: ignore[index]
                raise part.refusal(FEATURES, _FOLLOWS)
    new_index = np.where(mask, np.cumsum(mask) - 1, -1)

    def inside(start: int, stop: int) -> _Rows:
        pairs = graph.relations[start:stop]
        return start + np.flatnonzero(mask[pairs[:, 0]] & mask[pairs[:, 1]])

    types = None if graph.relation_types is None else part.array(TYPES)
    _compare(graph, inside, part.array(RELATIONS), types, part, new_index)
    touched = sum(
        int(np.count_nonzero(mask[graph.relations[a:b]].any(axis=1)))
        for a, b in row_chunks(graph.num_relations, _CHUNK)
    )
    if part.values["num_cut"] != touched - selected.num_relations:
        raise part.refusal()


def _compare(
    graph: "StoredGraph",
    rows: Callable[[int, int], _Rows],
    relations: npt.NDArray[Any],
    types: npt.NDArray[Any] | None,
    part: Derived,
    new_index: _Rows | None = None,
) -> None:
    """Refuse relations that are not those of some rows of the store, in their order.

    Args:
        graph: The store.
        rows: Returns the rows, from a first one up to another.
        relations: The relations of the part.
        types: Their types, if they are to be compared.
        part: The part.
        new_index: (n,) index of each entity in the part (default: the same).

    Raises:
        GraphError: They are others.
    """
    refusal: GraphError = part.refusal(RELATIONS, _FOLLOWS)
    count = len(relations) if relations.ndim else 0
    if relations.dtype != np.int64 or relations.shape != (count, 2):
        raise refusal
    if types is not None and (types.dtype != np.int32 or types.shape != (count,)):
        raise part.refusal(TYPES, _FOLLOWS)
    done, total = 0, graph.num_relations
    with Progress().phase("comparing relations", total, "relations") as advance:
        for start, stop in row_chunks(graph.num_relations, _CHUNK):
            chosen = rows(start, stop)
            pairs = graph.relations[chosen]
            pairs = pairs if new_index is None else new_index[pairs]
            if not np.array_equal(relations[done : done + len(chosen)], pairs):
                raise refusal
            if types is not None:
                expected = graph.types_at(chosen)
                if not np.array_equal(types[done : done + len(chosen)], expected):  # type: ignore[arg-type]
                    raise part.refusal(TYPES, _FOLLOWS)
            done += len(chosen)
            advance(stop - start)
    if done != count:
        raise refusal


def _same(one: Any, other: Any) -> bool:
    """Return whether two columns are equal, bit by bit: NaN equals NaN."""
    if one.type != other.type:
        return False
    if pa.types.is_floating(one.type):
        one, other = (
            pa.chunked_array([chunk.view(pa.int64()) for chunk in column.chunks], pa.int64())
            for column in (one, other)
        )
    return bool(one.equals(other))
