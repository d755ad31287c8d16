"""Writes some relations, or some entities, of a store.

Inside the package: `write_selection`, `make_relations`, `make_types`, `make_entities`.
"""

import os
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reldp.graph.capping import degrees
from reldp.graph.fingerprint import fingerprint
from reldp.graph.relation_types import recoded
from reldp.graph.store.arrays import GrowingArray, map_array, row_chunks, save_array
from reldp.graph.store.column_file import BATCH_ROWS, ColumnWriter
from reldp.graph.store.entity_pass import ENTITIES, FEATURES
from reldp.graph.store.progress import Progress
from reldp.graph.store.relation_pass import DEGREES, RELATIONS, TYPES

if TYPE_CHECKING:
    from reldp.graph.store.stored_graph import StoredGraph

__all__ = ["make_entities", "make_relations", "make_types", "write_selection"]

_CHUNK = 1 << 20  # relations at a time
_Mask = npt.NDArray[np.bool_]


class _RelationWriter:
    """Write relations and their types in order."""

    def __init__(self, graph: "StoredGraph", folder: Path) -> None:
        self.num_relations = 0
        self._pairs = GrowingArray(folder / RELATIONS, np.int64, columns=2)
        typed = graph.relation_types is not None
        self._types = GrowingArray(folder / TYPES, np.int32) if typed else None

    def add(self, pairs: npt.NDArray[np.int64], types: npt.NDArray[np.int32] | None) -> None:
        start, stop = self.num_relations, self.num_relations + len(pairs)
        self._pairs.grow(stop)
        self._pairs.rows[start:stop] = pairs
        if self._types is not None:
            self._types.grow(stop)
            self._types.rows[start:stop] = types
        self.num_relations = stop

    def close(self) -> None:
        self._pairs.close(self.num_relations)
        if self._types is not None:
            self._types.close(self.num_relations)


def write_selection(graph: "StoredGraph", mask: _Mask, folder: Path, progress: Progress) -> None:
    """Write the relations in a mask, (m,) bool, and their types, in their order."""
    writer = _RelationWriter(graph, folder)
    with progress.phase("writing relations", graph.num_relations, "relations") as advance:
        for start, stop in row_chunks(graph.num_relations, _CHUNK):
            rows = start + np.flatnonzero(mask[start:stop])
            writer.add(graph.relations[rows], graph.types_at(rows))
            advance(stop - start)
    writer.close()


def make_relations(graph: "StoredGraph", mask: _Mask, folder: Path) -> dict[str, Any]:
    """Write the relations in a mask with their degrees, for a part with the same entities.

    Returns:
        The number of relations and the fingerprint of the part.
    """
    write_selection(graph, mask, folder, Progress())
    pairs = map_array(folder / RELATIONS)
    save_array(folder / DEGREES, degrees(pairs, graph.num_entities))
    types = map_array(folder / TYPES) if graph.relation_types is not None else None
    value = fingerprint(graph.entities, pairs, types, graph.type_names)
    return {"num_relations": len(pairs), "fingerprint": value}


def make_types(
    graph: "StoredGraph", declared: tuple[str, ...], folder: Path, *, show_names: bool
) -> dict[str, Any]:
    """Write the types as codes into a declared list, beside the same relations.

    Returns:
        The fingerprint of the graph with these types.
    """
    assert graph.relation_types is not None
    codes = GrowingArray(folder / TYPES, np.int32)
    codes.grow(max(graph.num_relations, 1))
    if not set(graph.type_names) <= set(declared):  # refused, unless no relation has such a type
        recoded(graph.relation_types, graph.type_names, declared, show_names=show_names)
    recode = partial(recoded, names=graph.type_names, declared=declared, show_names=show_names)
    for start, stop in row_chunks(graph.num_relations, _CHUNK):
        codes.rows[start:stop] = recode(graph.relation_types[start:stop])
    codes.close(graph.num_relations)
    for name in (RELATIONS, DEGREES):
        try:
            os.link(graph.relation_folder / name, folder / name)
        except OSError:  # another file system, or one without links
            shutil.copy(graph.relation_folder / name, folder / name)
    value = fingerprint(graph.entities, graph.relations, map_array(folder / TYPES), declared)
    return {"fingerprint": value}


def make_entities(graph: "StoredGraph", mask: _Mask, folder: Path) -> dict[str, Any]:
    """Write the entities in a mask and the relations among them.

    Returns:
        The number of relations, the number that lost one endpoint, and where blocks of columns end.
    """
    new_index = np.where(mask, np.cumsum(mask) - 1, -1)
    num_entities = int(np.count_nonzero(mask))
    with ColumnWriter(folder / ENTITIES) as columns:
        for number, batch in enumerate(graph.column_batches()):
            chosen = mask[number * BATCH_ROWS : number * BATCH_ROWS + len(batch)]
            columns.add(pa.Table.from_batches([batch]).filter(pa.array(chosen)))
    if graph.features is not None:
        features = GrowingArray(folder / FEATURES, np.float32, columns=graph.features.shape[1])
        features.grow(num_entities)
        features.rows[:num_entities] = graph.features[mask]
        features.close(num_entities)
    writer = _RelationWriter(graph, folder)
    num_cut = 0
    for start, stop in row_chunks(graph.num_relations, _CHUNK):
        pairs = new_index[graph.relations[start:stop]]
        inside = (pairs >= 0).all(axis=1)
        num_cut += int(np.count_nonzero((pairs >= 0).any(axis=1) & ~inside))
        writer.add(pairs[inside], graph.types_at(start + np.flatnonzero(inside)))
    writer.close()
    save_array(folder / DEGREES, degrees(map_array(folder / RELATIONS), num_entities))
    return {
        "num_relations": writer.num_relations,
        "num_cut": num_cut,
        "boundaries": {ENTITIES: columns.boundaries},
    }
