"""Random draws of one step from sizes alone: relations, negatives and endpoints.

Knows no graph: relations are 0 .. m-1 and negatives are places 0 .. pool_size-1, so a step over
10^9 relations costs what a step over 10^5 does. ``reldp.sampling.sampler`` turns places into
entities.

Guarantees (theory.md 1): every relation enters independently with probability
``sample_rate`` (``reldp.sampling.binomial`` says how exactly); given l of them, the k*l negatives
are a uniformly random sequence without repeats; endpoints are fair and independent. Positives,
negatives and endpoints read streams of different purposes. If k*l exceeds the pool, the draw is empty and says
``overflow``.

Public: ``IndexSampler``, ``IndexDraw``.

>>> from reldp.noise.streams import Streams
>>> sampler = IndexSampler(num_relations=10**9, pool_size=10**6, sample_rate=4e-9,
...                        num_negatives=2, streams=Streams(bytes(32)))
>>> sampler.draw(step=0).relation_ids.tolist()
[476513710]
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reldp._validate import as_integer, check_integer
from reldp.errors import PlanError
from reldp.sampling.binomial import BinomialCount
from reldp.sampling.distinct import distinct

if TYPE_CHECKING:
    from reldp.noise.streams import Streams

__all__ = ["IndexDraw", "IndexSampler"]

_POSITIVES = "sampling/positives"
_NEGATIVES = "sampling/negatives"
_ENDPOINTS = "sampling/ends"


@dataclass(frozen=True, kw_only=True, eq=False)
class IndexDraw:
    """The random draws of one step. Sensitive, so its text form shows none of them.

    Attributes:
        relation_ids: Relations in the batch, all different, in random order; (l,) int64.
        places: Places of the negatives in the pool, all different; (l, k) int64.
        endpoints: Endpoint that each negative is paired with; (l, k) int8 in {0, 1}.
        overflow: More negatives were needed than the pool holds; everything else is empty.
    """

    relation_ids: NDArray[np.int64] = field(repr=False)
    places: NDArray[np.int64] = field(repr=False)
    endpoints: NDArray[np.int8] = field(repr=False)
    overflow: bool


class IndexSampler:
    """Draw batches as indices.

    Args:
        num_relations: m, up to 2^48.
        pool_size: Number of entities that negatives are drawn from.
        sample_rate: Probability that one relation enters one batch, in (0, 1].
        num_negatives: k, negatives per relation; may be 0.
        streams: The run's streams.
    """

    def __init__(
        self,
        *,
        num_relations: int,
        pool_size: int,
        sample_rate: float,
        num_negatives: int,
        streams: "Streams",
    ) -> None:
        self.num_negatives = check_integer(
            "num_negatives", as_integer(num_negatives), error=PlanError
        )
        self.pool_size = check_integer("pool_size", as_integer(pool_size), error=PlanError)
        if self.pool_size < self.num_negatives:
            raise PlanError(
                f"`pool_size` must be at least the {self.num_negatives} negatives of one tuple, "
                f"got {pool_size}. Take a larger pool or fewer negatives."
            )
        self._count = BinomialCount(num_relations, sample_rate)
        self.num_relations = self._count.size
        self.sample_rate = self._count.rate
        self._streams = streams

    def draw(self, step: int, branch: int = 0) -> IndexDraw:
        """Return the random draws of one step of one branch: the same on every call."""
        positives = self._streams.stream(_POSITIVES, branch, step)
        size = self._count.draw(positives)
        overflow = self.num_negatives * size > self.pool_size
        if overflow:
            size = 0
        shape = (size, self.num_negatives)
        num_places = size * self.num_negatives
        negatives = self._streams.stream(_NEGATIVES, branch, step)
        endpoints = self._streams.stream(_ENDPOINTS, branch, step).bytes(num_places)
        return IndexDraw(
            relation_ids=distinct(positives, self.num_relations, size),
            places=distinct(negatives, self.pool_size, num_places).reshape(shape),
            endpoints=(np.frombuffer(endpoints, np.int8) & np.int8(1)).reshape(shape),
            overflow=overflow,
        )
