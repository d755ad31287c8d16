"""A graph store, opened: an `EntityGraph` whose arrays and columns are mapped, never loaded.

Opening reads the manifest. A block of a file is checked when it is first read: a batch of texts when one of
them is asked for, an array when it is first used. The first use of relations checks all values (`contents`).
Resident memory holds one number per entity where something needs it, and nothing per relation.

Public inside the package: `StoredGraph`.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reldp._validate import as_integer, check_integer
from reldp.errors import GraphError
from reldp.graph.capped import CappedGraph, CappingReport
from reldp.graph.capping import read_only
from reldp.graph.counting import CapCount, TextGroups
from reldp.graph.entity_graph import EntityGraph
from reldp.graph.fingerprint import fingerprint
from reldp.graph.keyed_hash import seed_words
from reldp.graph.record import GraphRecord
from reldp.graph.store.blocks import BlockChecker
from reldp.graph.store.cap import count_caps, keep_mask, mask_file
from reldp.graph.store.column_file import ColumnFile
from reldp.graph.store.column_values import check_finite
from reldp.graph.store.contents import check_files, check_values
from reldp.graph.store.derived import derived, require_whole, scratch_in
from reldp.graph.store.entity_pass import ENTITIES, FEATURES
from reldp.graph.store.manifest import Manifest
from reldp.graph.store.mention_search import search_mentions, text_groups
from reldp.graph.store.part_values import MASK, check_cap, save_kept
from reldp.graph.store.parts import StoreParts
from reldp.graph.store.progress import Progress, Tick
from reldp.graph.store.relation_pass import DEGREES, RELATIONS, TYPES
from reldp.graph.store.selection import write_selection
from reldp.graph.store.settings import BuildSettings

__all__ = ["StoredGraph"]


class StoredGraph(StoreParts, EntityGraph):
    """A graph in a store, made by `EntityGraph.read`.

    Attributes:
        folder: The store's folder.
        relation_folder: The folder of the relations, another one for a part of the store.
        manifest: What the store holds.
    """

    folder: Path
    relation_folder: Path
    manifest: Manifest
    _checkers: dict[str, BlockChecker]
    _columns: ColumnFile

    def __init__(
        self, folder: Path, manifest: Manifest, relation_folder: Path | None = None
    ) -> None:
        """Open the files that a manifest names; use `open`."""
        places = dict.fromkeys((RELATIONS, TYPES, DEGREES), relation_folder or folder)
        checkers = {
            name: BlockChecker(places.get(name, folder) / name, blocks)
            for name, blocks in manifest.files.items()
        }
        for name, value in {
            "folder": folder,
            "relation_folder": relation_folder or folder,
            "manifest": manifest,
            "record": manifest.record,
            "type_names": manifest.type_names,
            "_checkers": checkers,
            "_columns": ColumnFile(folder / ENTITIES, manifest.files[ENTITIES]),
        }.items():
            object.__setattr__(self, name, value)
        check_files(manifest, checkers, self._columns)

    @classmethod
    def open(cls, folder: Path) -> "StoredGraph":
        """Open a store.

        Raises:
            GraphError: It is damaged.
        """
        return cls(folder, Manifest.read(folder))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle where the store is, not what it holds."""
        return StoredGraph, (self.folder, self.manifest, self.relation_folder)

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
    def entities(self) -> Any:
        """Arrow table of all columns, mapped."""
        table = self._columns.table()
        if self.features is not None:
            flat = pa.array(self.features.reshape(-1))
            vectors = pa.FixedSizeListArray.from_arrays(flat, self.manifest.feature_size)
            table = table.append_column("features", vectors)
        return table.select(self.columns)

    @cached_property
    def relations(self) -> npt.NDArray[np.int64]:
        """(m, 2) int64, mapped and read-only."""
        relations: npt.NDArray[np.int64] = self._checked_arrays[RELATIONS]
        return relations

    @cached_property
    def relation_types(self) -> npt.NDArray[np.int32] | None:
        """(m,) int32, mapped and read-only; None without types."""
        return self._checked_arrays.get(TYPES)

    @cached_property
    def degrees(self) -> npt.NDArray[np.int64]:
        """(n,) int64, mapped and read-only: how many relations each entity has."""
        degrees: npt.NDArray[np.int64] = self._checked_arrays[DEGREES]
        return degrees

    @cached_property
    def features(self) -> npt.NDArray[np.float32] | None:
        """(n, d) float32, mapped and read-only, or None."""
        if FEATURES not in self.manifest.files:
            return None
        matrix: npt.NDArray[np.float32] = self._array_file(FEATURES)
        check_finite(matrix, FEATURES)
        return matrix

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
    def fingerprint(self) -> str:
        """sha256 over the content, as of the same graph in memory; sensitive."""
        return self.manifest.fingerprint

    def content_fingerprint(self) -> str:
        """Return the fingerprint, computed from the files, whatever the manifest states; sensitive."""
        relations, names = self._array_file(RELATIONS), self.type_names
        types = self._array_file(TYPES) if TYPES in self.manifest.files else None
        return fingerprint(self.entities, relations, types, names)

    @property
    def build_hash(self) -> str:
        """sha256 over the store's manifest, and through it over all files; sensitive."""
        return self.manifest.build_hash

    @property
    def text_hash(self) -> str:
        """sha256 over the hashes of the entities' columns, the same for all parts by relation; sensitive."""
        blocks = json.dumps(self.manifest.files[ENTITIES].to_json())
        return hashlib.sha256(blocks.encode()).hexdigest()

    @property
    def num_batches(self) -> int:
        """Number of batches of entities."""
        return self._columns.num_batches

    def id_batch(self, number: int) -> Any:
        """Return the ids of one batch, as an Arrow array."""
        return self._columns.batch(number).column("id")

    def column_batches(self) -> Iterator[Any]:
        """Yield all columns but features in order, as Arrow batches of equal size."""
        return self._columns.batches()

    def types_at(self, rows: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int32] | None:
        """Return the types of some relations; None without types."""
        types = self.relation_types
        return None if types is None else types[rows]

    def cap_degrees(
        self,
        max_degree: int,
        seed: int | bytes,
        *,
        settings: BuildSettings | None = None,
        report: Callable[[Tick], None] | None = None,
    ) -> CappedGraph:
        """Drop relations, in an order given by a keyed hash of their ids, until the bound holds.

        The relations that are left are written beside the store, and used again by the next call.

        Args:
            max_degree: Largest number of relations that a protected entity may keep.
            seed: Key of the hash: an integer or bytes. The same seed gives the same relations, and the
                same as of the graph in memory.
            settings: Memory for sorting.
            report: Called with the progress.

        Returns:
            The capped graph, with `degree_bound="capped"`; its relations are mapped.
        """
        rule = "an integer of at least 1 (and at most 2^53)"
        check_integer(
            "max_degree", as_integer(max_degree), low=1, high=2**53, rule=rule, error=GraphError
        )
        key = seed_words(seed)
        depends_on = {
            "build_hash": self.build_hash,
            "max_degree": int(max_degree),
            "seed": key,
            "files": 2,  # version 1 did not keep which relations were chosen
        }
        memory = (settings or BuildSettings()).memory_bytes // 4

        def make(folder: Path) -> dict[str, Any]:
            progress, scratch = Progress(report), folder / "scratch"
            with mask_file(scratch, self.num_relations) as mask:
                keep_mask(
                    self, max_degree, seed, mask, scratch, memory_bytes=memory, progress=progress
                )
                write_selection(self, mask, folder, progress)
                save_kept(folder, mask)
            return {}

        names = {RELATIONS, MASK} | ({TYPES} if self.relation_types is not None else set())
        selected = require_whole(derived(self.folder, "capped", depends_on, make), names)
        if not selected.is_new:
            check_cap(self, selected, max_degree)
        return CappedGraph(
            graph=self,
            relations=selected.array(RELATIONS),
            relation_types=selected.array(TYPES) if self.relation_types is not None else None,
            max_degree=max_degree,
            degree_bound="capped",
            report=CappingReport.compare(self, len(selected.array(RELATIONS)), max_degree),
        )

    def count_caps(
        self,
        bounds: Sequence[int],
        seed: int | bytes,
        *,
        report: Callable[[Tick], None] | None = None,
    ) -> dict[int, CapCount]:
        """Return what capping at each of several bounds keeps, from one pass over the relations."""
        memory, progress = BuildSettings().memory_bytes // 4, Progress(report)
        with scratch_in(self.folder) as scratch:
            return count_caps(self, bounds, seed, scratch, memory_bytes=memory, progress=progress)

    def count_texts(self) -> tuple[npt.NDArray[np.integer[Any]], TextGroups]:
        """Return the number of words of every text, and how many texts are the same."""
        words = [
            pc.list_value_length(pc.utf8_split_whitespace(batch.column("text"))).to_numpy()
            for batch in self._columns.batches()
        ]
        with scratch_in(self.folder) as scratch:
            groups = text_groups(self._columns, BuildSettings(), scratch)
        return np.concatenate(words), groups

    def search_mentions(self) -> Any:
        """Return ids found in texts."""
        with scratch_in(self.folder) as scratch:
            return search_mentions(self._columns, self.num_entities, BuildSettings(), scratch)

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
            folder=self.folder,
        )

    def with_record(self, record: GraphRecord) -> "StoredGraph":
        """Return the same store with another record."""
        manifest = dataclasses.replace(self.manifest, record=record)
        return StoredGraph(self.folder, manifest, self.relation_folder)

    @cached_property
    def _checked_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays of relations, whose values are checked together."""
        names = [name for name in (RELATIONS, TYPES, DEGREES) if name in self.manifest.files]
        arrays = {name: self._array_file(name) for name in names}
        check_values(self, self._columns, arrays[RELATIONS], arrays.get(TYPES), arrays[DEGREES])
        return arrays

    def _array_file(self, name: str) -> npt.NDArray[Any]:
        """Map an array after checking its blocks."""
        return self._checkers[name].array()

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
