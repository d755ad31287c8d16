"""Degrees of a graph, and the two ways to a graph whose degrees are bounded (theory.md 2.2).

`cap_degrees` drops relations until the bound holds; `promise_degrees` checks that it holds already.
The bound is about the units of privacy: entities, or their owners where they have some (theory.md 2.3).

Inside the package: `Bounding`, a base class of `EntityGraph`.

>>> from reldp.graph import EntityGraph
>>> star = EntityGraph.from_lists(["a", "b", "c"], [("a", "b"), ("a", "c")], text=["x", "y", "z"])
>>> star.degrees.tolist(), star.promise_degrees(2).degree_bound, star.cap_degrees(1, seed=0).num_relations
([2, 1, 1], 'promised', 1)
"""

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from reldp._validate import as_integer, check_integer
from reldp.errors import GraphError
from reldp.graph.capped import CappedGraph, CappingReport
from reldp.graph.capping import degrees, kept_relations, read_only, unit_degrees
from reldp.graph.columns import single
from reldp.graph.disclosure import SHOW_HINT
from reldp.graph.owners import mixed_protection, owner_index

__all__ = ["Bounding"]


class Bounding:
    """Owners and degrees of `EntityGraph`, and bounds on them."""

    @cached_property
    def owners(self: Any) -> npt.NDArray[np.int64] | None:
        """(n,) int64, read-only: number of each entity's owner; None without a column `owner`."""
        if "owner" not in self.columns:
            return None
        return read_only(owner_index(single(self.entities.column("owner"))))

    @cached_property
    def num_owners(self: Any) -> int:
        """Number of owners: of units of privacy. Without a column `owner` every entity is one."""
        if self.owners is None:
            return int(self.num_entities)
        return int(self.owners.max(initial=-1)) + 1

    @cached_property
    def protected_owners(self: Any) -> npt.NDArray[np.bool_]:
        """(owners,) bool, read-only: which owners, or entities without owners, are protected."""
        if self.owners is None:
            protected: npt.NDArray[np.bool_] = self.protected
            return protected
        mixed = mixed_protection(self.owners, self.protected)
        if len(mixed):  # reading refuses this too, with rows and ids
            raise GraphError(
                f"`protected` must be the same for all entities of an owner, got {len(mixed)} entities "
                "that are protected unlike the first one of their owner."
            )
        flags = np.zeros(self.num_owners, dtype=bool)
        flags[self.owners] = self.protected
        return read_only(flags)

    @cached_property
    def owner_degrees(self: Any) -> npt.NDArray[np.int64]:
        """(owners,) int64, read-only: relations that touch an entity of each owner."""
        if self.owners is None:
            counts: npt.NDArray[np.int64] = self.degrees
            return counts
        return read_only(unit_degrees(self.relations, self.owners))

    @cached_property
    def degrees(self: Any) -> npt.NDArray[np.int64]:
        """(n,) int64, read-only: how many relations each entity has."""
        return read_only(degrees(self.relations, self.num_entities))

    def cap_degrees(self: Any, max_degree: int, seed: int | bytes) -> CappedGraph:
        """Drop relations, in an order given by a keyed hash of their ids, until the bound holds.

        Args:
            max_degree: Largest number of relations that a protected entity, or owner, may keep.
            seed: Key of the hash: an integer or bytes. The same seed gives the same relations.

        Returns:
            The capped graph, with `degree_bound="capped"`.
        """
        rule = "an integer of at least 1 (and at most 2^53)"
        max_degree = check_integer(
            "max_degree", as_integer(max_degree), low=1, high=2**53, rule=rule, error=GraphError
        )
        mask = kept_relations(
            self.ids,
            self.relations,
            self.protected_owners,
            max_degree,
            seed,
            types=self.relation_types,
            type_names=self.type_names,
            owners=self.owners,
        )
        capped: CappedGraph = self._capped(mask, max_degree, "capped")
        return capped

    def promise_degrees(self: Any, max_degree: int, *, show_ids: bool = False) -> CappedGraph:
        """Accept the bound as a promise about the data, after checking it.

        Args:
            max_degree: Largest number of relations of a protected entity, or owner.
            show_ids: Whether errors may show ids; by default they give counts and places only.

        Returns:
            The graph with `degree_bound="promised"`; "capped" if its record says that relations
            were dropped for a bound before.

        Raises:
            GraphError: A protected entity, or owner, has more relations.
        """
        rule = "an integer of at least 1 (and at most 2^53)"
        max_degree = check_integer(
            "max_degree", as_integer(max_degree), low=1, high=2**53, rule=rule, error=GraphError
        )
        over = np.flatnonzero(self.protected_owners & (self.owner_degrees > max_degree))
        if len(over):
            one, several = ("entity", "entities") if self.owners is None else ("owner", "owners")
            worst = over[np.argsort(-self.owner_degrees[over], kind="stable")[:3]]
            shown = ", ".join(self._degree_words(int(i), show_ids) for i in worst)
            hint = "" if show_ids else f" {SHOW_HINT}"
            raise GraphError(
                f"`max_degree` must be at least every protected {one}'s degree, got {max_degree} "
                f"and {len(over)} {several} with more ({shown}). Use cap_degrees to drop relations.{hint}"
            )
        bound = "promised" if self.record.capped_at is None else "capped"
        capped: CappedGraph = self._capped(slice(None), max_degree, bound)
        return capped

    def _degree_words(self: Any, unit: int, show_ids: bool) -> str:
        """Return one entity, or the owner of one, with its degree."""
        entity = unit if self.owners is None else int(np.argmax(self.owners == unit))
        name = repr(self.ids[entity].as_py()) if show_ids else f"row {entity + 1}"
        return f"{'' if self.owners is None else 'of '}{name} with {self.owner_degrees[unit]}"

    def _capped(self: Any, selected: Any, max_degree: int, degree_bound: str) -> CappedGraph:
        """Return the capped graph of some relations: a mask, or the slice of all."""
        relations, types = self.relations[selected], self.relation_types
        return CappedGraph(
            graph=self,
            relations=relations,
            relation_types=None if types is None else types[selected],
            max_degree=max_degree,
            degree_bound=degree_bound,
            report=CappingReport.compare(self, len(relations), max_degree),
        )
