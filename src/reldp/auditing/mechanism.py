"""Many independent steps of the real mechanism on one graph: sampler, rule, clip factors, sum, noise.

Every part is the one that training uses: the plan builds the sampler, the clipping rule and the noise, the gradient
engine's `clip_factors` scales gradients, and `add_noise` adds the noise. Only the
gradients are the auditor's (`reldp.auditing.designs`), so no network is needed. Steps of one key are independent, so
steps serve as trials. Batches of many steps go through the rule in one call: entity e of step t is shown to it as
number t * stride + e, so entities of different steps are never the same one, and a rule cannot tell.

`Parts` holds the four parts; a mistake is made by replacing one of them (tests/auditing/mistakes).

Public: `Flat`, `Parts`, `Steps`, `real_parts`, `run_steps`.

>>> from reldp.auditing.designs import ZERO_ELSEWHERE
>>> from reldp.auditing.neighbors import worst_pair
>>> plan = PrivacyPlan(num_entities=12, num_relations=4, max_degree=1, num_negatives=2, sample_rate=1.0,
...                    num_steps=1, noise_multiplier=1.0, delta=0.01)
>>> pair = worst_pair(plan)
>>> graph = pair.without_entity
>>> steps = run_steps(real_parts(plan, graph, bytes(32)), pair, graph, ZERO_ELSEWHERE, first=0, count=3)
>>> steps.sums[:, 0].tolist(), steps.sizes.tolist()
([0.0, 0.0, 0.0], [4, 4, 4])
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reldp.auditing.designs import Design
from reldp.auditing.neighbors import NeighborPair
from reldp.clipping import ClippingRule, ClipUnits
from reldp.graph import CappedGraph
from reldp.noise.gaussian import add_noise
from reldp.noise.streams import Streams
from reldp.plan import PrivacyPlan
from reldp.sampling import TupleBatch

__all__ = ["Flat", "Parts", "Steps", "clip", "real_parts", "run_steps", "units_of"]

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_PART_STEPS = 4096  # steps that go through the rule at once; bounds memory, changes nothing


@dataclass(frozen=True, kw_only=True, eq=False)
class Flat:
    """Batches of several steps, one after the other.

    Attributes:
        positives: (L, 2) entity indices.
        negatives: (L, k) entity indices.
        endpoints: (L, k) int8.
        mask: (L, k) bool.
        relation_ids: (L,) rows in the graph's relations.
        owner: (L,) the step of each tuple, from 0.
        in_relations: Whether negatives are the endpoints of other relations, one relation after the other.
        num_steps: How many steps there are, empty ones included.
    """

    positives: IntArray
    negatives: IntArray
    endpoints: npt.NDArray[np.int8]
    mask: npt.NDArray[np.bool_]
    relation_ids: IntArray
    owner: IntArray
    num_steps: int
    in_relations: bool = False

    @classmethod
    def join(cls, batches: list[TupleBatch]) -> "Flat":
        """Return the batches of consecutive steps."""
        sizes = [batch.num_tuples for batch in batches]

        def column(name: str) -> Any:
            return np.concatenate([getattr(batch, name) for batch in batches])

        return cls(
            positives=column("positives"),
            negatives=column("negatives"),
            endpoints=column("endpoints"),
            mask=column("mask"),
            relation_ids=column("relation_ids"),
            owner=np.repeat(np.arange(len(batches)), sizes),
            num_steps=len(batches),
            in_relations=any(batch.in_relations for batch in batches),
        )

    @property
    def sizes(self) -> IntArray:
        """Tuples in each step.  (num_steps,)."""
        return np.bincount(self.owner, minlength=self.num_steps)

    @property
    def stride(self) -> int:
        """One more than the largest entity index."""
        largest = [array.max(initial=0) for array in (self.positives, self.negatives)]
        return int(max(largest)) + 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """What a step is made of.

    Attributes:
        sample: Batch of a step.
        units: Clip units of the batches of many steps, entity indices as sampled.
        clip: Clipped gradients from gradients (U, d) and thresholds (U,).
        release: Outputs (T, d) from sums (T, d), sizes (T,) and the number of the first step.
        clip_norm: What the designs' gradients are measured in.
    """

    sample: Callable[[int], TupleBatch]
    units: Callable[[Flat], ClipUnits]
    clip: Callable[[Array, Array], Array]
    release: Callable[[Array, IntArray, int], Array]
    clip_norm: float = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """What steps gave. All of it is for the auditor; a run would show the outputs only.

    Attributes:
        sums: Clipped sums before noise.  (T, d)
        outputs: Sums with noise.  (T, d)
        sizes: Batch sizes.  (T,)
    """

    sums: Array
    outputs: Array
    sizes: IntArray


def units_of(rule: ClippingRule, flat: Flat, clip_norm: float) -> ClipUnits:
    """Return the rule's units and thresholds, every step on its own, entity indices as sampled."""
    offset = (flat.owner * flat.stride)[:, None]  # (L, 1)
    units = rule.units(
        flat.positives + offset,
        flat.negatives + offset,
        clip_norm=clip_norm,
        endpoints=flat.endpoints,
        mask=flat.mask,
    )
    return ClipUnits(
        entities=units.entities - offset[units.tuple_index],
        endpoints=units.endpoints,
        mask=units.mask,
        thresholds=units.thresholds,
        tuple_index=units.tuple_index,
    )


def clip(gradients: Array, thresholds: Array) -> Array:
    """Gradients times the engine's own clip factors.  (U, d), (U,) -> (U, d)."""
    import torch

    from reldp.gradients.scaling import clip_factors

    norms = torch.from_numpy(np.linalg.norm(gradients, axis=1))
    factors = clip_factors(norms, torch.from_numpy(thresholds), torch.zeros_like(norms))
    return np.asarray(gradients * factors.numpy()[:, None], dtype=np.float64)


def real_parts(plan: PrivacyPlan, graph: CappedGraph, key: bytes) -> Parts:
    """Return the plan's own parts on a graph, under one key.

    Args:
        plan: The plan; its sizes are not read, its rates are.
        graph: One of the two neighboring graphs.
        key: 32 bytes; use another key for the other graph: neighbors share no random draws.
    """
    streams = Streams(key)
    noise = plan.noise(streams, prefetch=0)

    def release(sums: Array, sizes: IntArray, first: int) -> Array:
        if noise is None:
            return sums
        total: Any = sums  # numpy's types do not meet the protocol that serves torch as well
        drawn: Any = noise.draw(first, 0, sums.size).reshape(sums.shape)
        return np.asarray(add_noise(total, drawn, standard_deviation=plan.noise_std))

    return Parts(
        sample=plan.sampler(graph, streams).sample,
        units=lambda flat: units_of(plan.clipping, flat, plan.clip_norm),
        clip=clip,
        release=release,
        clip_norm=plan.clip_norm,
    )


def _touching(
    pair: NeighborPair, graph: CappedGraph, flat: Flat, units: ClipUnits
) -> npt.NDArray[np.bool_]:
    """Which units contain the entity, or the relation, that the pair differs in.  (U,)."""
    if graph is pair.without_entity:  # where the same number may mean an entity of a public pool
        return np.zeros(units.num_units, dtype=np.bool_)
    if pair.entity is not None:
        return np.asarray(pair.holds(units.entities).any(axis=1))
    touching = flat.relation_ids == pair.relation
    if flat.in_relations:  # no two relations have the same endpoints here
        drawn = flat.negatives.reshape(len(flat.negatives), -1, 2)  # (L, k, 2)
        touching |= (drawn == graph.relations[pair.relation]).all(axis=2).any(axis=1)
    return np.asarray(touching[units.tuple_index])


def _sums(
    parts: Parts, pair: NeighborPair, graph: CappedGraph, design: Design, flat: Flat
) -> Array:
    """Clipped sum of each step.  (T, d)."""
    sums = np.zeros((flat.num_steps, design.num_dimensions))
    if flat.owner.size == 0:
        return sums
    units = parts.units(flat)
    gradients = parts.clip_norm * design.gradients(_touching(pair, graph, flat, units))
    clipped = parts.clip(gradients, units.thresholds)
    owner = flat.owner[units.tuple_index]
    for axis in range(design.num_dimensions):
        sums[:, axis] = np.bincount(owner, clipped[:, axis], minlength=flat.num_steps)
    return sums


def run_steps(
    parts: Parts,
    pair: NeighborPair,
    graph: CappedGraph,
    design: Design,
    *,
    first: int,
    count: int,
    progress: Callable[[int], None] | None = None,
) -> Steps:
    """Run consecutive steps.

    Args:
        parts: What a step is made of.
        pair: Says which units contain the entity in question.
        graph: Which of the pair's two graphs the parts were made for.
        design: The gradients.
        first: Number of the first step: steps of one key are never run twice.
        count: How many.
        progress: Called with the number of steps done since the last call.
    """
    sums, sizes = [], []
    for start in range(first, first + count, _PART_STEPS):
        stop = min(start + _PART_STEPS, first + count)
        flat = Flat.join([parts.sample(step) for step in range(start, stop)])
        sums.append(_sums(parts, pair, graph, design, flat))
        sizes.append(flat.sizes)
        if progress is not None:
            progress(stop - start)
    all_sums, all_sizes = np.concatenate(sums), np.concatenate(sizes)
    outputs = parts.release(all_sums, all_sizes, first)
    return Steps(sums=all_sums, outputs=outputs, sizes=all_sizes)
