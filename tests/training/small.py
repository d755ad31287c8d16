"""A small graph, plan and encoder that train in a second, and are no poor plan."""

import numpy as np

from reldp.clipping import ClipUnits
from reldp.encoders import FeatureEncoder
from reldp.graph import EntityGraph
from reldp.plan import PrivacyPlan
from reldp.training.chosen_loss import relation_loss
from reldp.training.config import TrainingConfig
from reldp.training.step import PrivateStep

NUM_ENTITIES = 300
DIM = 6


def small_graph(*, protected=None, types=None, owner=None, seed=0):
    """A ring of entities in the plane, neighbors related, six noisy features each."""
    generator = np.random.default_rng(seed)
    angle = np.arange(NUM_ENTITIES) * 2 * np.pi / NUM_ENTITIES
    features = generator.normal(size=(NUM_ENTITIES, DIM)).astype(np.float32)
    features[:, 0] += 2 * np.cos(angle)
    features[:, 1] += 2 * np.sin(angle)
    ring = [(i, (i + step) % NUM_ENTITIES) for i in range(NUM_ENTITIES) for step in (1, 2)]
    return EntityGraph.from_lists(
        list(range(NUM_ENTITIES)),
        ring,
        features=features,
        protected=protected,
        types=types,
        owner=owner,
    )


def small_plan(capped, **settings):
    """A plan with an epsilon below ten."""
    chosen = {
        "sizes": "public",
        "num_negatives": 3,
        "expected_batch_size": 20.0,
        "num_steps": 12,
        "noise_multiplier": 2.0,
        "delta": 1e-4,
        **settings,
    }
    return PrivacyPlan.for_graph(capped, **chosen)


def small_encoder(**settings):
    return FeatureEncoder(DIM, **{"hidden": (5,), "dim": 4, **settings})


TYPES = ("knows", "likes", "owns")


def small_types(count=2 * NUM_ENTITIES):
    """Types of the small graph's relations, by turns."""
    return [TYPES[number % 3] for number in range(count)]


def small_parts(types=None, **plan):
    """Encoder, capped graph and plan."""
    capped = small_graph(types=types).promise_degrees(4)
    return small_encoder(), capped, small_plan(capped, **plan)


def make_step(encoder, capped, plan, *, pool=None, **settings):
    """The private step that a trainer with these settings takes."""
    config = TrainingConfig.make(**settings)
    return PrivateStep(
        encoder,
        capped,
        plan,
        loss=relation_loss(
            config.learning,
            negatives=plan.negatives,
            type_names=capped.type_names,
            dim=encoder.dim,
        ),
        clip=config.learning.clip,
        performance=config.performance,
        pool=pool,
    )


def some_units(units, places):
    """Some of the clip units; `ClipUnits.take` would refuse to leave any out."""
    names = ("entities", "endpoints", "mask", "thresholds", "tuple_index", "types")
    values = {name: getattr(units, name) for name in names}
    return ClipUnits(**{n: None if value is None else value[places] for n, value in values.items()})
