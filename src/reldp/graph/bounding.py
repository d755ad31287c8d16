"""Degrees of a graph, and the two ways to a graph whose degrees are bounded (theory.md 2.2).

`cap_degrees` drops relations until the bound holds; `promise_degrees` checks that it holds already.

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
from reldp.graph.capping import degrees, kept_relations, read_only
from reldp.graph.disclosure import SHOW_HINT

__all__ = ["Bounding"]


class Bounding:
    """Degrees of `EntityGraph` and bounds on them."""

    @cached_property
    def degrees(self: Any) -> npt.NDArray[np.int64]:
        """(n,) int64, read-only: how many relations each entity has."""
        return read_only(degrees(self.relations, self.num_entities))

    def cap_degrees(self: Any, max_degree: int, seed: int | bytes) -> CappedGraph:
        """Drop relations, in an order given by a keyed hash of their ids, until the bound holds.

        Args:
            max_degree: Largest number of relations that a protected entity may keep.
            seed: Key of the hash: an integer or bytes. The same seed gives the same relations.

        Returns:
            The capped graph, with `degree_bound="capped"`.
        """
        check_integer("max_degree", as_integer(max_degree), low=1, error=GraphError)
        mask = kept_relations(
            self.ids,
            self.relations,
            self.protected,
            max_degree,
            seed,
            types=self.relation_types,
            type_names=self.type_names,
        )
        capped: CappedGraph = self._capped(mask, max_degree, "capped")
        return capped

    def promise_degrees(self: Any, max_degree: int, *, show_ids: bool = False) -> CappedGraph:
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
        capped: CappedGraph = self._capped(slice(None), max_degree, bound)
        return capped

    def _degree_words(self: Any, entity: int, show_ids: bool) -> str:
        name = repr(self.ids[entity].as_py()) if show_ids else f"row {entity + 1}"
        return f"{name} with {self.degrees[entity]}"

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
