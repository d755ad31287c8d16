"""The audit of the training step: what `Trainer` runs is run here, on graphs that differ in one entity.

What is run is `reldp.training.step.PrivateStep` itself: sampler, clipping rule, microbatches, gradient engine,
clipping, sum, noise from the streams of real steps, division by the expected batch size. The auditor brings the
graphs and the encoder (`reldp.auditing.roles`, `reldp.auditing.probe`) and reads what a run releases. Two kinds of
evidence:

* lower bounds on epsilon from counting, which believe nothing about the step, in the cases of `reldp.auditing.cases`;
* direct checks of batches, clipping and noise at the plan's own settings (`reldp.auditing.checks`).

All of them hold together with the stated confidence: what may be missed is split evenly over cases and checks. The
audit refutes claims; it does not prove them (docs/audit.md).

Public: `audit_step`, `default_workers`.

>>> plan = PrivacyPlan(num_entities=40, num_relations=20, max_degree=2, num_negatives=2, sample_rate=0.2,
...                    num_steps=10, noise_multiplier=1.0, delta=0.01)
>>> audit = audit_step(plan, trials=100, addresses=100, key=bytes(32), cases=["one other relation"])
>>> audit.refuted, [bound.case for bound in audit.bounds]
(False, ['one other relation'])
"""

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial

import numpy as np

from reldp._optional import text_packages
from reldp.auditing.audit import check_audit, pilot_trials, steps_alone
from reldp.auditing.bounds import counting_bound
from reldp.auditing.cases import KEY_LABELS as CASE_LABELS
from reldp.auditing.cases import StepCase, step_cases
from reldp.auditing.checks import (
    Check,
    batch_checks,
    clip_check,
    noise_checks,
    repetition_checks,
)
from reldp.auditing.designs import KEY_LABELS as DESIGN_LABELS
from reldp.auditing.real_step import Job, Outputs, StepSettings, run_jobs
from reldp.auditing.results import Bound
from reldp.auditing.step_results import StepAudit
from reldp.auditing.step_scores import step_scores
from reldp.errors import InputError
from reldp.noise.streams import new_key
from reldp.plan import PrivacyPlan

__all__ = ["audit_step", "default_workers"]

_Label = tuple[str, str, int]  # case, design, whether the entity is present (or the branch)

_PLAN, _CHECKS, _NOISE = "plan", "checks", "noise"
_DIRECTIONS = {"removal": (0, 1), "insertion": (1, 0)}
_KEY_LABELS = {**CASE_LABELS, **DESIGN_LABELS}
_BRANCHES = 2
# With half as many of a second branch, a generator seeded with 32 bits repeats with probability 0.989.
_FAST_ADDRESSES = 1 << 17
_MANY_TRIALS = 1000
_ADDRESSES = 16  # for each trial


def default_workers() -> int:
    """As many processes as this one may use cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def audit_step(
    plan: PrivacyPlan,
    *,
    trials: int = 1000,
    deltas: Sequence[float] | None = None,
    confidence: float = 0.99,
    key: bytes | None = None,
    settings: StepSettings | None = None,
    cases: Sequence[str] | None = None,
    addresses: int | None = None,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> StepAudit:
    """Try to refute a plan's claim by running the training step.

    Args:
        plan: What is claimed and run.
        trials: Trials on each graph of a case that judge; half as many more choose the events.
        deltas: Where to compare at the plan's own sizes; `default_deltas` if None.
        confidence: With which all bounds and checks hold together.
        key: 32 bytes for repeatable audits; from the operating system if None.
        settings: The run's settings; those of a default run if None.
        cases: Names of the cases to run, ``"checks"`` among them; all if None. Confidence is split over all
            of them in any case.
        addresses: Steps whose noise must differ; all of the plan's, within limits, if None.
        workers: Processes.
        progress: Called with steps done and all steps.
    """
    check_audit(plan, trials, confidence)
    if plan.num_negatives == 0:
        raise InputError(
            "`num_negatives` must be at least 1 to audit the training step, got 0. "
            "No loss can be trained without negatives; audit_mechanism takes such plans."
        )
    with text_packages():
        import torch  # noqa: F401  # processes would end without a word
    started = time.monotonic()
    used, steps_plan = settings or StepSettings(), steps_alone(plan)
    all_cases = step_cases(steps_plan, None if deltas is None else tuple(deltas))
    wanted = {_CHECKS, *(case.name for case in all_cases)} if cases is None else set(cases)
    jobs = _jobs(all_cases, wanted, trials, new_key() if key is None else key)
    if _CHECKS in wanted:
        jobs |= _noise_jobs(steps_plan, addresses or _addresses(steps_plan, used, trials), jobs)
    chosen = [case for case in all_cases if case.name in wanted]
    claims = [{delta: step_epsilon(case.plan, delta) for delta in case.deltas} for case in chosen]
    outputs = _run(jobs, used, workers, progress)
    miss = (1 - confidence) / (len(all_cases) + 1)  # the checks together count as a case
    judged = zip(chosen, claims, strict=True)
    return StepAudit(
        bounds=tuple(
            b for case, claim in judged for b in _judge(case, claim, outputs, trials, miss)
        ),
        checks=tuple(_checks(steps_plan, outputs, miss) if _CHECKS in wanted else []),
        trials=trials,
        confidence=confidence,
        seconds=time.monotonic() - started,
        settings=asdict(used),
        plan=plan.to_dict(),
        plan_hash=plan.hash,
    )


def _subkey(key: bytes, *labels: object) -> bytes:
    """Return an independent key for the steps of one label."""
    fixed = (_KEY_LABELS.get(str(label), str(label)) for label in labels)
    text = "/".join(("step", *fixed))
    return hashlib.blake2b(text.encode(), key=key, digest_size=32).digest()


def _jobs(
    all_cases: Sequence[StepCase], wanted: set[str], trials: int, key: bytes
) -> dict[_Label, Job]:
    """Return the jobs of the wanted cases; the checks need the plan's own graph without the entity."""
    jobs: dict[_Label, Job] = {}
    for case in all_cases:
        for present in (True, False):
            label = (case.name, case.design, present)
            is_checked = _CHECKS in wanted and case.name == _PLAN and not present
            if case.name in wanted or is_checked:
                jobs[label] = Job(
                    plan=case.plan,
                    graph=case.graph,
                    design=case.design,
                    present=present,
                    key=_subkey(key, *label),
                    count=pilot_trials(trials * case.effort) + trials * case.effort,
                )
    return jobs


def _addresses(plan: PrivacyPlan, settings: StepSettings, trials: int) -> int:
    """How many steps' noise is compared: all of the run's, within limits."""
    least = _ADDRESSES * trials
    if settings.noise_generator == "fast" and trials >= _MANY_TRIALS:
        least = _FAST_ADDRESSES
    return min(max(plan.num_steps, least), _FAST_ADDRESSES)


def _noise_jobs(plan: PrivacyPlan, count: int, jobs: dict[_Label, Job]) -> dict[_Label, Job]:
    """Return steps with empty batches at the run's addresses, in two branches of one key."""
    quiet = PrivacyPlan(
        num_entities=4 + 2 * plan.num_negatives,
        num_relations=1,
        max_degree=1,
        num_negatives=plan.num_negatives,
        sample_rate=1e-6,
        num_steps=plan.num_steps,
        clipping=plan.clipping,
        clip_norm=plan.clip_norm,
        noise_multiplier=plan.noise_multiplier,
        delta=0.01,
    )
    key = jobs[_PLAN, "zero elsewhere", False].key
    return {
        (_NOISE, "zero elsewhere", branch): Job(
            plan=quiet,
            graph="matched",
            design="zero elsewhere",
            present=False,
            key=key,
            count=count if branch == 0 else max(count // 2, 1),
            branch=branch,
            empty=True,
        )
        for branch in range(_BRANCHES)
    }


def _run(
    jobs: dict[_Label, Job],
    settings: StepSettings,
    workers: int,
    progress: Callable[[int, int], None] | None,
) -> dict[_Label, Outputs]:
    """Return the outputs of all jobs by their labels."""
    total = sum(job.count for job in jobs.values())
    report = None if progress is None else partial(_report_total, progress, total)
    ready = [replace(job, settings=settings) for job in jobs.values()]
    return dict(zip(jobs, run_jobs(ready, workers=workers, progress=report), strict=True))


def _report_total(progress: Callable[[int, int], None], total: int, done: int) -> None:
    progress(done, total)


def _judge(
    case: StepCase,
    claims: dict[float, float],
    outputs: dict[_Label, Outputs],
    trials: int,
    miss: float,
) -> list[Bound]:
    """Return the better direction's bound at every delta of a case."""
    both = [outputs[case.name, case.design, present] for present in (True, False)]
    pilots, judged = zip(
        *(_halves(side, pilot_trials(trials * case.effort)) for side in both), strict=True
    )
    score = step_scores(*pilots)
    pilot, counted = [score(side) for side in pilots], [score(side) for side in judged]
    part = miss / (len(case.deltas) * len(_DIRECTIONS))
    bounds = []
    for delta in case.deltas:
        candidates = []
        for direction, (p, q) in _DIRECTIONS.items():
            tried = {
                name: counting_bound(
                    (pilot[p][name], pilot[q][name]),
                    (counted[p][name], counted[q][name]),
                    delta=delta,
                    miss=part,
                )
                for name in pilot[0]
            }
            # Chosen by what the pilot trials expect, never by what the judging trials show.
            name, best = max(tried.items(), key=lambda item: item[1].expected)
            candidates.append(
                Bound(
                    delta=delta,
                    claimed=claims[delta],
                    epsilon=best.epsilon,
                    direction=direction,
                    method="counting",
                    score=name,
                    design=case.design,
                    case=case.name,
                )
            )
        bounds.append(max(candidates, key=lambda bound: bound.epsilon))
    return bounds


def step_epsilon(plan: PrivacyPlan, delta: float) -> float:
    """Return what one step costs at a delta, by the plan's accountant."""
    return replace(plan, delta=delta).epsilon(num_steps=1)


def _halves(outputs: Outputs, pilot: int) -> tuple[Outputs, Outputs]:
    return (
        Outputs(outputs.values[:pilot], outputs.sizes[:pilot]),
        Outputs(outputs.values[pilot:], outputs.sizes[pilot:]),
    )


def _checks(plan: PrivacyPlan, outputs: dict[_Label, Outputs], miss: float) -> list[Check]:
    """All checks, on the plan's own graph without the entity; each group has an even part of the risk."""
    still, against = (
        outputs[_PLAN, design, False] for design in ("zero elsewhere", "opposing elsewhere")
    )
    sigma, part = plan.noise_multiplier, miss / 4
    sizes = np.concatenate([still.sizes, against.sizes])
    noise = {b: outputs[_NOISE, "zero elsewhere", b].values for b in range(_BRANCHES)}
    return [
        *noise_checks(
            still.values, still.sizes, expected=plan.expected_batch_size, deviation=sigma, miss=part
        ),
        *batch_checks(
            sizes, num_relations=plan.num_relations, sample_rate=plan.sample_rate, miss=part
        ),
        clip_check(against.along, against.sizes, deviation=sigma, miss=part),
        *repetition_checks(noise, deviation=sigma, miss=part),
    ]
