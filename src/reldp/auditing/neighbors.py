"""Two neighboring graphs for an audit: the same but for one entity and its relations.

`worst_pair` builds the pair that a plan's epsilon is about (theory.md 3): without the entity there are m
relations among n - 1 entities; with it there are K relations more and one entity more. Only sizes matter to a
local rule, since the auditor chooses the gradients. For the relation-level unit the pair differs in one relation.

Guarantee: both graphs are real `CappedGraph`s and pass every check that a training graph passes.

Public: `NeighborPair`, `worst_pair`, `pair_from_relations`, `relation_pair`; inside the package `ring_relations`.

>>> pair = pair_from_relations([(0, 1), (1, 2)], entity_relations=[0, 2], num_entities=4, max_degree=2)
>>> pair.with_entity.num_relations, pair.without_entity.num_relations, pair.entity
(4, 2, 3)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reldp.errors import PlanError
from reldp.graph import CappedGraph, EntityGraph
from reldp.plan import PrivacyPlan

__all__ = [
    "NeighborPair",
    "num_owned",
    "pair_from_relations",
    "relation_pair",
    "ring_relations",
    "worst_pair",
]

_NUM_OWNED = 3
_MAX_RELATIONS = 20_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class NeighborPair:
    """Two graphs that differ in one unit of privacy.

    Attributes:
        with_entity: The graph with it.
        without_entity: The graph without it.
        entity: Index of the entity in the larger graph, its last; the first entity of the owner when the unit is an
            owner; None when it is a relation.
        relation: Index of the relation in the larger graph, its last; None when the unit is an entity or owner.
        num_owned: Number of entities of the owner, the last ones; 1 when the unit is an entity.
    """

    with_entity: CappedGraph
    without_entity: CappedGraph
    entity: int | None
    relation: int | None = None
    num_owned: int = 1

    def holds(self, entities: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which entities of the larger graph are the one that the pair differs in, or its owner's."""
        assert self.entity is not None, "the unit is an entity or an owner"
        return (entities >= self.entity) & (entities < self.entity + self.num_owned)


def _graph(
    num_entities: int,
    relations: npt.NDArray[np.int64],
    protected: npt.NDArray[np.bool_],
    max_degree: int,
    num_owned: int = 1,
    *,
    owners: bool = False,
) -> CappedGraph:
    """Return a graph of numbered entities without texts worth reading; the last `num_owned` have one owner."""
    import pyarrow as pa

    ids = np.arange(num_entities)
    entities = {"id": ids, "text": np.char.mod("%d", ids), "protected": protected}
    if owners:
        entities["owner"] = np.minimum(ids, num_entities - num_owned)
    endpoints = {"source": relations[:, 0], "target": relations[:, 1]}
    graph = EntityGraph.from_arrow(
        pa.table({name: pa.array(column) for name, column in entities.items()}),
        pa.table({name: pa.array(column) for name, column in endpoints.items()}),
    )
    return graph.promise_degrees(max_degree)


def pair_from_relations(
    relations: Sequence[tuple[int, int]] | npt.NDArray[np.int64],
    *,
    entity_relations: Sequence[int],
    num_entities: int,
    max_degree: int,
    unprotected: int = 0,
    num_owned: int | None = None,
) -> NeighborPair:
    """Return a pair from given relations among others and the entity's partners.

    Args:
        relations: Relations among entities 0 .. n-2.
        entity_relations: Partners of the entity, which is number n-1.
        num_entities: n, the entity included; the number of owners with `num_owned`.
        max_degree: K, which every protected entity must obey.
        unprotected: How many of the others, from 0 on, are promised nothing.
        num_owned: Number of entities n-1, n, ... that the owner in question has, where the unit is an owner: they
            take turns in its relations. All others own themselves.
    """
    other_relations = np.asarray(relations, dtype=np.int64).reshape(-1, 2)
    entity, owned = num_entities - 1, num_owned or 1
    entity_pairs = np.array(
        [(entity + i % owned, partner) for i, partner in enumerate(entity_relations)],
        dtype=np.int64,
    )
    protected = np.arange(entity + owned) >= unprotected
    both = np.concatenate([other_relations, entity_pairs.reshape(-1, 2)])
    owners = num_owned is not None
    return NeighborPair(
        with_entity=_graph(entity + owned, both, protected, max_degree, owned, owners=owners),
        without_entity=_graph(
            entity, other_relations, protected[:entity], max_degree, owners=owners
        ),
        entity=entity,
        num_owned=owned,
    )


def ring_relations(num_entities: int, num_relations: int) -> npt.NDArray[np.int64]:
    """Different relations, spread evenly: neighbors on a ring, then second neighbors, and so on."""
    if num_relations > num_entities * (num_entities - 1) // 2:
        raise PlanError(
            f"`num_relations` must fit between {num_entities} entities, got "
            f"{num_relations}. Audit a plan of a graph without repeated relations."
        )
    if num_relations > _MAX_RELATIONS:
        raise PlanError(
            f"`num_relations` must be at most {_MAX_RELATIONS} for an audit, got {num_relations}. "
            "Audit a smaller plan of the same rates."
        )
    place = np.arange(num_relations, dtype=np.int64)
    start, stride = place % num_entities, place // num_entities + 1
    # At half a turn the ring meets itself, but the check above ends that round half way.
    end = (start + stride) % num_entities
    return np.stack([start, end], axis=1)


def worst_pair(plan: PrivacyPlan) -> NeighborPair:
    """Return the neighboring graphs that the plan's epsilon is about.

    Raises:
        PlanError: The plan's sizes form no graph without repeated relations.
    """
    if plan.unit == "relation":
        return _relation_pair(plan)
    n, degree = plan.num_entities, plan.max_degree
    if degree > n - 1:
        raise PlanError(f"`max_degree` must be at most the other entities, got {degree} of {n}.")
    unprotected = plan.pool_size if plan.negatives == "unprotected" else n - 1
    if unprotected > n - 1:
        raise PlanError(
            f"`pool_size` must leave out at least the protected entity, got {plan.pool_size} of {n}."
        )
    # Among entities that are promised nothing, degrees are free.
    return pair_from_relations(
        ring_relations(unprotected, plan.num_relations),
        entity_relations=range(degree),
        num_entities=n,
        max_degree=degree,
        unprotected=unprotected,
        num_owned=num_owned(plan),
    )


def num_owned(plan: PrivacyPlan) -> int | None:
    """Return how many entities the owner in question has: some, where the unit is an owner."""
    return _NUM_OWNED if plan.unit == "owner" else None


def relation_pair(
    relations: npt.NDArray[np.int64],
    extra: tuple[int, int],
    *,
    num_entities: int,
    unprotected: int,
) -> NeighborPair:
    """Return a pair that differs in one relation; both graphs have all entities.

    Args:
        relations: Relations of the smaller graph, (m, 2).
        extra: The relation that the larger graph has as well.
        num_entities: n.
        unprotected: How many entities, from 0 on, are promised nothing.
    """
    both = np.concatenate([relations, np.array([extra], dtype=np.int64)])
    protected = np.arange(num_entities) >= unprotected
    largest = int(np.bincount(both.ravel()).max())
    return NeighborPair(
        with_entity=_graph(num_entities, both, protected, largest),
        without_entity=_graph(num_entities, relations, protected, largest),
        entity=None,
        relation=len(both) - 1,
    )


def _relation_pair(plan: PrivacyPlan) -> NeighborPair:
    """Both graphs have all entities; one has a relation more."""
    both = ring_relations(plan.num_entities, plan.num_relations + 1)
    unprotected = plan.pool_size if plan.negatives == "unprotected" else plan.num_entities
    return relation_pair(
        both[:-1],
        (int(both[-1, 0]), int(both[-1, 1])),
        num_entities=plan.num_entities,
        unprotected=unprotected,
    )
