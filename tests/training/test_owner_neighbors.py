"""An owner with several entities leaves: how far the real step's sum moves (theory.md 2.3).

With all other draws the same, the sum moves by at most i + j clip norms: i sampled relations touch an
entity of the owner, and j is 1 if another tuple has one as a negative. Other tuples do not move at all,
whatever the types of their relations. The control draws negatives among entities: then one owner is a
negative of several tuples, and the sum moves further.
"""

import numpy as np
import pytest
import torch

from reldp.encoders import FeatureEncoder
from reldp.graph import EntityGraph
from reldp.noise import Streams
from reldp.sampling import TupleBatch
from reldp.sampling.sampler import TupleSampler
from tests.training.small import make_step, small_plan, some_units

torch.set_num_threads(1)

COUNT, OWNED = 40, 5  # entities, and those of the owner that leaves: the last ones


def owned_graph(*, typed: bool, alike: bool, seed: int):
    """A ring in which the last entities have one owner, and some others share owners too."""
    rng = np.random.default_rng(seed)
    features = np.ones((COUNT, 6)) if alike else rng.normal(size=(COUNT, 6))
    features[-OWNED:, 3:] *= -2.0
    owner = [None if i % 3 else f"pair {i // 6}" for i in range(COUNT - OWNED)] + ["u"] * OWNED
    ring = [(i, (i + 1) % COUNT) for i in range(COUNT)]
    kinds = [("likes", "knows")[i % 2] for i in range(COUNT)] if typed else None
    graph = EntityGraph.from_lists(
        list(range(COUNT)), ring, features=features.astype(np.float32), owner=owner, types=kinds
    )
    return graph.promise_degrees(OWNED + 1)


def opened(capped, seed, **settings):
    plan = small_plan(
        capped, num_negatives=2, expected_batch_size=4.0, noise_multiplier=4.0, clip_norm=1e-3
    )
    step = make_step(FeatureEncoder(6, dim=4, seed=seed), capped, plan, **settings)
    step.open(Streams(bytes([seed]) * 32))
    return plan, step


def movement(plan, step, capped, batch):
    """(i, j, how far the sum moves in clip norms, whether the other tuples have the same bits)."""
    units = plan.clipping.units(
        batch.positives,
        batch.negatives,
        endpoints=batch.endpoints,
        mask=batch.mask,
        clip_norm=plan.clip_norm,
        types=batch.types,
    )
    u = capped.owners[-1]
    touching = (capped.owners[batch.positives] == u).any(axis=1)
    negative = (capped.owners[batch.negatives] == u).any(axis=1) & ~touching
    holds = touching | negative
    parts = [np.arange(len(holds)), np.flatnonzero(~holds), np.flatnonzero(holds)]
    whole, others, alone = (step.clipped_sum(some_units(units, part)).total for part in parts)
    moved = float((whole - others).norm()) * plan.grid / plan.clip_norm
    return touching.sum(), negative.sum(), moved, bool((whole - others == alone).all())


def by_entity(capped):
    """A sampler that is wrong for owners: the same graph without them."""
    graph = capped.graph
    plain = EntityGraph(
        entities=graph.entities.drop_columns("owner"),
        relations=graph.relations,
        relation_types=graph.relation_types,
        type_names=graph.type_names,
    )
    return TupleSampler(
        plain.promise_degrees(COUNT), sample_rate=0.1, num_negatives=2, streams=Streams(bytes(32))
    )


def moves(capped, plan, step, sampler, steps=60):
    found = []
    for number in range(steps):
        batch: TupleBatch = sampler.sample(number)
        if batch.num_tuples:
            found.append(movement(plan, step, capped, batch))
    return found


@pytest.mark.parametrize(
    ("typed", "settings"),
    [(False, {}), (False, {"loss": "hinge"}), (True, {}), (True, {"loss": "distmult"})],
)
def test_one_owner_moves_the_sum_by_its_relations_and_one_negative(typed, settings):
    seen = set()
    for alike in (False, True):
        capped = owned_graph(typed=typed, alike=alike, seed=3)
        plan, step = opened(capped, 3, **settings)
        assert plan.unit == "owner"
        for i, j, moved, others_stay in moves(
            capped, plan, step, plan.sampler(capped, Streams(bytes(32)))
        ):
            assert j <= 1
            assert moved <= i + j
            assert others_stay
            seen.add((min(i, 2), j))
        step.close()
    assert {(0, 0), (0, 1), (1, 0), (1, 1)} <= seen


def test_negatives_that_are_drawn_by_entity_move_it_further():
    capped = owned_graph(typed=False, alike=True, seed=3)
    plan, step = opened(capped, 3, score="dot")
    found = moves(capped, plan, step, by_entity(capped), steps=120)
    step.close()
    assert max(j for _, j, _, _ in found) >= 2
    assert max(moved - (i + 1) for i, _, moved, _ in found) > 0.5
