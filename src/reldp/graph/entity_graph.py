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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reldp._validate import as_integer, check_integer
from reldp.errors import GraphError
from reldp.graph.capped import CappedGraph, CappingReport
from reldp.graph.capping import degrees, kept_relations, read_only
from reldp.graph.columns import single, values_at, vectors
from reldp.graph.conversions import Conversions
from reldp.graph.disclosure import SHOW_HINT, guarded
from reldp.graph.fingerprint import fingerprint
from reldp.graph.reading import GraphFiles, read_files, read_folder
from reldp.graph.record import GraphRecord
from reldp.graph.sources import SourceTable, drop_kinds
from reldp.graph.validation import checked_entities, checked_relations
from reldp.graph.writing import write_folder

__all__ = ["EntityGraph"]

_ENDPOINTS = {0: "source", 1: "target"}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class EntityGraph(Conversions):
    """A graph of entities, made by `read` and the `from_...`, which check everything.

    Attributes:
        entities: Arrow table: `id`, then `text`, `features`, `protected` where given, then further
            columns.
        relations: (m, 2) int64, read-only: entity indices, each pair once, no direction.
        record: Where the graph comes from and what was left out.
    """

    entities: Any
    relations: npt.NDArray[np.int64]
    record: GraphRecord = field(default_factory=GraphRecord)

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
        object.__setattr__(self, "relations", read_only(self.relations))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the content alone; cached values are computed again."""
        parts = {"entities": self.entities, "relations": self.relations, "record": self.record}
        return partial(EntityGraph, **parts), ()

    @classmethod
    def read(
        cls, path: str | PathLike[str], *, drop: Iterable[str] = (), show_ids: bool = False
    ) -> "EntityGraph":
        """Read a graph folder, or a graph that comes with the package.

        Args:
            path: Folder with an entities and a relations file (`reading` lists the formats); where
                there is no such folder, the name of a bundled graph, such as "wordnet-nouns".
            drop: Kinds of damage to drop and count instead of refusing (`sources.DROPPABLE`).
            show_ids: Whether errors may show ids; by default they give counts and places only.

        Raises:
            GraphError: A file is missing or damaged, or the tables do not form a graph.
        """
        kinds = drop_kinds(drop)
        if not Path(path).exists():
            from reldp.graph import bundled  # it is built on this class

            if str(path) in bundled.BUNDLED:
                return bundled.load(str(path))
        return cls._checked(read_folder(path, kinds, show_ids=show_ids), kinds)

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
            entities: Columns `id`, `text` and/or `features`, optionally `protected`, and further
                ones; as pyarrow or pandas table, as dataset, as dictionary of columns, or as
                anything with `__arrow_c_stream__`.
            relations: Columns `source` and `target`, ids of entities.
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
    def from_lists(
        cls,
        ids: Sequence[str] | Sequence[int],
        relations: Sequence[tuple[Any, Any]],
        *,
        text: Sequence[str] | None = None,
        features: Any = None,
        protected: Sequence[bool] | None = None,
        drop: Iterable[str] = (),
        record: GraphRecord | None = None,
        show_ids: bool = False,
    ) -> "EntityGraph":
        """Return a graph from plain Python values; relations are pairs of ids."""
        with guarded("entities", show_ids=show_ids):
            columns: dict[str, Any] = {"id": pa.array(ids)}
            if text is not None:
                columns["text"] = pa.array(text, pa.string())
            if features is not None:
                columns["features"] = vectors(features)
            if protected is not None:
                columns["protected"] = pa.array(protected, pa.bool_())
            table = pa.table(columns)
        with guarded("relations", show_ids=show_ids):
            kind = columns["id"].type
            pairs = [(one, other) for one, other in relations]  # two ids each, and no more
            endpoints = pa.table(
                {w: pa.array([p[i] for p in pairs], kind) for i, w in _ENDPOINTS.items()}
            )
        return cls.from_arrow(table, endpoints, drop=drop, record=record, show_ids=show_ids)

    @classmethod
    def _checked(cls, files: GraphFiles, drop: frozenset[str]) -> "EntityGraph":
        with guarded(files.entities.name, show_ids=files.entities.show_ids):
            entities = checked_entities(files.entities, drop)
        with guarded(files.relations.name, show_ids=files.relations.show_ids):
            relations, dropped = checked_relations(files.relations, entities, drop)
        record = files.record.with_drops(entities.drops).with_drops(dropped)
        return cls(entities=entities.table, relations=relations, record=record)

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
            raise GraphError(f"`name` must be one of the graph's columns, got {name!r}.")
        return self._take(name, indices)

    @cached_property
    def degrees(self) -> npt.NDArray[np.int64]:
        """(n,) int64, read-only: how many relations each entity has."""
        return read_only(degrees(self.relations, self.num_entities))

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over the content, whatever format it was read from; sensitive."""
        return fingerprint(self.entities, self.relations)

    def cap_degrees(self, max_degree: int, seed: int | bytes) -> CappedGraph:
        """Drop relations, in an order given by a keyed hash of their ids, until the bound holds.

        Args:
            max_degree: Largest number of relations that a protected entity may keep.
            seed: Key of the hash: an integer or bytes. The same seed gives the same relations.

        Returns:
            The capped graph, with `degree_bound="capped"`.
        """
        check_integer("max_degree", as_integer(max_degree), low=1, error=GraphError)
        mask = kept_relations(self.ids, self.relations, self.protected, max_degree, seed)
        return self._capped(self.relations[mask], max_degree, "capped")

    def promise_degrees(self, max_degree: int, *, show_ids: bool = False) -> CappedGraph:
        """Accept the bound as a promise about the data, after checking it.

        Args:
            max_degree: Largest number of relations of a protected entity.
            show_ids: Whether errors may show ids; by default they give counts and places only.

        Returns:
            The graph with `degree_bound="promised"`; "capped" if its record says that relations
            were dropped for a bound before.

        Raises:
            GraphError: A protected entity has more relations.
        """
        check_integer("max_degree", as_integer(max_degree), low=1, error=GraphError)
        over = np.flatnonzero(self.protected & (self.degrees > max_degree))
        if len(over):
            worst = over[np.argsort(-self.degrees[over], kind="stable")[:3]]
            shown = ", ".join(self._degree_words(int(i), show_ids) for i in worst)
            hint = "" if show_ids else f" {SHOW_HINT}"
            raise GraphError(
                f"`max_degree` must be at least every protected entity's degree, got {max_degree} "
                f"and {len(over)} entities with more ({shown}). Use cap_degrees to drop relations.{hint}"
            )
        bound = "promised" if self.record.capped_at is None else "capped"
        return self._capped(self.relations, max_degree, bound)

    def _degree_words(self, entity: int, show_ids: bool) -> str:
        name = repr(self.ids[entity].as_py()) if show_ids else f"row {entity + 1}"
        return f"{name} with {self.degrees[entity]}"

    def replace(self, *, relations: npt.NDArray[np.int64], record: GraphRecord) -> "EntityGraph":
        """Return the same entities with other relations between them."""
        return dataclasses.replace(self, relations=relations, record=record)

    def select_entities(self, mask: npt.NDArray[np.bool_]) -> "EntityGraph":
        """Return the entities in a mask and the relations among them, with new indices.

        Args:
            mask: (n,) bool.

        Returns:
            A graph whose record counts the relations that lost an endpoint as "relations_across_parts".
        """
        if mask.dtype != np.bool_ or mask.shape != (self.num_entities,):
            raise GraphError(f"`mask` must be {self.num_entities} booleans, got {mask.shape}.")
        if not mask.any():
            raise GraphError("`mask` must select at least one entity, got none.")
        rows = np.flatnonzero(mask)
        new_index = np.full(self.num_entities, -1, dtype=np.int64)
        new_index[rows] = np.arange(len(rows))
        relations = new_index[self.relations]
        inside = (relations >= 0).all(axis=1)
        cut = int(np.count_nonzero((relations >= 0).any(axis=1) & ~inside))
        return EntityGraph(
            entities=self.entities.take(pa.array(rows)).combine_chunks(),
            relations=np.ascontiguousarray(relations[inside]),
            record=self.record.with_drops({"relations_across_parts": cut}),
        )

    def to_arrow(self) -> tuple[Any, Any]:
        """Return the entities and the relations (`source` and `target`, by id) as Arrow tables."""
        columns = {
            name: self.ids.take(pa.array(self.relations[:, end]))
            for end, name in _ENDPOINTS.items()
        }
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

    def _capped(
        self, relations: npt.NDArray[np.int64], max_degree: int, degree_bound: str
    ) -> CappedGraph:
        return CappedGraph(
            graph=self,
            relations=relations,
            max_degree=max_degree,
            degree_bound=degree_bound,
            report=CappingReport.compare(self, len(relations), max_degree),
        )

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
        return (
            f"EntityGraph({self.num_entities:,} entities, {self.num_relations:,} relations, "
            f"{' and '.join(kinds)})"
        )
