"""The sampler: batches of tuples from a capped graph, step by step.

One direction only: the sampler takes a ``CappedGraph``, whose degrees are bounded, and nothing
else; the accountant's numbers hold for this sampler (theory.md 1, 2.3 and 3). A step's
batch is a function of (key, branch, step), so it is the same whether the step was reached by
running or by resuming, and costs O(batch), not O(graph).

Negatives come from one of four pools: ``"entities"``, all n entities of the graph; ``"relations"``, all
relations, each of which brings both of its endpoints (theory.md 2.6);
``"unprotected"``, those that the guarantee does not cover; ``"public"``, a separate pool whose
entities are numbered n, n + 1, ... Where entities have owners, the first two pools consist of owners,
and each drawn owner is represented by one of its entities (``reldp.sampling.owned``).

Public: ``TupleSampler``.

>>> from reldp.graph import EntityGraph
>>> from reldp.noise.streams import Streams
>>> ring = [(i, (i + 1) % 50) for i in range(50)]
>>> graph = EntityGraph.from_lists(list(range(50)), ring, text=[f"entity {i}" for i in range(50)])
>>> sampler = TupleSampler(graph.promise_degrees(2), sample_rate=0.1, num_negatives=3,
...                        streams=Streams(bytes(32)))
>>> sampler.sample(step=0)
TupleBatch(num_tuples=2, num_negatives=3)
"""

from typing import TYPE_CHECKING

import numpy as np

from reldp._validate import NEGATIVE_POOLS, check_choice
from reldp.errors import PlanError
from reldp.graph import CappedGraph
from reldp.sampling.batch import TupleBatch
from reldp.sampling.indices import IndexSampler
from reldp.sampling.owned import OwnedEntities

if TYPE_CHECKING:
    from reldp.noise.streams import Streams

__all__ = ["TupleSampler"]

_OWNED = "sampling/owned"


class TupleSampler:
    """Poisson positives with negatives drawn without replacement.

    Args:
        capped: The training graph, its degrees bounded.
        sample_rate: Probability that one relation enters one batch, in (0, 1]. A fixed public
            number: never recompute it from a batch size and the graph at hand.
        num_negatives: Negatives per relation; for ``"relations"``, other relations per relation.
        streams: The run's streams.
        negatives: The pool: ``"entities"``, ``"relations"``, ``"unprotected"`` or ``"public"``.
        public_pool_size: Size of the public pool; needed for ``"public"`` and refused otherwise.
    """

    def __init__(
        self,
        capped: CappedGraph,
        *,
        sample_rate: float,
        num_negatives: int,
        streams: "Streams",
        negatives: str = "entities",
        public_pool_size: int | None = None,
    ) -> None:
        if not isinstance(capped, CappedGraph):
            raise PlanError(
                f"`capped` must be a CappedGraph, got {type(capped).__name__}. "
                "Call cap_degrees(max_degree, seed) or promise_degrees(max_degree) on the graph."
            )
        check_choice("negatives", negatives, NEGATIVE_POOLS, error=PlanError)
        if (public_pool_size is None) == (negatives == "public"):
            raise PlanError(
                "`public_pool_size` must be given with negatives='public' and only then, "
                f"got {public_pool_size!r} with {negatives!r}."
            )
        self.negatives = negatives
        self._relations = capped.relations
        self._types = capped.relation_types
        self._first_public = capped.num_entities
        self._streams = streams
        self._unprotected = (
            np.flatnonzero(~capped.protected_units) if negatives == "unprotected" else None
        )
        self._owned = None
        if capped.owners is not None and negatives in ("entities", "unprotected"):
            pool = self._unprotected
            self._owned = OwnedEntities(
                capped.owners, np.arange(capped.num_units) if pool is None else pool
            )
        self._indices = IndexSampler(
            num_relations=capped.num_relations,
            pool_size=self._size_of_pool(capped, public_pool_size),
            sample_rate=sample_rate,
            num_negatives=num_negatives,
            streams=streams,
        )

    def _size_of_pool(self, capped: CappedGraph, public_pool_size: int | None) -> int:
        if public_pool_size is not None:
            return public_pool_size
        if self.negatives == "relations":
            return capped.num_relations
        return capped.num_units if self._unprotected is None else self._unprotected.size

    @property
    def pool_size(self) -> int:
        """Number of entities, owners where entities have owners, or relations, that negatives are drawn from."""
        return self._indices.pool_size

    @property
    def num_negatives(self) -> int:
        """Negatives, or other relations, per relation."""
        return self._indices.num_negatives

    @property
    def sample_rate(self) -> float:
        """Probability that one relation enters one batch."""
        return self._indices.sample_rate

    def sample(self, step: int, branch: int = 0) -> TupleBatch:
        """Return the batch of one step; if it overflows, it is empty and says so."""
        draw = self._indices.draw(step, branch)
        places, endpoints = draw.places, draw.endpoints  # (l, k)
        if self._owned is not None:
            places = self._owned.pick(places, self._streams.stream(_OWNED, branch, step))
        elif self._unprotected is not None:
            places = self._unprotected[places]
        elif self.negatives == "public":
            places = places + self._first_public
        elif self.negatives == "relations":  # both endpoints of each, one after the other
            places = self._relations[places].reshape(len(places), 2 * places.shape[1])
            endpoints = np.repeat(endpoints, 2, axis=1)
        return TupleBatch(
            positives=self._relations[draw.relation_ids],  # (l, 2)
            negatives=places,
            endpoints=endpoints,
            relation_ids=draw.relation_ids,
            types=None if self._types is None else self._types[draw.relation_ids],  # (l,)
            overflow=draw.overflow,
            in_relations=self.negatives == "relations",
        )
