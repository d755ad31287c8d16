"""A graph whose protected entities have bounded degrees: the only thing that a sampler takes.

The graph records how its bound was reached, because the guarantee differs (theory.md 2.2): "capped"
means that relations were dropped, and neighbors are graphs after dropping; "promised" means that
the graph obeyed the bound already. The bound is checked when the object is made, whoever makes it.

Public: `CappedGraph`, `CappingReport`.

>>> from reldp.graph import EntityGraph
>>> graph = EntityGraph.from_lists(["a", "b", "c"], [("a", "b"), ("a", "c")], text=["x", "y", "z"])
>>> graph.cap_degrees(1, seed=0).num_relations
1
"""

import hashlib
from dataclasses import asdict, dataclass, fields
from functools import cached_property, partial
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reldp.errors import GraphError
from reldp.graph.capping import degrees, read_only, unit_degrees

if TYPE_CHECKING:
    from reldp.graph.entity_graph import EntityGraph

__all__ = ["CappedGraph", "CappingReport"]

_UNITS = {"entity": "entities", "owner": "owners"}


@dataclass(frozen=True, kw_only=True)
class CappingReport:
    """Counts before and after capping. Sensitive: computed from private data without noise.

    Attributes:
        max_degree: The bound.
        num_protected: How many entities, or owners, it holds for.
        num_relations_before: Relations of the graph.
        num_relations: Relations kept.
        num_over: How many of them had more relations than the bound.
        largest_degree_before: The largest degree of one of them in the graph.
        unit: "entity", or "owner" where entities have owners.
    """

    max_degree: int
    num_protected: int
    num_relations_before: int
    num_relations: int
    num_over: int
    largest_degree_before: int
    unit: str = "entity"

    @classmethod
    def compare(cls, graph: "EntityGraph", num_relations: int, max_degree: int) -> "CappingReport":
        """Return the counts for a graph of which so many relations are left at a bound."""
        protected_degrees = graph.owner_degrees[graph.protected_owners]
        return cls(
            max_degree=max_degree,
            num_protected=len(protected_degrees),
            num_relations_before=graph.num_relations,
            num_relations=num_relations,
            num_over=int(np.count_nonzero(protected_degrees > max_degree)),
            largest_degree_before=int(protected_degrees.max(initial=0)),
            unit="entity" if graph.owners is None else "owner",
        )

    @property
    def num_dropped(self) -> int:
        """Relations that were dropped."""
        return self.num_relations_before - self.num_relations

    @property
    def kept_share(self) -> float:
        """Share of the relations that was kept."""
        return self.num_relations / max(self.num_relations_before, 1)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        values = asdict(self) | {"num_dropped": self.num_dropped, "kept_share": self.kept_share}
        if self.unit == "entity":
            del values["unit"]
        return values

    def __str__(self) -> str:
        return (
            f"kept {self.num_relations:,} of {self.num_relations_before:,} relations "
            f"({self.kept_share:.1%}) at max_degree {self.max_degree}; {self.num_over:,} of "
            f"{self.num_protected:,} protected {_UNITS[self.unit]} had more, "
            f"the largest {self.largest_degree_before:,}"
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CappedGraph:
    """A graph with bounded degrees, made by `cap_degrees` or `promise_degrees` of `EntityGraph`.

    Attributes:
        graph: The graph it came from: entities, text, features.
        relations: (m, 2) int64, read-only: the relations that are left, as entity indices.
        relation_types: (m,) int32, read-only: their types, as indices of `type_names`; None without types.
        max_degree: No protected entity, or owner where entities have owners, has more relations.
        degree_bound: "capped" or "promised".
        report: Counts before and after capping.
    """

    graph: "EntityGraph"
    relations: npt.NDArray[np.int64]
    max_degree: int
    degree_bound: str
    report: CappingReport
    relation_types: npt.NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        if self.degree_bound not in ("capped", "promised"):
            raise GraphError(
                f"`degree_bound` must be 'capped' or 'promised', got {self.degree_bound!r}."
            )
        counts = (
            degrees(self.relations, self.num_entities)
            if self.owners is None
            else unit_degrees(self.relations, self.owners)
        )
        largest = counts[self.graph.protected_owners].max(initial=0)
        if largest > self.max_degree:
            unit = "entity" if self.owners is None else "owner"
            raise GraphError(
                f"`max_degree` must bound every protected {unit}'s degree, got "
                f"{self.max_degree} and a degree of {largest}. Use EntityGraph.cap_degrees."
            )
        if (self.relation_types is None) != (self.graph.relation_types is None):
            raise GraphError(
                "`relation_types` must be given if the graph has types, and only then."
            )
        from reldp.graph.relation_types import (
            check_types,
        )  # it needs pyarrow, which plans do without

        check_types(self.relation_types, self.type_names, len(self.relations))
        object.__setattr__(self, "relations", read_only(self.relations))
        if self.relation_types is not None:
            object.__setattr__(self, "relation_types", read_only(self.relation_types))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the content alone; cached values are computed again."""
        return partial(
            CappedGraph, **{item.name: getattr(self, item.name) for item in fields(self)}
        ), ()

    @property
    def num_entities(self) -> int:
        """Number of entities, with or without relations."""
        return self.graph.num_entities

    @property
    def owners(self) -> npt.NDArray[np.int64] | None:
        """(n,) int64, read-only: number of each entity's owner; None where entities have none."""
        return self.graph.owners

    @property
    def num_units(self) -> int:
        """Number of units of privacy: of owners where entities have owners, else of entities."""
        return int(self.graph.num_owners)

    @property
    def protected_units(self) -> npt.NDArray[np.bool_]:
        """(units,) bool, read-only: which units of privacy are protected."""
        return self.graph.protected_owners

    @property
    def num_relations(self) -> int:
        """Number of relations that are left."""
        return len(self.relations)

    @property
    def type_names(self) -> tuple[str, ...]:
        """Names of the relations' types, sorted; empty without types."""
        return self.graph.type_names

    @property
    def protected(self) -> npt.NDArray[np.bool_]:
        """(n,) bool, read-only: which entities are protected."""
        return self.graph.protected

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over the graph's content, the relations kept and the bound; sensitive."""
        parts = ("reldp capped graph 1", self.graph.fingerprint, self.max_degree, self.degree_bound)
        digest = hashlib.sha256("\n".join(map(str, parts)).encode())
        digest.update(np.ascontiguousarray(self.relations, dtype="<i8").data)
        if self.relation_types is not None:
            digest.update(np.ascontiguousarray(self.relation_types, dtype="<i4").data)
        return digest.hexdigest()

    def to_graph(self) -> "EntityGraph":
        """Return the graph that is left, with what was dropped in its record."""
        record = self.graph.record.with_drops({"over_max_degree": self.report.num_dropped})
        if self.degree_bound == "capped":
            record = record.with_cap(self.max_degree)
        return self.graph.replace(
            relations=self.relations, record=record, relation_types=self.relation_types
        )

    def write(
        self, path: str | PathLike[str], *, format: str = "parquet", overwrite: bool = False
    ) -> None:
        """Write what is left as a graph folder, whose record says that it was capped."""
        self.to_graph().write(path, format=format, overwrite=overwrite)

    def __repr__(self) -> str:
        types = "" if self.relation_types is None else f" of {len(self.type_names)} types"
        owners = "" if self.owners is None else f" of {self.num_units:,} owners"
        return (
            f"CappedGraph({self.num_entities:,} entities{owners}, {self.num_relations:,} relations{types}, "
            f"max_degree={self.max_degree}, {self.degree_bound})"
        )
