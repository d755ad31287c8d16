"""A graph store, opened: an `EntityGraph` whose arrays and columns are mapped, never loaded.

Opening reads the manifest. A block of a file is checked when it is first read: a batch of texts when one of
them is asked for, an array when it is first used. Resident memory holds one number per entity where something
needs it, and nothing per relation.

Public inside the package: `StoredGraph`, `content_fingerprint`.
"""

import dataclasses
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reldp.errors import GraphError
from reldp.graph.capping import read_only
from reldp.graph.entity_graph import EntityGraph
from reldp.graph.fingerprint import fingerprint
from reldp.graph.record import GraphRecord
from reldp.graph.store.arrays import map_array
from reldp.graph.store.blocks import BlockChecker
from reldp.graph.store.column_file import ColumnFile
from reldp.graph.store.entity_pass import ENTITIES, FEATURES
from reldp.graph.store.manifest import Manifest
from reldp.graph.store.relation_pass import DEGREES, RELATIONS, TYPES

__all__ = ["StoredGraph", "content_fingerprint"]


class StoredGraph(EntityGraph):
    """A graph in a store, made by `EntityGraph.read`.

    Attributes:
        folder: The store's folder.
        manifest: What the store holds.
    """

    folder: Path
    manifest: Manifest

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Open the files that a manifest names; use `open`."""
        for name, value in {
            "folder": folder,
            "manifest": manifest,
            "record": manifest.record,
            "type_names": manifest.type_names,
            "_checkers": {
                name: BlockChecker(folder / name, blocks)
                for name, blocks in manifest.files.items()
            },
            "_columns": ColumnFile(folder / ENTITIES, manifest.files[ENTITIES]),
        }.items():
            object.__setattr__(self, name, value)
        for name, shape in {RELATIONS: (self.num_relations, 2), DEGREES: (self.num_entities,)}.items():
            if map_array(folder / name).shape != shape:
                raise GraphError(f"{name} must be as it was built. Build the store again.")

    @classmethod
    def open(cls, folder: Path) -> "StoredGraph":
        """Open a store.

        Raises:
            GraphError: It is damaged.
        """
        return cls(folder, Manifest.read(folder))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle where the store is, not what it holds."""
        return StoredGraph.open, (self.folder,)

    @property
    def num_entities(self) -> int:
        """Number of entities, with or without relations."""
        return self.manifest.num_entities

    @property
    def num_relations(self) -> int:
        """Number of relations."""
        return self.manifest.num_relations

    @property
    def columns(self) -> list[str]:
        """Names of the entities' columns."""
        return list(self.manifest.columns)

    @cached_property
    def entities(self) -> Any:  # type: ignore[override]
        """Arrow table of all columns, mapped."""
        table = self._columns.table()
        if self.features is not None:
            flat = pa.array(self.features.reshape(-1))
            vectors = pa.FixedSizeListArray.from_arrays(flat, self.manifest.feature_size)
            table = table.append_column("features", vectors)
        return table.select(self.columns)

    @cached_property
    def relations(self) -> npt.NDArray[np.int64]:  # type: ignore[override]
        """(m, 2) int64, mapped and read-only."""
        return self._array_file(RELATIONS)

    @cached_property
    def relation_types(self) -> npt.NDArray[np.int32] | None:  # type: ignore[override]
        """(m,) int32, mapped and read-only; None without types."""
        return self._array_file(TYPES) if TYPES in self.manifest.files else None

    @cached_property
    def degrees(self) -> npt.NDArray[np.int64]:
        """(n,) int64, mapped and read-only: how many relations each entity has."""
        return self._array_file(DEGREES)

    @cached_property
    def features(self) -> npt.NDArray[np.float32] | None:
        """(n, d) float32, mapped and read-only, or None."""
        return self._array_file(FEATURES) if FEATURES in self.manifest.files else None

    @cached_property
    def protected(self) -> npt.NDArray[np.bool_]:
        """(n,) bool, read-only: which entities are protected (default: all)."""
        if "protected" not in self.columns:
            return read_only(np.ones(self.num_entities, dtype=bool))
        parts = [
            batch.column("protected").to_numpy(zero_copy_only=False)
            for batch in self._columns.batches()
        ]
        return read_only(np.concatenate(parts))

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        """sha256 over the content, as of the same graph in memory; sensitive."""
        return self.manifest.fingerprint

    @property
    def build_hash(self) -> str:
        """sha256 over the store's manifest, and through it over all files; sensitive."""
        return self.manifest.build_hash

    def replace(
        self,
        *,
        relations: npt.NDArray[np.int64],
        record: GraphRecord,
        relation_types: npt.NDArray[np.int32] | None = None,
    ) -> EntityGraph:
        """Return the same entities with other relations between them, as a graph in memory."""
        if (relation_types is None) != (self.relation_types is None):
            raise GraphError(
                "`relation_types` must be given if the graph has types, and only then."
            )
        return EntityGraph(
            entities=self.entities,
            relations=relations,
            record=record,
            relation_types=relation_types,
            type_names=self.type_names,
        )

    def _array_file(self, name: str) -> npt.NDArray[Any]:
        """Map an array after checking its blocks."""
        self._checkers[name].check_all()
        return map_array(self.folder / name)

    def _array(self, name: str) -> Any:
        """Return a whole column, mapped, in chunks."""
        return self.entities.column(name)

    def _take(self, name: str, indices: npt.ArrayLike | None) -> list[Any]:
        if indices is None or name == "features":
            return super()._take(name, indices)
        rows = np.asarray(indices, dtype=np.int64).reshape(-1)
        if rows.min(initial=0) < 0 or rows.max(initial=0) >= self.num_entities:
            raise GraphError(
                f"`indices` must lie in 0..{self.num_entities - 1}, got {rows.min()}..{rows.max()}."
            )
        return self._columns.take(name, rows)


def content_fingerprint(folder: Path, manifest: Manifest) -> Manifest:
    """Return the manifest of a store that is complete but for the fingerprint, with the fingerprint."""
    graph = StoredGraph(folder, manifest)
    value = fingerprint(graph.entities, graph.relations, graph.relation_types, graph.type_names)
    return dataclasses.replace(manifest, fingerprint=value)
