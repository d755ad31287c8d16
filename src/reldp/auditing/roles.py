"""Which gradients the auditor's encoder gives to which tuples, and the graphs on which it does.

Roles: the *entity* that the two graphs differ in, its *partners*, *hubs* (endpoints of all other relations) and
*bystanders* (everybody else, who are negatives only). The vectors a and c of `reldp.auditing.probe` are chosen such
that

* every tuple with the entity, as an endpoint or as a negative, has a very long gradient along the direction;
* every other tuple has none (``zero elsewhere``), or a long one the other way (``opposing elsewhere``).

Exceptions are rare and harm the audit's power only, never its validity: a tuple whose negatives are all masked, or all
other partners of the entity. ``opposing elsewhere`` also gives the entity a huge c in the hubs' dimensions, so that
an embedding that leaks into other tuples (say, through a batch mean) turns their gradients round.

Where negatives are other relations, these share few entities, or they would be masked, and have one of several
dimensions, or the negatives of a tuple would pull against its positive as much as it pulls.

For the relation-level unit only the tuple of the extra relation has the long gradient, and where negatives are other
relations those that it is drawn for.

Public to `reldp.auditing`: `Roles`, `crowded_pair`, `matched_pair`, `vectors`.

>>> roles = matched_pair(num_entities=12, num_relations=2, max_degree=1)
>>> roles.pair.with_entity.num_relations, roles.pair.without_entity.num_relations
(3, 2)
>>> moving, still = vectors(roles, "opposing elsewhere", present=True, clip_norm=1.0)
>>> moving.shape == still.shape == (12, 3)
True
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reldp.auditing.designs import OPPOSING_ELSEWHERE, ZERO_ELSEWHERE
from reldp.auditing.neighbors import (
    NeighborPair,
    num_owned,
    pair_from_relations,
    relation_pair,
    ring_relations,
)
from reldp.errors import PlanError
from reldp.plan import PrivacyPlan

__all__ = ["DESIGNS", "Roles", "crowded_pair", "matched_pair", "vectors"]

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

DESIGNS = (ZERO_ELSEWHERE.name, OPPOSING_ELSEWHERE.name)
_LONG = 1e4  # gradient of the entity's tuples, in clip norms
_OTHER = 5.0  # of all other entities
_LEAK = 1e4  # the entity's c in the hubs' dimensions: more than a microbatch has rows
_MAX_DIMENSIONS = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class Roles:
    """Two neighboring graphs and who is what in the larger one.

    Attributes:
        pair: The graphs.
        partners: The entity's partners; for a relation, its second endpoint.
        hubs: Endpoints of the other relations.
        dimensions: Dimension of each hub, from 1: hubs of different dimensions have nothing to do with each other.
        in_relations: Whether negatives are the endpoints of other relations.
    """

    pair: NeighborPair
    partners: IntArray
    hubs: IntArray
    dimensions: IntArray
    in_relations: bool = False


def _crowd(num_relations: int) -> IntArray:
    """Return that many relations among as few entities as can have them."""
    size = math.ceil((1 + math.sqrt(1 + 8 * num_relations)) / 2)
    first, second = np.triu_indices(size, 1)
    return np.stack([first, second], axis=1)[:num_relations].astype(np.int64)


def _spread(num_entities: int, num_relations: int) -> tuple[IntArray, IntArray]:
    """Return relations that share as few entities as they can, and the dimension of each entity, its block.

    Every relation is inside of a block, and consecutive relations are in different ones.
    """
    fits = (
        b for b in (_MAX_DIMENSIONS, 4, 2) if num_relations <= b * math.comb(num_entities // b, 2)
    )
    blocks = next(fits, 1)
    size, count = num_entities // blocks, math.ceil(num_relations / blocks)
    inside = np.arange(2 * count, dtype=np.int64).reshape(-1, 2)
    if 2 * count > size:
        inside = ring_relations(size, count)
    starts = size * np.arange(blocks, dtype=np.int64)
    relations = (inside[:, None] + starts[None, :, None]).reshape(-1, 2)[:num_relations]
    return relations, 1 + np.arange(blocks * size, dtype=np.int64) // size


def crowded_pair(plan: PrivacyPlan) -> Roles:
    """Graphs of the plan's sizes whose other relations share few hubs, so that negatives seldom are hubs.

    Where negatives are other relations, these are spread over all entities instead.

    Raises:
        PlanError: The plan's sizes form no graph without repeated relations.
    """
    n, degree = plan.num_entities, plan.max_degree
    num_others = n if plan.unit == "relation" else n - 1
    unprotected = min(plan.pool_size, num_others) if plan.negatives == "unprotected" else num_others
    if plan.negatives == "relations":
        relations, dimensions = _spread(n - 2, plan.num_relations)
    else:
        relations = _crowd(plan.num_relations)
        dimensions = np.ones(int(relations.max()) + 1, np.int64)
    num_hubs = int(relations.max()) + 1
    if num_hubs > unprotected or degree > num_others:
        raise PlanError(
            f"`num_relations` must fit between {unprotected} entities, got {plan.num_relations}. "
            "Audit a plan of a graph without repeated relations."
        )
    if plan.unit == "relation":
        pair, partners = _for_relation(plan, relations, num_hubs, unprotected), np.array([n - 2])
    else:
        partners = np.arange(num_others - degree, num_others)
        pair = pair_from_relations(
            relations,
            entity_relations=partners.tolist(),
            num_entities=n,
            max_degree=degree,
            unprotected=unprotected,
            num_owned=num_owned(plan),
        )
    return _roles(pair, partners, relations, dimensions, in_relations=plan.negatives == "relations")


def _for_relation(
    plan: PrivacyPlan, relations: IntArray, num_hubs: int, unprotected: int
) -> NeighborPair:
    """Both graphs have all entities; the larger one has one relation more, between its last two."""
    n = plan.num_entities
    if num_hubs > n - 2:
        raise PlanError(
            f"`num_relations` must leave two of {n} entities free, got {plan.num_relations}."
        )
    return relation_pair(relations, (n - 2, n - 1), num_entities=n, unprotected=unprotected)


def matched_pair(
    *, num_entities: int, num_relations: int, max_degree: int, num_owned: int | None = None
) -> Roles:
    """Graphs whose other relations share no endpoint, each with a dimension of its own while there are some."""
    relations = np.arange(2 * num_relations, dtype=np.int64).reshape(-1, 2)
    partners = np.arange(num_entities - 1 - max_degree, num_entities - 1)
    pair = pair_from_relations(
        relations,
        entity_relations=partners.tolist(),
        num_entities=num_entities,
        max_degree=max_degree,
        unprotected=num_entities - 1,
        num_owned=num_owned,
    )
    return _roles(
        pair, partners, relations, 1 + np.repeat(np.arange(num_relations), 2) % _MAX_DIMENSIONS
    )


def _roles(
    pair: NeighborPair,
    partners: IntArray,
    relations: IntArray,
    dimensions: IntArray,
    *,
    in_relations: bool = False,
) -> Roles:
    """Return the roles; `dimensions` are those of all entities from 0 on, up to the last hub at least."""
    hubs = np.setdiff1d(relations, partners)
    return Roles(
        pair=pair,
        partners=partners,
        hubs=hubs,
        dimensions=dimensions[hubs],
        in_relations=in_relations,
    )


def vectors(roles: Roles, design: str, *, present: bool, clip_norm: float) -> tuple[Array, Array]:
    """Return the vectors a and c of every entity of one of the two graphs, (entities, dimensions) each.

    Args:
        roles: The graphs and who is what.
        design: ``"zero elsewhere"`` or ``"opposing elsewhere"``.
        present: Whether the graph is the one with the entity.
        clip_norm: What gradients are measured in.
    """
    pair = roles.pair
    graph = pair.with_entity if present else pair.without_entity
    shape = (graph.num_entities, 1 + int(roles.dimensions.max(initial=1)))
    moving, still = np.zeros(shape), np.zeros(shape)
    by_relation = pair.entity is None
    hub_gradient = _OTHER * clip_norm if design == OPPOSING_ELSEWHERE.name else 0.0
    moving[roles.hubs, roles.dimensions] = hub_gradient
    still[roles.hubs, roles.dimensions] = 1.0
    # An endpoint of the extra relation is a negative in both graphs, unless negatives are other relations.
    still[roles.hubs, 0] = 0.0 if by_relation and not roles.in_relations else 1.0
    still[roles.partners, 0] = -1.0
    if by_relation:
        moving[graph.num_entities - 1, 0] = _LONG * clip_norm
    elif present:
        owned = pair.holds(np.arange(graph.num_entities))
        moving[owned, 0] = _LONG * clip_norm
        still[owned, 1:] = _LEAK if hub_gradient else 0.0
    return moving, still
