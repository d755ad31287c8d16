"""What the files of a store hold, against what its manifest states and what a build writes.

Hashes say that files are as they were written, not who wrote them: the author of a store makes its hashes too. So
shapes and types are compared when a store is opened, and values when its relations are first used, once per process.

Public to the store: `check_files`, `check_values`, `trust`.
"""

import dataclasses
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from reldp.errors import GraphError
from reldp.graph.fingerprint import fingerprint
from reldp.graph.record import GraphRecord
from reldp.graph.store.arrays import array_in
from reldp.graph.store.blocks import BlockChecker
from reldp.graph.store.column_file import ColumnFile
from reldp.graph.store.column_values import check_ids
from reldp.graph.store.entity_pass import ENTITIES, FEATURES
from reldp.graph.store.manifest import MANIFEST, Manifest
from reldp.graph.store.progress import Progress
from reldp.graph.store.relation_pass import DEGREES, RELATIONS, TYPES
from reldp.graph.store.relation_values import check_relations

if TYPE_CHECKING:
    from reldp.graph.store.stored_graph import StoredGraph

__all__ = ["check_files", "check_values", "trust"]

_CHECKED: set[str] = set()  # contents whose values this process has checked, or written


def check_files(
    manifest: Manifest, checkers: Mapping[str, BlockChecker], columns: ColumnFile
) -> None:
    """Refuse files that hold something else than the manifest states.

    Args:
        manifest: The manifest of the store.
        checkers: The array files, by name.
        columns: The columns of the entities.

    Raises:
        GraphError: Shape, type, rows or columns are others.
    """
    n, m = manifest.num_entities, manifest.num_relations
    forms = {
        RELATIONS: ((m, 2), np.int64),
        TYPES: ((m,), np.int32),
        DEGREES: ((n,), np.int64),
        FEATURES: ((n, manifest.feature_size), np.float32),
    }
    wrong = [
        name
        for name, (shape, dtype) in forms.items()
        if name in checkers
        and (checkers[name].shape() != shape or array_in(checkers[name].mapped).dtype != dtype)
    ]
    wrong += [ENTITIES] if columns.num_rows != n else []
    if wrong:
        raise GraphError(f"{wrong[0]} must be as it was built. Build the store again.")
    if not columns.holds([name for name in manifest.columns if name != "features"]):
        raise GraphError(
            f"{MANIFEST} must name the columns of {ENTITIES} in their order, got others. Build the "
            "store again."
        )


def check_values(
    graph: "StoredGraph",
    columns: ColumnFile,
    relations: npt.NDArray[np.int64],
    types: npt.NDArray[np.int32] | None,
    degrees: npt.NDArray[np.int64],
) -> None:
    """Refuse values that no build writes, and a fingerprint of other values.

    Args:
        graph: The store, or a part of it.
        columns: The columns of its entities.
        relations: (m, 2) as its file holds them.
        types: (m,) likewise, or None.
        degrees: (n,) likewise.

    Raises:
        GraphError: Relations are out of range, repeated or of one entity, degrees are others, an id is repeated, or the
            fingerprint is that of another graph.
    """
    manifest, progress = graph.manifest, Progress()
    content = _content(manifest)
    if content in _CHECKED:
        return
    columns.check_blocks()
    entities = graph.entities  # checks each batch, here: checkers are not for several threads
    place = graph.relation_folder
    label = (
        RELATIONS if place == graph.folder else f"{RELATIONS} in {place.parent.name}/{place.name}"
    )
    names = manifest.type_names
    with ThreadPoolExecutor(1) as pool:
        computed = pool.submit(fingerprint, entities, relations, types, names)
        check_relations(relations, types, degrees, label, max(len(names), 1), progress)
        with progress.phase("checking ids", graph.num_entities, "entities"):
            check_ids(graph.id_batch, graph.num_batches, graph.num_entities, ENTITIES)
        if computed.result() != manifest.fingerprint:
            raise GraphError(
                f"{MANIFEST} must hold the fingerprint of what the store holds, got another one. Build the store again."
            )
    _CHECKED.add(content)


def trust(manifest: Manifest) -> None:
    """Note that this process wrote the values of a store or of a part, from values that were checked."""
    _CHECKED.add(_content(manifest))


def _content(manifest: Manifest) -> str:
    """Return a hash that stands for all values: the record says nothing about them."""
    return dataclasses.replace(manifest, record=GraphRecord()).build_hash
