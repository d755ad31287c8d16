"""What the proof assumes of the data, shown to matter: own features, not averages over neighbors."""

from dataclasses import replace

import numpy as np
import pytest

from reldp.encoders import FeatureEncoder
from reldp.graph import EntityGraph
from reldp.noise import Streams
from reldp.sampling import TupleBatch
from tests.training.small import make_step, small_plan

NUM = 120  # the protected entity is the last: without it, all others keep their places
DEGREE = 5
CLIP = 0.5


def ring_with_one_more():
    """A ring of all but the last entity, which is related to five of them."""
    ring = [(i, (i + 1) % (NUM - 1)) for i in range(NUM - 1)]
    return ring + [(NUM - 1, 20 * i) for i in range(DEGREE)]


def averaged(features, relations):
    """Each entity's features and its neighbors', averaged: a usual way to prepare a graph."""
    total, count = features.copy(), np.ones(len(features))
    for one, other in relations:
        total[one] += features[other]
        total[other] += features[one]
        count[[one, other]] += 1
    return (total / count[:, None]).astype(np.float32)


def prepared(features, relations, average):
    values = averaged(features, relations) if average else features
    graph = EntityGraph.from_lists(list(range(len(features))), relations, features=values)
    capped = graph.promise_degrees(DEGREE)
    plan = small_plan(capped, noise_multiplier=0.0, clip_norm=CLIP, expected_batch_size=25)
    step = make_step(FeatureEncoder(6, dim=4), capped, plan)
    step.open(Streams(bytes(32)))
    return step


def total(step, batch):
    """The clipped sum of a batch, without noise."""
    return step.clipped_sum(step.clip_units(batch)).total


def moved(*, average):
    """How far removing the last entity moves the sum of a batch that does not hold it, over C."""
    features = np.random.default_rng(0).normal(size=(NUM, 6)).astype(np.float32)
    features[-1] = 40.0  # an entity that stands out
    relations = ring_with_one_more()
    whole = prepared(features, relations, average)
    without = prepared(features[:-1], [pair for pair in relations if NUM - 1 not in pair], average)
    batch = whole.draw(0, 0)
    keep = np.flatnonzero(~(batch.entities == NUM - 1).any(axis=1))
    names = ("positives", "negatives", "endpoints", "relation_ids")
    same = TupleBatch(**{name: getattr(batch, name)[keep] for name in names})
    assert len(keep) >= 10
    return float((total(whole, same) - total(without, same)).norm()) / CLIP


def test_own_features_of_others_do_not_move_when_an_entity_goes():
    assert moved(average=False) == 0.0


def test_averaged_features_break_the_bound_that_the_certificate_assumes():
    """The batch does not hold the entity, so the proof allows its sum to move by nothing at all."""
    assert moved(average=True) > 1.0


@pytest.mark.parametrize("kind", ["averaged features", "texts with names"])
def test_the_certificate_states_the_assumption(kind):
    from reldp.runs.wording import assumptions

    step = prepared(np.ones((NUM, 6), np.float32), ring_with_one_more(), average=False)
    start = {"graph": {"degree_bound": "promised"}, "noise": {"source": "secure"}, "training": {}}
    plan = replace(step._plan, noise_multiplier=1.0)  # without noise nothing is assumed
    said = [line for line in assumptions(plan, start) if "depend on that entity alone" in line]
    assert len(said) == 1
    assert {"averaged features": "averaged over adjacent entities", "texts with names": "names of"}[
        kind
    ] in said[0]
