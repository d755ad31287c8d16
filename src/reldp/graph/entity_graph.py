"""Entities, their texts or features, and the relations between them: immutable and checked.

Columns live in Arrow memory (mapped from disk where the file allows it), relations in one numpy
array of entity indices; a million entities are never a million Python objects. Reading and every
`from_...` validate completely; what is dropped is dropped on request and counted in `record`.

Public: `EntityGraph`. See theory.md 2.2 for `cap_degrees` and `promise_degrees`, theory.md 2.3 for
`protected`.

>>> graph = EntityGraph.from_lists([7, 8, 9], [(7, 8), (8, 9)], text=["a", "b", "c"])
>>> graph
EntityGraph(3 entities, 2 relations, text)
>>> graph.relations.tolist(), graph.text([2, 0])
([[0, 1], [1, 2]], ['c', 'a'])
"""

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reldp._real_path import real_path
from reldp._validate import check_path, shown
from reldp.errors import GraphError
from reldp.graph.bounding import Bounding
from reldp.graph.budget_link import carry_budget
from reldp.graph.capping import read_only
from reldp.graph.columns import single, values_at
from reldp.graph.conversions import Conversions
from reldp.graph.counting import Counting
from reldp.graph.disclosure import guarded
from reldp.graph.fingerprint import fingerprint
from reldp.graph.reading import GraphFiles, read_files, read_folder
from reldp.graph.record import GraphRecord
from reldp.graph.relation_types import check_types, declared_names, recoded
from reldp.graph.relation_validation import checked_relations
from reldp.graph.sources import SourceTable, drop_kinds
from reldp.graph.validation import check_mask, checked_entities
from reldp.graph.writing import write_folder

__all__ = ["EntityGraph"]

_ENDPOINTS = {0: "source", 1: "target"}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class EntityGraph(Conversions, Bounding, Counting):
    """A graph of entities, made by `read` and the `from_...`, which check everything.

    Attributes:
        entities: Arrow table: `id`, then `text`, `features`, `protected`, `owner` where given, then
            further columns.
        relations: (m, 2) int64, read-only: entity indices. Without types each pair once, no
            direction; with types source and target, each (source, type, target) once.
        record: Where the graph comes from and what was left out.
        relation_types: (m,) int32, read-only: type of each relation, as index of `type_names`; None
            without types.
        type_names: Names of the types, sorted, a public list (`with_types`); empty without types.
        folder: Where it was read from, by which its budget is found; None if it was made in memory.
        whole: Fingerprint of the graph that a holdout took this part from; None otherwise.
    """

    entities: Any
    relations: npt.NDArray[np.int64]
    record: GraphRecord = field(default_factory=GraphRecord)
    relation_types: npt.NDArray[np.int32] | None = None
    type_names: tuple[str, ...] = ()
    folder: Path | None = None
    whole: str | None = None

    def __post_init__(self) -> None:
        shape = self.relations.shape
        if self.relations.dtype != np.int64 or self.relations.ndim != 2 or shape[1] != 2:
            raise GraphError(
                f"`relations` must be an (m, 2) int64 array, got {self.relations.dtype} {shape}."
            )
        low, high = self.relations.min(initial=0), self.relations.max(initial=0)
        if low < 0 or high >= max(self.num_entities, 1):
            raise GraphError(
                f"`relations` must hold entity indices in 0..{self.num_entities - 1}, got "
                f"{low}..{high}."
            )
        check_types(self.relation_types, self.type_names, len(self.relations))
        object.__setattr__(self, "relations", read_only(self.relations))
        if self.relation_types is not None:
            object.__setattr__(self, "relation_types", read_only(self.relation_types))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the content alone; cached values are computed again."""
        parts = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return partial(EntityGraph, **parts), ()

    @classmethod
    def read(
        cls, path: str | PathLike[str], *, drop: Iterable[str] = (), show_ids: bool = False
    ) -> "EntityGraph":
        """Read a graph folder, open a graph store, or load a graph that comes with the package.

        Args:
            path: Folder with an entities and a relations file (`reading` lists the formats), or a store
                of `reldp prepare store`, which is mapped; where there is no such folder, the name of a
                bundled graph, such as "wordnet-nouns".
            drop: Kinds of damage to drop and count instead of refusing (`sources.DROPPABLE`).
            show_ids: Whether errors may show ids; by default they give counts and places only.

        Raises:
            GraphError: A file is missing or damaged, or the tables do not form a graph.
        """
        kinds = drop_kinds(drop)
        fix = "A table of pairs goes to EntityGraph.from_pairs."
        folder = check_path("path", path, error=GraphError, fix=fix)
        if not folder.exists():
            from reldp.graph import bundled  # it is built on this class

            if str(path) in bundled.BUNDLED:
                return bundled.load(str(path))
        if (folder / "store.json").is_file():
            from reldp.graph.store.stored_graph import StoredGraph  # it is built on this class

            return StoredGraph.open(folder)
        graph = cls._checked(read_folder(path, kinds, show_ids=show_ids), kinds)
        pa.default_memory_pool().release_unused()  # the tables as they were read
        return dataclasses.replace(graph, folder=real_path(folder))

    @classmethod
    def read_files(
        cls,
        entities: str | PathLike[str],
        relations: str | PathLike[str],
        *,
        drop: Iterable[str] = (),
        show_ids: bool = False,
    ) -> "EntityGraph":
        """Read an entities file and a relations file, wherever they are; otherwise like `read`."""
        kinds = drop_kinds(drop)
        return cls._checked(read_files(entities, relations, kinds, show_ids=show_ids), kinds)

    @classmethod
    def from_arrow(
        cls,
        entities: Any,
        relations: Any,
        *,
        drop: Iterable[str] = (),
        record: GraphRecord | None = None,
        show_ids: bool = False,
    ) -> "EntityGraph":
        """Return a graph from two tables: of pyarrow, Polars, Hugging Face datasets, DuckDB.

        Args:
            entities: Columns `id`, `text` and/or `features`, optionally `protected`, `owner`, and
                further ones; as pyarrow or pandas table, as dataset, as dictionary of columns, or as
                anything with `__arrow_c_stream__`.
            relations: Columns `source` and `target`, ids of entities, and optionally `type`.
            drop: Kinds of damage to drop and count instead of refusing (`sources.DROPPABLE`).
            record: Where the data comes from.
            show_ids: Whether errors may show ids; by default they give counts and places only.

        Raises:
            GraphError: The tables do not form a graph.
        """
        from reldp.integrations.tables import as_arrow

        tables = {
            name: SourceTable(
                table=as_arrow(table, name, show_ids=show_ids), name=name, show_ids=show_ids
            )
            for name, table in (("entities", entities), ("relations", relations))
        }
        files = GraphFiles(**tables, record=record or GraphRecord())
        return cls._checked(files, drop_kinds(drop))

    @classmethod
    def _checked(cls, files: GraphFiles, drop: frozenset[str]) -> "EntityGraph":
        with guarded(files.entities.name, show_ids=files.entities.show_ids):
            entities = checked_entities(files.entities, drop)
        with guarded(files.relations.name, show_ids=files.relations.show_ids):
            declared = files.record.relation_types
            if declared:
                declared = declared_names(declared, "relation_types")
            relations = checked_relations(files.relations, entities, drop, declared)
        return cls(
            entities=entities.table,
            relations=relations.pairs,
            record=files.record.with_drops(entities.drops).with_drops(relations.drops),
            relation_types=relations.types,
            type_names=relations.type_names,
        )

    @property
    def num_entities(self) -> int:
        """Number of entities, with or without relations."""
        return int(self.entities.num_rows)

    @property
    def num_relations(self) -> int:
        """Number of relations."""
        return len(self.relations)

    @property
    def columns(self) -> list[str]:
        """Names of the entities' columns."""
        return list(self.entities.column_names)

    @property
    def ids(self) -> Any:
        """Arrow array of the entities' ids: strings or 64-bit integers."""
        return self._array("id")

    @cached_property
    def protected(self) -> npt.NDArray[np.bool_]:
        """(n,) bool, read-only: which entities are protected (default: all)."""
        if "protected" in self.columns:
            flags = self._array("protected").to_numpy(zero_copy_only=False)
        else:
            flags = np.ones(self.num_entities, dtype=bool)
        return read_only(flags)

    @property
    def has_text(self) -> bool:
        """Whether entities have texts."""
        return "text" in self.columns

    @cached_property
    def features(self) -> npt.NDArray[np.float32] | None:
        """(n, d) float32, read-only, or None."""
        if "features" not in self.columns:
            return None
        matrix = self._array("features").flatten().to_numpy()  # a view: Arrow's memory is read-only
        return read_only(matrix.reshape(self.num_entities, -1))

    def text(self, indices: npt.ArrayLike | None = None) -> list[str]:
        """Return the texts of some entities, or of all.

        Args:
            indices: Entity indices, in any order, repeats allowed.

        Raises:
            GraphError: The graph has no text, or an index is not an entity.
        """
        if not self.has_text:
            raise GraphError("The graph must have a column 'text', got none. Use its features.")
        return self._take("text", indices)

    def text_batches(self, batch_size: int = 10_000) -> Iterator[list[str]]:
        """Yield all texts in order, a bounded number at a time."""
        for start in range(0, self.num_entities, batch_size):
            yield self.text(np.arange(start, min(start + batch_size, self.num_entities)))

    def column(self, name: str, indices: npt.ArrayLike | None = None) -> list[Any]:
        """Return the values of any column, of some entities or of all."""
        if name not in self.columns:
            raise GraphError(f"`name` must be one of the graph's columns, got {shown(name)}.")
        return self._take(name, indices)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over the content, whatever format it was read from; sensitive."""
        return fingerprint(self.entities, self.relations, self.relation_types, self.type_names)

    def replace(
        self,
        *,
        relations: npt.NDArray[np.int64],
        record: GraphRecord,
        relation_types: npt.NDArray[np.int32] | None = None,
    ) -> "EntityGraph":
        """Return the same entities with other relations between them, and their types if it has types."""
        if (relation_types is None) != (self.relation_types is None):
            raise GraphError(
                "`relation_types` must be given if the graph has types, and only then."
            )
        return dataclasses.replace(
            self, relations=relations, record=record, relation_types=relation_types
        )

    def with_record(self, record: GraphRecord) -> "EntityGraph":
        """Return the same graph with another record."""
        return dataclasses.replace(self, record=record)

    def keep_relations(self, mask: npt.NDArray[np.bool_], *, record: GraphRecord) -> "EntityGraph":
        """Return the same entities with the relations in a mask, (m,) bool, and their types."""
        types = self.relation_types
        return self.replace(
            relations=self.relations[mask],
            record=record,
            relation_types=None if types is None else types[mask],
        )

    def with_types(self, names: Iterable[str], *, show_names: bool = False) -> "EntityGraph":
        """Declare the list of types, which is public and fixed without looking at the data.

        A type without a relation may be in the list. Give a test graph the list of the training
        graph: ``test.with_types(train.type_names)``.

        Args:
            names: All types.
            show_names: Whether errors may show types of the graph that are not in the list.

        Raises:
            GraphError: The graph has no types, or one that is not in the list; or the list is empty
                or has a name twice.
        """
        declared = declared_names(names)
        if self.relation_types is None:
            raise GraphError(
                "The graph must have relations with types, got none. Add a column 'type' to them."
            )
        codes = recoded(self.relation_types, self.type_names, declared, show_names=show_names)
        return dataclasses.replace(
            self,
            relation_types=codes,
            type_names=declared,
            record=dataclasses.replace(self.record, relation_types=declared),
        )

    def select_entities(self, mask: npt.NDArray[np.bool_]) -> "EntityGraph":
        """Return the entities in a mask and the relations among them, with new indices.

        Args:
            mask: (n,) bool.

        Returns:
            A graph whose record counts the relations that lost an endpoint as "relations_across_parts".
        """
        check_mask(mask, self.num_entities)
        rows = np.flatnonzero(mask)
        new_index = np.full(self.num_entities, -1, dtype=np.int64)
        new_index[rows] = np.arange(len(rows))
        relations = new_index[self.relations]
        inside = (relations >= 0).all(axis=1)
        cut = int(np.count_nonzero((relations >= 0).any(axis=1) & ~inside))
        types = self.relation_types
        return EntityGraph(
            entities=self.entities.take(pa.array(rows)).combine_chunks(),
            relations=np.ascontiguousarray(relations[inside]),
            relation_types=None if types is None else types[inside],
            type_names=self.type_names,
            record=self.record.with_drops({"relations_across_parts": cut}),
            folder=self.folder,
            whole=self.whole,
        )

    def to_arrow(self) -> tuple[Any, Any]:
        """Return the entities and the relations as Arrow tables.

        Relations have columns `source` and `target`, by id, and `type` where they have types.
        """
        columns = {
            name: self.ids.take(pa.array(self.relations[:, end]))
            for end, name in _ENDPOINTS.items()
        }
        if self.relation_types is not None:
            names = pa.array(self.type_names, pa.string())
            columns["type"] = names.take(pa.array(self.relation_types))
        return self.entities, pa.table(columns)

    def write(
        self, path: str | PathLike[str], *, format: str = "parquet", overwrite: bool = False
    ) -> None:
        """Write a folder that reads back as the same graph.

        Args:
            path: The folder; made if it is not there.
            format: "parquet" (small) or "arrow" (mapped into memory when read).
            overwrite: Replace a graph that is already in the folder.
        """
        write_folder(path, *self.to_arrow(), self.record, format=format, overwrite=overwrite)
        carry_budget(self.folder, Path(path))

    def _array(self, name: str) -> Any:
        return single(self.entities.column(name))

    def _take(self, name: str, indices: npt.ArrayLike | None) -> list[Any]:
        return values_at(self._array(name), indices)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EntityGraph) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        kinds = [name for name in ("text", "features") if name in self.columns]
        types = "" if self.relation_types is None else f" of {len(self.type_names)} types"
        owners = "" if self.owners is None else f" of {self.num_owners:,} owners"
        return (
            f"EntityGraph({self.num_entities:,} entities{owners}, {self.num_relations:,} relations{types}, "
            f"{' and '.join(kinds)})"
        )
