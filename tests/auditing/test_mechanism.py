import numpy as np
import pytest
import torch

from reldp.auditing.designs import OPPOSING_ELSEWHERE, ZERO_ELSEWHERE
from reldp.auditing.mechanism import Flat, real_parts, run_steps, units_of
from reldp.auditing.neighbors import worst_pair
from reldp.gradients import PerUnitGradients
from reldp.plan import PrivacyPlan

SETTINGS = {
    "num_entities": 14, "num_relations": 6, "max_degree": 2, "num_negatives": 2, "sample_rate": 0.4,
    "num_steps": 1, "noise_multiplier": 1.5, "clip_norm": 0.5, "delta": 0.01,
}  # fmt: skip
KEY = bytes(range(32))


def run(plan, pair, graph, design, count):
    return run_steps(real_parts(plan, graph, KEY), pair, graph, design, first=0, count=count)


def sampled(plan, graph, count):
    parts = real_parts(plan, graph, KEY)
    return parts, [parts.sample(step) for step in range(count)]


@pytest.mark.parametrize("name", ["tuple", "pair", "frequency"])
def test_many_steps_at_once_get_the_units_that_each_gets_alone(name):
    plan = PrivacyPlan(**SETTINGS, clipping=name)
    _, batches = sampled(plan, worst_pair(plan).with_entity, 40)
    together = units_of(plan.clipping, Flat.join(batches), plan.clip_norm)
    alone = [
        plan.clipping.units(
            b.positives, b.negatives, clip_norm=0.5, endpoints=b.endpoints, mask=b.mask
        )
        for b in batches
        if b.num_tuples
    ]
    for field in ("entities", "endpoints", "mask", "thresholds"):
        expected = np.concatenate([getattr(units, field) for units in alone])
        np.testing.assert_array_equal(getattr(together, field), expected)


class Canary(torch.nn.Module):
    """A model whose unit gradients are the auditor's: the loss is weight times the wanted gradient."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1, bias=False)

    def losses(self, wanted):
        return lambda start, stop: self.layer(wanted[start:stop])[:, 0]


@pytest.mark.parametrize("name", ["tuple", "pair", "frequency"])
def test_sums_are_those_of_the_gradient_engine(name):
    plan = PrivacyPlan(**SETTINGS, clipping=name)
    pair = worst_pair(plan)
    parts, batches = sampled(plan, pair.with_entity, 12)
    steps = run_steps(parts, pair, pair.with_entity, OPPOSING_ELSEWHERE, first=0, count=12)
    model = Canary()
    engine = PerUnitGradients(model)
    for step, batch in enumerate(batches):
        units = plan.clipping.units(batch.positives, batch.negatives, clip_norm=0.5)
        touching = (units.entities == pair.entity).any(axis=1)
        wanted = torch.tensor(np.where(touching, 100.0, -100.0)[:, None], dtype=torch.float32)
        total = engine.clipped_sum(model.losses(wanted), units.thresholds, rows_per_unit=1)
        actual = float(total.sums["layer.weight"][0, 0])
        assert steps.sums[step, 0] == pytest.approx(actual, abs=1e-5)


def test_outputs_are_sums_plus_noise_of_the_planned_deviation():
    plan = PrivacyPlan(**SETTINGS)
    pair = worst_pair(plan)
    steps = run(plan, pair, pair.with_entity, ZERO_ELSEWHERE, 4000)
    noise = (steps.outputs - steps.sums)[:, 0]
    assert noise.std() == pytest.approx(0.75, rel=0.05)
    assert abs(np.corrcoef(noise, steps.sums[:, 0])[0, 1]) < 0.06
    assert set(np.round(steps.sums[:, 0] / 0.5).tolist()) <= {0.0, 1.0, 2.0, 3.0}


def test_empty_batches_are_steps_like_any_other():
    plan = PrivacyPlan(**{**SETTINGS, "sample_rate": 0.02})
    pair = worst_pair(plan)
    steps = run(plan, pair, pair.without_entity, OPPOSING_ELSEWHERE, 200)
    empty = steps.sizes == 0
    assert 100 < empty.sum() < 200
    assert (steps.sums[empty] == 0).all()
    assert (steps.outputs[empty] != 0).all()


def test_without_any_tuple_at_all_sums_are_zero():
    plan = PrivacyPlan(**{**SETTINGS, "sample_rate": 1e-9})
    pair = worst_pair(plan)
    steps = run(plan, pair, pair.without_entity, OPPOSING_ELSEWHERE, 3)
    assert steps.sums.tolist() == [[0.0], [0.0], [0.0]]


def test_the_entity_is_touched_as_often_as_theory_says():
    # i ~ Bin(K, gamma), j with probability k E[l] / n: mean of the shift under ZERO_ELSEWHERE.
    plan = PrivacyPlan(**SETTINGS)
    pair = worst_pair(plan)
    steps = run(plan, pair, pair.with_entity, ZERO_ELSEWHERE, 6000)
    expected = 2 * 0.4 + 2 * (6 * 0.4) / 14
    deviation = steps.sums.std() / 0.5 / np.sqrt(6000)
    assert abs(steps.sums.mean() / 0.5 - expected) < 4 * deviation


def test_a_relation_as_the_unit_pushes_alone():
    plan = PrivacyPlan(**SETTINGS, unit="relation")
    pair = worst_pair(plan)
    steps = run(plan, pair, pair.with_entity, ZERO_ELSEWHERE, 2000)
    assert set(np.round(steps.sums[:, 0] / 0.5).tolist()) == {0.0, 1.0}
    assert steps.sums.mean() / 0.5 == pytest.approx(0.4, abs=0.05)


def test_a_public_entity_with_the_number_of_the_absent_one_does_not_push():
    plan = PrivacyPlan(**SETTINGS, negatives="public", pool_size=20)
    pair = worst_pair(plan)
    assert (run(plan, pair, pair.without_entity, ZERO_ELSEWHERE, 200).sums == 0).all()
