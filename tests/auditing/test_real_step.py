"""Jobs run the training step as training runs it: the same batches, sums by hand, noise at real addresses."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch

from reldp.auditing.probe import NUM_WEIGHTS
from reldp.auditing.real_step import Job, Outputs, StepSettings, run_job, run_jobs
from reldp.noise import GaussianNoise, Streams
from reldp.plan import PrivacyPlan
from reldp.sampling import TupleSampler
from reldp.training.step import PrivateStep

NOTHING = np.zeros(NUM_WEIGHTS)
KEY = bytes(range(32))


def plan_of(**changes):
    settings = {
        "num_entities": 80, "num_relations": 8, "max_degree": 2, "num_negatives": 2,
        "sample_rate": 0.5, "num_steps": 20, "noise_multiplier": 1.0, "delta": 0.01,
        "clip_norm": 0.1,
    }  # fmt: skip
    return PrivacyPlan(**{**settings, **changes})


def job_of(plan=None, **changes):
    settings = {
        "graph": "matched",
        "design": "zero elsewhere",
        "present": True,
        "key": KEY,
        "count": 12,
    }
    return Job(plan=plan or plan_of(), **{**settings, **changes})


def own_tuples(job):
    """How many tuples of each step hold the entity, drawn without the step."""
    from reldp.auditing.real_step import _roles

    pair = _roles(job.plan, job.graph).pair
    sampler = TupleSampler(
        pair.with_entity, sample_rate=0.5, num_negatives=2, streams=Streams(job.key)
    )
    batches = [sampler.sample(step) for step in range(job.count)]
    return np.array([(batch.entities == pair.entity).any(axis=1).sum() for batch in batches])


def test_without_noise_to_speak_of_a_step_counts_the_entitys_tuples():
    job = job_of(plan_of(noise_multiplier=1e-5))
    found = run_job(job)
    expected = own_tuples(job)
    assert len(set(expected.tolist())) > 1
    assert np.allclose(found.along, expected, atol=0.01)
    assert np.allclose(found.across, 0, atol=0.01)


def test_the_noise_is_that_of_the_runs_addresses():
    job = job_of(present=False, first=5, count=3, branch=2)
    found = run_job(job).values
    with GaussianNoise(Streams(KEY)) as noise:
        drawn = [noise.draw_for(NOTHING.data, step, 2) for step in (5, 6, 7)]
    assert np.allclose(found, drawn, atol=1e-5)


def test_empty_batches_leave_noise_alone():
    found = run_job(job_of(plan_of(sample_rate=1e-9), empty=True, count=4))
    assert not found.sizes.any()
    with GaussianNoise(Streams(KEY)) as noise:
        assert np.allclose(found.values[3], noise.draw_for(NOTHING.data, 3, 0), atol=1e-5)


def test_a_graph_without_empty_batches_has_none_to_give():
    with pytest.raises(AssertionError, match="a plan of empty batches"):
        run_job(job_of(plan_of(sample_rate=1.0), empty=True))


def test_jobs_cut_into_pieces_are_the_same_steps(monkeypatch):
    whole = run_jobs([job_of(count=7), job_of(design="opposing elsewhere", count=3)])
    monkeypatch.setattr("reldp.auditing.real_step._PART_STEPS", 2)
    done = []
    cut = run_jobs(
        [job_of(count=7), job_of(design="opposing elsewhere", count=3)], progress=done.append
    )
    assert done == [2, 2, 2, 1, 2, 1]
    for one, other in zip(whole, cut, strict=True):
        assert np.array_equal(one.values, other.values)
        assert np.array_equal(one.sizes, other.sizes)


class _Threads(ThreadPoolExecutor):
    """A pool that takes the arguments of a pool of processes, and counts the parts that it was given."""

    submitted: ClassVar[list[int]] = []

    def __init__(self, workers, **more):
        super().__init__(workers)

    def submit(self, run, job):
        self.submitted.append(job.first)
        return super().submit(run, job)


def test_a_long_audit_does_not_queue_all_of_its_parts_before_the_first_is_done(monkeypatch):
    whole = run_jobs([job_of(count=15)])[0]
    monkeypatch.setattr("reldp.auditing.real_step._PART_STEPS", 1)
    monkeypatch.setattr("reldp.auditing.real_step._WAITING", 2)
    monkeypatch.setattr("reldp.auditing.real_step.ProcessPoolExecutor", _Threads)
    queued = []
    cut = run_jobs(
        [job_of(count=15)], workers=2, progress=lambda done: queued.append(len(_Threads.submitted))
    )[0]
    assert queued[0] == 2 * 2
    assert queued[-1] == len(queued) == 15
    assert np.array_equal(whole.values, cut.values)


def test_the_settings_reach_the_step(monkeypatch):
    seen = []
    right = PrivateStep.__init__

    def watched(self, *parts, performance, **given):
        seen.append(performance)
        right(self, *parts, performance=performance, **given)

    monkeypatch.setattr(PrivateStep, "__init__", watched)
    settings = StepSettings(noise_generator="fast", precision="bfloat16", microbatch_units=2)
    run_job(replace(job_of(count=1), settings=settings))
    (used,) = seen
    assert (used.noise_generator, used.precision, used.microbatch_units) == ("fast", "bfloat16", 2)


def test_outputs_by_hand():
    outputs = Outputs(np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([2, 3]))
    assert np.allclose(outputs.along, [2**0.5, 0])
    assert np.allclose(outputs.across, [0, 2**0.5])
    assert Outputs.join([outputs, outputs]).sizes.tolist() == [2, 3, 2, 3]


class NoNoiseWhenEmpty(PrivateStep):
    def run(self, batch, step, branch):
        report = super().run(batch, step, branch)
        if not batch.num_tuples:
            for parameter in self.parameters.values():
                parameter.grad = torch.zeros_like(parameter)
        return report


class DividedByTheBatch(PrivateStep):
    def run(self, batch, step, branch):
        report = super().run(batch, step, branch)
        for parameter in self.parameters.values():
            parameter.grad *= self._plan.expected_batch_size / max(batch.num_tuples, 1e-3)
        return report


@pytest.mark.parametrize("kind", [NoNoiseWhenEmpty, DividedByTheBatch])
def test_a_step_whose_noise_depends_on_the_batch_is_refuted(kind, monkeypatch):
    from reldp.auditing import audit_step

    monkeypatch.setattr("reldp.training.step.PrivateStep", kind)
    plan = plan_of(sample_rate=0.2)
    audit = audit_step(plan, trials=200, addresses=100, key=KEY, cases=["checks"])
    assert audit.refuted, audit.verdict
    assert "noise deviation" in audit.verdict


@pytest.mark.parametrize("graph", ["matched", "crowded"])
def test_a_step_counts_the_tuples_of_an_owner_once_each(graph):
    """Owner and negatives of its several entities, in the real step: at most one tuple beyond its relations."""
    from reldp.auditing.real_step import _roles

    plan = plan_of(noise_multiplier=1e-5, unit="owner", num_relation_types=2)
    job = job_of(plan, graph=graph, count=30)
    pair = _roles(plan, graph).pair
    assert pair.num_owned == 3
    sampler = plan.sampler(pair.with_entity, Streams(job.key))
    expected = []
    for step in range(job.count):
        batch = sampler.sample(step)
        positive = pair.holds(batch.positives).any(axis=1)
        negative = pair.holds(batch.negatives).any(axis=1)
        assert (negative & ~positive).sum() <= 1
        expected.append((positive | negative).sum())
    assert len(set(expected)) > 1
    assert np.allclose(run_job(job).along, expected, atol=0.01)
