"""Many steps of the training step itself, on graphs of the auditor's.

`run_job` makes a `reldp.PrivateStep` with the settings of the run (clipping rule, clip norm, noise generator,
precision, device, microbatch size) on one graph with the auditor's encoder, opens it with a key, and takes steps as
training does: draw, run, read ``grad``. It keeps what a run releases, ``grad`` times the expected batch size in clip
norms, and the realized batch size. Weights never change, so steps are independent trials.

Jobs are plain values, so that they can go to other processes (`run_jobs`).

Public to `reldp.auditing`: `Job`, `Outputs`, `StepSettings`, `run_job`, `run_jobs`.

>>> from reldp.plan import PrivacyPlan
>>> plan = PrivacyPlan(num_entities=12, num_relations=2, max_degree=1, num_negatives=2, sample_rate=1.0,
...                    num_steps=1, noise_multiplier=1e-4, delta=0.01)
>>> job = Job(plan=plan, graph="matched", design="opposing elsewhere", present=False, key=bytes(32), count=2)
>>> run_job(job).along.round(2).tolist()  # two tuples without the entity, each of norm 1
[-2.0, -2.0]
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reldp.auditing.neighbors import num_owned
from reldp.auditing.roles import Roles, crowded_pair, matched_pair, vectors
from reldp.noise.streams import Streams
from reldp.plan import PrivacyPlan

if TYPE_CHECKING:
    from reldp.sampling import TupleBatch
    from reldp.training.step import PrivateStep

__all__ = ["Job", "Outputs", "StepSettings", "run_job", "run_jobs"]

Array = npt.NDArray[np.float64]

_PART_STEPS = 1000  # steps that one process takes before it reports
_WAITING = (
    4  # parts in the queue for each process: a long audit has more parts than memory should hold
)


@dataclass(frozen=True, kw_only=True)
class StepSettings:
    """Settings of a run that decide which code its steps take.

    Attributes:
        noise_generator: ``"secure"`` or ``"fast"``.
        precision: ``"float32"`` or ``"bfloat16"``.
        microbatch_units: Clip units of a microbatch, if they were given.
        device: Where steps run.
    """

    noise_generator: str = "secure"
    precision: str = "float32"
    microbatch_units: int | None = None
    device: str = "cpu"


@dataclass(frozen=True, kw_only=True)
class Job:
    """Consecutive steps on one graph.

    Attributes:
        plan: The plan that the step executes.
        graph: ``"crowded"`` or ``"matched"``, see `reldp.auditing.roles`.
        design: ``"zero elsewhere"`` or ``"opposing elsewhere"``.
        present: Whether the graph is the one with the entity.
        key: 32 bytes, of its own for every graph and design: neighbors share no random draws.
        count: How many steps.
        first: Number of the first step.
        branch: Branch of the addresses.
        empty: Whether every step gets an empty batch, so that nothing but noise comes out.
        settings: The run's settings.
    """

    plan: PrivacyPlan
    graph: str
    design: str
    present: bool
    key: bytes = field(repr=False)
    count: int
    first: int = 0
    branch: int = 0
    empty: bool = False
    settings: StepSettings = StepSettings()


@dataclass(frozen=True, eq=False)
class Outputs:
    """What steps released, and their batch sizes.

    Attributes:
        values: ``grad`` times the expected batch size in clip norms, (steps, weights).
        sizes: Realized batch sizes, (steps,).
    """

    values: Array
    sizes: npt.NDArray[np.int64]

    @property
    def along(self) -> Array:
        """Along the direction of every gradient, (steps,)."""
        return np.asarray(self.values.sum(axis=1) / np.sqrt(self.values.shape[1]))

    @property
    def across(self) -> Array:
        """Length of what is orthogonal to that direction: noise alone, (steps,)."""
        rest = self.values - self.values.mean(axis=1, keepdims=True)
        return np.asarray(np.linalg.norm(rest, axis=1))

    @classmethod
    def join(cls, parts: Sequence["Outputs"]) -> "Outputs":
        """Return the steps of all parts, in their order."""
        return cls(
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.sizes for part in parts]),
        )


@lru_cache(maxsize=4)
def _roles(plan: PrivacyPlan, graph: str) -> Roles:
    if graph == "crowded":
        return crowded_pair(plan)
    return matched_pair(
        num_entities=plan.num_entities,
        num_relations=plan.num_relations,
        max_degree=plan.max_degree,
        num_owned=num_owned(plan),
    )


def _open_step(job: Job) -> "PrivateStep":
    """Open the training step on the job's graph, with the auditor's encoder and loss."""
    from reldp.auditing.probe import LOSS, ProbeEncoder, probe_table
    from reldp.losses import HingeLoss
    from reldp.training.config import PerformanceSettings
    from reldp.training.step import PrivateStep

    class NeighborStep(PrivateStep):
        """A step on either of two neighbors, of which the plan describes the smaller only."""

        def _check_fit(self, clip: bool) -> None:
            pass

        def _check_batch(self, batch: "TupleBatch", step: int, branch: int) -> None:
            """Accept more steps than the plan has, since each is a trial, and empty batches."""

    plan = job.plan
    roles = _roles(plan, job.graph)
    moving, still = vectors(roles, job.design, present=job.present, clip_norm=plan.clip_norm)
    table = probe_table(moving, still)
    if plan.negatives == "public":
        pool = np.zeros((plan.pool_size, moving.shape[1]))
        table = table.join(probe_table(pool, pool))
    graph = roles.pair.with_entity if job.present else roles.pair.without_entity
    encoder = ProbeEncoder(moving.shape[1]).to(job.settings.device)
    step = NeighborStep(
        encoder,
        graph,
        plan,
        loss=HingeLoss(**LOSS),
        performance=PerformanceSettings(**asdict(job.settings)),
        table=table,
    )
    step.open(Streams(job.key))
    return step


def run_job(job: Job) -> Outputs:
    """Take the job's steps, one after the other."""
    step = _open_step(job)
    plan, (weight,) = job.plan, step.parameters.values()
    values, sizes = np.empty((job.count, weight.numel())), np.empty(job.count, dtype=np.int64)
    nothing = _empty_batch(step, job.branch) if job.empty else None
    try:
        for place in range(job.count):
            number = job.first + place
            batch = step.draw(number, job.branch) if nothing is None else nothing
            report = step.run(batch, number, job.branch)
            assert weight.grad is not None, "a step leaves a gradient"
            values[place] = weight.grad.reshape(-1).double().cpu().numpy()
            sizes[place] = report.num_tuples
    finally:
        step.close()
    return Outputs(values * (plan.expected_batch_size / plan.clip_norm), sizes)


def _empty_batch(step: "PrivateStep", branch: int) -> Any:
    """Return a batch of the step that holds nothing; its plan makes others very unlikely."""
    for number in range(1000):
        batch = step.draw(number, branch)
        if not batch.num_tuples:
            return batch
    raise AssertionError("a plan of empty batches draws one")


def _parts(jobs: Sequence[Job]) -> Iterator[tuple[int, Job]]:
    """Return the jobs cut into parts of public size, with the number of the job each belongs to."""
    for number, job in enumerate(jobs):
        part_steps = 16 * _PART_STEPS if job.empty else _PART_STEPS
        for start in range(0, job.count, part_steps):
            count = min(part_steps, job.count - start)
            yield number, replace(job, first=job.first + start, count=count)


def run_jobs(
    jobs: Sequence[Job], *, workers: int = 1, progress: Callable[[int], None] | None = None
) -> list[Outputs]:
    """Return the outputs of every job; the number of processes changes nothing but the time.

    Args:
        jobs: What to run.
        workers: Processes; 1 runs everything in this one.
        progress: Called with the number of steps done since the last call.
    """
    outputs: list[dict[int, Outputs]] = [{} for _ in jobs]
    for number, first, made in _run_parts(_parts(jobs), workers):
        outputs[number][first] = made
        if progress is not None:
            progress(len(made.sizes))
    return [Outputs.join([made[first] for first in sorted(made)]) for made in outputs]


def _run_parts(
    parts: Iterator[tuple[int, Job]], workers: int
) -> Iterator[tuple[int, int, Outputs]]:
    """Yield the job's number, the first step and the outputs of every part, in any order."""
    if workers == 1:
        for number, job in parts:
            yield number, job.first, run_job(job)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_one_thread) as pool:
        waiting: dict[Future[Outputs], tuple[int, int]] = {}
        try:
            for number, job in parts:
                waiting[pool.submit(run_job, job)] = number, job.first
                if len(waiting) >= _WAITING * workers:
                    yield from _done(waiting)
            while waiting:
                yield from _done(waiting)
        finally:
            pool.shutdown(cancel_futures=True)  # what nobody waits for any more does not begin


def _done(waiting: "dict[Future[Outputs], tuple[int, int]]") -> Iterator[tuple[int, int, Outputs]]:
    """Wait for one part at least, and yield those that are done."""
    for part in wait(waiting, return_when=FIRST_COMPLETED).done:
        yield *waiting.pop(part), part.result()


def _one_thread() -> None:
    """Compute with one thread: there are as many processes as cores."""
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)
