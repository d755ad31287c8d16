"""The mechanism audit: run the real step many times on two neighboring graphs and try to tell them apart.

For each set of gradients the mechanism runs on the graph with the entity and on the graph without it, a pilot half
to choose events and another half to judge them (`reldp.auditing.bounds`), in both directions: removal (is the
entity recognized?) and insertion (is its absence?). All bounds of one audit hold together with the stated confidence:
what may be missed is split evenly over deltas, directions, methods and designs.

The audit refutes claims; it does not prove them (docs/audit.md). Theory: sections 1 to 3.

Public: `audit_mechanism`.

>>> plan = PrivacyPlan(num_entities=12, num_relations=4, max_degree=1, num_negatives=2, sample_rate=0.4,
...                    num_steps=1, noise_multiplier=1.0, delta=0.01)
>>> audit = audit_mechanism(plan, trials=500, deltas=[0.05], key=bytes(32))
>>> audit.refuted
False
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from reldp._optional import text_packages
from reldp._validate import check, check_integer, check_number, refuse
from reldp.auditing.attacks import LikelihoodRatio, scores
from reldp.auditing.bounds import Sides, counting_bound, gaussian_bound
from reldp.auditing.designs import KEY_LABELS, OPPOSING_ELSEWHERE, ZERO_ELSEWHERE, Design
from reldp.auditing.mechanism import Parts, real_parts, run_steps
from reldp.auditing.neighbors import NeighborPair, worst_pair
from reldp.auditing.results import Bound, MechanismAudit
from reldp.errors import InputError
from reldp.graph import CappedGraph
from reldp.noise.streams import new_key
from reldp.plan import PrivacyPlan

__all__ = [
    "LEAST_TRIALS",
    "MAX_TRIALS",
    "audit_mechanism",
    "check_audit",
    "default_deltas",
    "pilot_trials",
    "steps_alone",
]

Array = npt.NDArray[np.float64]
Maker = Callable[[PrivacyPlan, CappedGraph, bytes], Parts]

_METHODS = ("counting", "gaussian")
_DIRECTIONS = ("removal", "insertion")
LEAST_TRIALS = 100
MAX_TRIALS = 10**8
_DELTAS = (1e-4, 1e-3, 1e-2, 5e-2)


@dataclass(frozen=True, eq=False)
class _Half:
    """Trials of one graph: outputs and sums along the direction.  (N, T) each."""

    outputs: Array
    sums: Array


@dataclass(frozen=True, eq=False)
class _Evidence:
    """Trials of both graphs under one design, as columns of four: pilot with and without, then judging.

    Attributes:
        design: Its name.
        scored: Every score of `reldp.auditing.attacks`, four columns each.
        sums: Sums before noise, four columns of (N, T).
        deviation: Standard deviation of the noise on each sum.
        zero_without: Whether, without the entity, every gradient is zero by design.
    """

    design: str
    scored: dict[str, list[Array]]
    sums: list[Array]
    deviation: float
    zero_without: bool


def default_deltas(plan: PrivacyPlan) -> tuple[float, ...]:
    """Return the plan's own delta and a few at which trials see more."""
    return tuple(sorted({plan.delta, *(d for d in _DELTAS if d > plan.delta)}))


def steps_alone(plan: PrivacyPlan) -> PrivacyPlan:
    """Return the plan without the release of private sizes: what an audit of steps is compared with."""
    return replace(
        plan,
        delta=plan.delta - plan.sizes_delta,
        sizes="public",
        sizes_epsilon=0.0,
        sizes_delta=0.0,
    )


def audit_mechanism(
    plan: PrivacyPlan,
    *,
    trials: int = 20_000,
    num_steps: int = 1,
    deltas: Sequence[float] | None = None,
    confidence: float = 0.99,
    key: bytes | None = None,
    designs: Sequence[Design] = (ZERO_ELSEWHERE, OPPOSING_ELSEWHERE),
    pair: NeighborPair | None = None,
    parts: Maker = real_parts,
    claimed: Callable[[float], float] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> MechanismAudit:
    """Lower bounds on epsilon from the real mechanism, against the plan's claim.

    Args:
        plan: What is claimed and run.
        trials: Trials on each graph that judge; half as many more choose the events.
        num_steps: Steps composed in one trial.
        deltas: Where to compare; `default_deltas` if None.
        confidence: With which all bounds hold together.
        key: 32 bytes for repeatable audits; from the operating system if None.
        designs: Gradients to try.
        pair: Neighboring graphs; `worst_pair` of the plan if None.
        parts: Makes the parts of a step for one graph; the real ones unless a mistake is tested.
        claimed: Epsilon claimed at a delta; the plan's PLD accountant if None.
        progress: Called with the steps done since the last call and the total number of steps.
    """
    check_audit(plan, trials, confidence)
    check_integer("num_steps", num_steps, low=1, error=InputError)
    started = time.monotonic()
    for name, given in (("deltas", deltas), ("designs", designs)):
        if given is not None and (not isinstance(given, Sequence) or not given):
            refuse(name, "a list of one or more", given, error=InputError)
    for delta in deltas or ():
        check_number("deltas", delta, above=0, below=1, error=InputError)
    with text_packages():
        import torch  # noqa: F401  # clips gradients: without it, say so before anything is computed
    chosen = default_deltas(steps_alone(plan)) if deltas is None else tuple(sorted(set(deltas)))
    graphs = worst_pair(plan) if pair is None else pair
    secret = new_key() if key is None else key
    steps = steps_alone(plan)
    claim = claimed or (lambda d: replace(steps, delta=d).epsilon(num_steps=num_steps))
    miss = (1 - confidence) / (len(chosen) * len(designs) * len(_METHODS) * len(_DIRECTIONS))
    candidates: dict[float, list[Bound]] = {delta: [] for delta in chosen}
    claims = {delta: float(claim(delta)) for delta in chosen}
    for delta, epsilon in claims.items():
        check(epsilon >= 0, f"claimed at delta {delta:g}", "0 or more", epsilon, error=InputError)
    total = len(designs) * 2 * (trials + pilot_trials(trials)) * num_steps  # on two graphs
    report = None if progress is None else partial(_report, progress, total)
    for design in designs:
        evidence = _gather(plan, graphs, design, parts, secret, trials, num_steps, report)
        for delta in chosen:
            candidates[delta] += _judge(evidence, delta, claims[delta], miss)
    return MechanismAudit(
        bounds=tuple(max(candidates[delta], key=lambda b: b.epsilon) for delta in chosen),
        num_steps=num_steps,
        trials=trials,
        confidence=confidence,
        seconds=time.monotonic() - started,
        plan=plan.to_dict(),
        plan_hash=plan.hash,
    )


def _report(progress: Callable[[int, int], None], total: int, done: int) -> None:
    progress(done, total)


def check_audit(plan: PrivacyPlan, trials: int, confidence: float) -> None:
    """Refuse too few trials, a confidence out of range, and a plan without noise."""
    check_integer("trials", trials, low=LEAST_TRIALS, high=MAX_TRIALS, error=InputError)
    check_number("confidence", confidence, low=0.5, below=1, error=InputError)
    if plan.noise_multiplier == 0:
        raise InputError(
            "`noise_multiplier` must be above 0 for an audit, got 0. There is no claim."
        )


def _subkey(key: bytes, *labels: str) -> bytes:
    """Return an independent key for one graph under one design."""
    return hashlib.blake2b("/".join(labels).encode(), key=key, digest_size=32).digest()


def pilot_trials(trials: int) -> int:
    """Return how many trials on each graph choose the events."""
    return max(trials // 2, LEAST_TRIALS)


def _gather(
    plan: PrivacyPlan,
    pair: NeighborPair,
    design: Design,
    maker: Maker,
    key: bytes,
    trials: int,
    num_steps: int,
    progress: Callable[[int], None] | None,
) -> _Evidence:
    """Run pilot and judging trials on both graphs."""
    halves: list[_Half] = []
    for side, graph in (("with", pair.with_entity), ("without", pair.without_entity)):
        made = maker(plan, graph, _subkey(key, side, KEY_LABELS.get(design.name, design.name)))
        first = 0
        for count in (pilot_trials(trials), trials):
            steps = run_steps(
                made, pair, graph, design, first=first, count=count * num_steps, progress=progress
            )
            first += count * num_steps
            shape = (count, num_steps)
            halves.append(
                _Half(
                    (steps.outputs @ design.direction).reshape(shape),
                    (steps.sums @ design.direction).reshape(shape),
                )
            )
    with_pilot, with_trials, without_pilot, without_trials = halves
    return _evidence(
        design,
        [with_pilot, without_pilot, with_trials, without_trials],
        plan.noise_multiplier * plan.clip_norm,
    )


def _evidence(design: Design, halves: list[_Half], deviation: float) -> _Evidence:
    """Scores of all trials, the likelihood ratio fitted on the pilot ones."""
    ratio = LikelihoodRatio.fit(halves[0].sums, halves[1].sums, deviation)
    scored = [scores(half.outputs, ratio) for half in halves]
    return _Evidence(
        design=design.name,
        scored={name: [column[name] for column in scored] for name in scored[0]},
        sums=[half.sums for half in halves],
        deviation=deviation,
        zero_without=not any(design.other),
    )


def _sides(columns: list[Array], direction: str) -> tuple[Sides, Sides]:
    """Pilot and judging columns as (P, Q): P is with the entity for removal, without for insertion."""
    p, q = (0, 1) if direction == "removal" else (1, 0)
    return (columns[p], columns[q]), (columns[2 + p], columns[2 + q])


def _judge(evidence: _Evidence, delta: float, claimed: float, miss: float) -> list[Bound]:
    """One bound per direction and method at one delta."""
    bounds = []
    for direction in _DIRECTIONS:
        counted = {
            name: counting_bound(*_sides(columns, direction), delta=delta, miss=miss)
            for name, columns in evidence.scored.items()
        }
        # Chosen by what the pilot trials expect, never by what the judging trials show.
        name, best = max(counted.items(), key=lambda item: item[1].expected)
        zero = evidence.zero_without
        exact = gaussian_bound(
            *_sides(evidence.sums, direction),
            deviation=evidence.deviation,
            delta=delta,
            miss=miss,
            certain=(False, zero) if direction == "removal" else (zero, False),
        )
        for method, score, value in (
            ("counting", name, best.epsilon),
            ("gaussian", exact.score, exact.epsilon),
        ):
            bounds.append(
                Bound(
                    delta=delta,
                    claimed=claimed,
                    epsilon=value,
                    direction=direction,
                    method=method,
                    score=score,
                    design=evidence.design,
                )
            )
    return bounds
