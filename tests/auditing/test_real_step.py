"""The training step itself, whole, as training runs it: audited as a black box on two neighbouring graphs.

A linear encoder of one weight and a hinge loss give every tuple that holds the entity's relation a gradient far above
the clip norm, and every tuple without the entity none. What is judged is what the step leaves in ``grad``.
"""

import numpy as np
import pytest
import torch

from reldp.auditing.bounds import counting_bound
from reldp.encoders import FeatureEncoder
from reldp.graph import EntityGraph
from reldp.noise.streams import Streams
from reldp.plan import PrivacyPlan
from reldp.training.config import TrainingConfig
from reldp.training.step import PrivateStep

ENTITY = 20  # the last
OTHERS = [(3, 4), (5, 6)]
CONFIG = TrainingConfig(loss="hinge", score="dot", temperature=1.0, margin=1e6)
PILOT, TRIALS = 200, 400


def graph_of(present):
    """Only the entity and its three partners have features, so only its relations teach anything."""
    count = ENTITY + present
    features = np.zeros((count, 1), np.float32)
    features[:3] = 1.0
    features[ENTITY:] = -1000.0
    own = [(ENTITY, i) for i in range(3)] if present else []
    protected = [i == ENTITY for i in range(count)]
    graph = EntityGraph.from_lists(
        list(range(count)), OTHERS + own, features=features, protected=protected
    )
    return graph.promise_degrees(3)


def plan_of(graph, noise):
    return PrivacyPlan(
        num_entities=graph.num_entities, num_relations=graph.num_relations, max_degree=3,
        num_negatives=1, sample_rate=0.3, num_steps=1, noise_multiplier=noise, clip_norm=0.5,
        delta=0.05,
    )  # fmt: skip


def noisy_sums(present, key, count, kind, noise):
    """Noisy sums in clip norms, as many steps as asked for; weights never change."""
    graph = graph_of(present)
    plan = plan_of(graph, noise)
    encoder = FeatureEncoder(1, bias=False)
    step = kind(encoder, graph, plan, CONFIG)
    step.open(Streams(bytes([key]) * 32))
    (parameter,) = step.parameters.values()
    found = []
    for number in range(count):
        step.run(step.draw(number, 0), number, 0)
        found.append(float(parameter.grad) * plan.expected_batch_size / plan.clip_norm)
    step.close()
    return np.array(found)


def audited(kind, seed, noise):
    """The largest bound of both directions, half of the risk each, and the claim."""
    with_entity = np.abs(noisy_sums(True, 2 * seed, PILOT + TRIALS, kind, noise))
    without = np.abs(noisy_sums(False, 2 * seed + 1, PILOT + TRIALS, kind, noise))
    found = [
        counting_bound((p[:PILOT], q[:PILOT]), (p[PILOT:], q[PILOT:]), delta=0.05, miss=0.005)
        for p, q in ((with_entity, without), (without, with_entity))
    ]
    return max(bound.epsilon for bound in found), plan_of(graph_of(True), noise).epsilon()


class NoNoiseWhenEmpty(PrivateStep):
    def run(self, batch, step, branch):
        if batch.num_tuples:
            return super().run(batch, step, branch)
        for parameter in self.parameters.values():
            parameter.grad = torch.zeros_like(parameter)
        return None


class UnclippedSum(PrivateStep):
    def _thresholds(self, units):
        return np.full(units.num_units, 1e9)


class DividedByTheBatch(PrivateStep):
    def run(self, batch, step, branch):
        report = super().run(batch, step, branch)
        for parameter in self.parameters.values():
            parameter.grad *= self._plan.expected_batch_size / max(batch.num_tuples, 1e-3)
        return report


@pytest.mark.parametrize("seed", range(3))
def test_the_step_that_training_takes_is_consistent(seed):
    found, claimed = audited(PrivateStep, seed, noise=4.0)
    assert found <= claimed


def test_with_little_noise_the_entity_is_seen():
    found, claimed = audited(PrivateStep, 3, noise=0.7)
    assert 0.5 < found <= claimed


@pytest.mark.parametrize("kind", [NoNoiseWhenEmpty, UnclippedSum, DividedByTheBatch])
def test_a_step_with_a_mistake_is_refuted(kind):
    found, claimed = audited(kind, 5, noise=4.0)
    assert found > claimed
