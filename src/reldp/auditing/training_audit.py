"""The training audit: train once with canaries and guess, from the encoder alone, which of them were in.

Black box: the auditor sees what a run releases, nothing of its inside. Canaries (`reldp.auditing.canaries`) are
scored by how much closer the trained encoder brings them to their partners than to other canaries' partners,
compared with a reference encoder that has not seen the data. The most and least suspicious are guessed "in" and
"out"; how many guesses are right bounds epsilon (`reldp.auditing.one_run`). Several numbers of guesses are tried; all
bounds hold together with the stated confidence.

Trains through a function that it is given, and imports no trainer. The outcome is sensitive: the copy is a further run
on the private graph, whose epsilon no certificate counts, and features of canaries are as long as the graph's usually
are, which is read off without noise.

Public: `TrainingAudit`, `audit_training`, `Embed`, `Train`. Public to `reldp.auditing`: `CanaryCopy`, `canary_copy`,
`audit_copy`.

>>> curve = roc(np.array([3.0, 2.0, 1.0, 0.0]), np.array([True, True, False, False]))
>>> curve["auc"]
1.0
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reldp._progress import tick
from reldp.auditing.canaries import Canaries, insert_canaries
from reldp.auditing.one_run import curve_bound, guessing_bound, is_too_good, profile_curve
from reldp.errors import InputError
from reldp.graph import CappedGraph, EntityGraph
from reldp.plan import PrivacyPlan

__all__ = [
    "CanaryCopy",
    "Embed",
    "Train",
    "TrainingAudit",
    "audit_copy",
    "audit_training",
    "canary_copy",
    "roc",
]

Array = npt.NDArray[np.float64]
Embed = Callable[[EntityGraph], npt.NDArray[np.floating[Any]]]  # (n, dim) embeddings of a graph
Train = Callable[[CappedGraph, PrivacyPlan], Embed]

_SHARES = (0.1, 0.25, 0.5, 1.0)  # of the canaries that are guessed about
_JUDGING = "judging canaries"
_LOW_RATES = (0.01, 0.1)
_PROFILE_DELTAS = (1e-3, 1e-2, 0.05, 0.1, 0.2, 0.4)


@dataclass(frozen=True, kw_only=True)
class TrainingAudit:
    """The outcome of `audit_training`.

    Attributes:
        epsilon: Lower bound on epsilon at delta from (epsilon, delta) alone.
        curve_epsilon: The same if the trade-off curve is a Gaussian one; larger.
        claim_refuted: Whether the guesses are too good for the claimed curve, or epsilon exceeds the claim.
        claimed: Epsilon that the accountant claims for the audited run.
        delta: The delta of the claim.
        guesses: How many canaries were guessed about, in the best of the attempts.
        right: How many of those guesses were right.
        num_canaries: Number of canaries, each in the graph with probability 1/2.
        attack: AUC and true-positive rates of the membership attack.
        confidence: All bounds together hold with this probability.
        seconds: Training included.
        plan: The plan of the audited copy, as plain values.
    """

    epsilon: float
    curve_epsilon: float
    claim_refuted: bool
    claimed: float
    delta: float
    guesses: int
    right: int
    num_canaries: int
    attack: dict[str, float]
    confidence: float
    seconds: float
    plan: dict[str, Any]

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted."""
        return self.claim_refuted

    @property
    def verdict(self) -> str:
        """One line for people."""
        outcome = (
            f"one run with {self.num_canaries:,} canaries, {self.right:,} of {self.guesses:,} guesses "
            f"right, AUC {self.attack['auc']:.3f}; epsilon is at least {self.epsilon:.3g} "
            f"({self.curve_epsilon:.3g} on a Gaussian curve) at delta {self.delta:g}; "
            f"the claim is {self.claimed:.3g}"
        )
        if self.refuted:
            return f"REFUTED: {outcome}, and its trade-off curve does not allow such guesses."
        return f"Consistent: {outcome}."

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        summary = {
            "kind": "training",
            "sensitive": True,
            "refuted": self.refuted,
            "verdict": self.verdict,
        }
        return {**asdict(self), **summary}


@dataclass(frozen=True, kw_only=True, eq=False)
class CanaryCopy:
    """What is trained for an audit: the graph with canaries, and the plan for it.

    Attributes:
        canaries: The canaries, and which of them are in the graph.
        graph: The graph with canaries.
        plan: The audited plan with the sizes of that graph.
    """

    canaries: Canaries
    graph: CappedGraph
    plan: PrivacyPlan


def audit_training(
    capped: CappedGraph,
    plan: PrivacyPlan,
    train: Train,
    *,
    reference: Embed,
    num_canaries: int = 200,
    degree: int | None = None,
    seed: int = 0,
    confidence: float = 0.95,
) -> TrainingAudit:
    """Train one copy with canaries and bound epsilon from it. The copy is for testing: delete it.

    Args:
        capped: The training graph.
        plan: The plan to audit. Public sizes become those of the graph with canaries, bounds are widened by the
            largest number of relations that canaries add, and everything else is kept.
        train: Trains on a graph as a plan says, and returns how to embed with what came out.
        reference: Embeds with an encoder that has not seen the data, such as the starting point.
        num_canaries: Number of canaries, each in the graph with probability 1/2.
        degree: Relations of each canary; the plan's max_degree if None.
        seed: Seed of the random draws and names.
        confidence: Probability with which all bounds hold together.
    """
    if not 0.5 <= confidence < 1:
        raise InputError(f"`confidence` must lie in [0.5, 1), got {confidence!r}.")
    copy = canary_copy(capped, plan, num_canaries=num_canaries, degree=degree, seed=seed)
    return audit_copy(copy, train, reference=reference, confidence=confidence)


def canary_copy(
    capped: CappedGraph,
    plan: PrivacyPlan,
    *,
    num_canaries: int = 200,
    degree: int | None = None,
    seed: int = 0,
) -> CanaryCopy:
    """Return what `audit_training` trains, for the same arguments.

    Raises:
        InputError: The plan cannot be audited with canaries, or an argument is out of range.
    """
    if plan.unit == "relation" or plan.noise_multiplier == 0:
        raise InputError(
            "`plan` must protect entities or owners with noise for this audit, "
            f"got unit {plan.unit!r} and noise {plan.noise_multiplier!r}."
        )
    chosen = plan.max_degree if degree is None else degree
    if chosen > plan.max_degree:
        raise InputError(f"`degree` must be at most max_degree {plan.max_degree}, got {chosen}.")
    canaries = insert_canaries(
        capped.to_graph(), num_canaries=num_canaries, degree=chosen, seed=seed
    )
    with_canaries = canaries.graph.promise_degrees(plan.max_degree)
    copy = _copy_of(plan, with_canaries, num_canaries * chosen)
    return CanaryCopy(canaries=canaries, graph=with_canaries, plan=copy)


def audit_copy(
    copy: CanaryCopy, train: Train, *, reference: Embed, confidence: float = 0.95
) -> TrainingAudit:
    """Train a copy and bound epsilon from it; the arguments are those of `audit_training`."""
    started = time.monotonic()
    embed = train(copy.graph, copy.plan)
    scores = margins(copy.canaries, embed) - margins(copy.canaries, reference)
    return _judged(scores, copy.canaries.included, copy.plan, confidence, started)


def _copy_of(plan: PrivacyPlan, capped: CappedGraph, more_relations: int) -> PrivacyPlan:
    """Return the plan with the sizes of the graph with canaries.

    Where the plan holds bounds, so does the copy: its epsilon goes into the ledger, so it must not follow from exact
    sizes. Canaries only add entities, and at most `more_relations`. Nobody releases the sizes of the graph with
    canaries: released bounds are declared ones for the copy, whose epsilon has no part for them.
    """
    if plan.sizes != "public":
        wider: dict[str, Any] = {"num_relations": plan.num_relations + more_relations}
        if plan.sizes == "private":
            wider |= {"sizes": "declared", "sizes_epsilon": 0.0, "sizes_delta": 0.0}
        return PrivacyPlan.from_dict({**plan.to_dict(), **wider})
    sizes: dict[str, Any] = {
        "num_entities": capped.num_units,
        "num_relations": capped.num_relations,
    }
    if plan.negatives == "entities":
        sizes["pool_size"] = capped.num_units
    if plan.negatives == "relations":
        sizes["pool_size"] = capped.num_relations
    if plan.negatives == "unprotected":
        sizes["pool_size"] = int(np.count_nonzero(~capped.protected_units))
    return PrivacyPlan.from_dict({**plan.to_dict(), **sizes})


def margins(canaries: Canaries, embed: Embed) -> Array:
    """Return the mean similarity of each canary to its partners, less that to all other partners.  (c,)."""
    count, degree = canaries.num_canaries, canaries.degree
    embeddings = np.asarray(embed(canaries.scoring), dtype=np.float64)
    wanted = canaries.scoring.num_entities
    if embeddings.ndim != 2 or len(embeddings) != wanted or not np.isfinite(embeddings).all():
        raise InputError(
            f"`train` and `reference` must embed {wanted:,} entities in finite vectors, got shape {embeddings.shape} "
            "or values that are not finite. Nothing follows from the canaries then."
        )
    embeddings = embeddings / np.maximum(np.linalg.norm(embeddings, axis=1, keepdims=True), 1e-12)
    similar = embeddings[:count] @ embeddings[count:].T  # (c, c * degree)
    blocks = similar.reshape(count, count, degree).mean(axis=2)  # (c, c)
    to_partners = np.diag(blocks)
    to_other_partners = (blocks.sum(axis=1) - to_partners) / max(count - 1, 1)
    return np.asarray(to_partners - to_other_partners)


def roc(scores: Array, included: npt.NDArray[np.bool_]) -> dict[str, float]:
    """AUC (ties count half) and true-positive rates at low false-positive rates."""
    inside, outside = scores[included], scores[~included]
    if inside.size == 0 or outside.size == 0:
        return {"auc": 0.5, **{f"tpr_at_fpr_{rate:g}": 0.0 for rate in _LOW_RATES}}
    above = (inside[:, None] > outside).mean() + 0.5 * (inside[:, None] == outside).mean()
    rates = {"auc": float(above)}
    for rate in _LOW_RATES:
        allowed = int(rate * outside.size)
        threshold = np.sort(outside)[::-1][min(allowed, outside.size - 1)]
        rates[f"tpr_at_fpr_{rate:g}"] = float((inside > threshold).mean())
    return rates


def _right(scores: Array, included: npt.NDArray[np.bool_], guesses: int) -> int:
    """Right guesses when the highest half is called in and the lowest half out."""
    order = np.argsort(scores, kind="stable")
    high = guesses // 2
    low = guesses - high
    called_in, called_out = order[order.size - high :], order[:low]
    return int(included[called_in].sum() + (~included[called_out]).sum())


def _judged(
    scores: Array,
    included: npt.NDArray[np.bool_],
    plan: PrivacyPlan,
    confidence: float,
    started: float,
) -> TrainingAudit:
    """Bounds from every number of guesses, the best of them reported."""
    count = scores.size
    deltas = sorted({plan.delta, *(d for d in _PROFILE_DELTAS if d > plan.delta)})
    num_parts = len(deltas) + len(_SHARES)
    points = []
    for place, delta in enumerate(deltas):
        tick(_JUDGING, place, num_parts)
        points.append((PrivacyPlan.from_dict({**plan.to_dict(), "delta": delta}).epsilon(), delta))
    claimed, curve = points[0][0], profile_curve(points)
    miss = (1 - confidence) / (3 * len(_SHARES))  # three kinds of bound for each number of guesses
    best, best_curve, refuted, used, hits = 0.0, 0.0, False, count, 0
    for place, share in enumerate(_SHARES):
        tick(_JUDGING, len(deltas) + place, num_parts)
        guesses = max(1, round(share * count))
        right = _right(scores, included, guesses)
        numbers = {"canaries": count, "guesses": guesses, "right": right}
        epsilon = guessing_bound(**numbers, delta=plan.delta, miss=miss)
        best_curve = max(best_curve, curve_bound(**numbers, delta=plan.delta, miss=miss))
        refuted = refuted or epsilon > claimed or is_too_good(**numbers, curve=curve, miss=miss)
        if epsilon >= best:
            best, used, hits = epsilon, guesses, right
    tick(_JUDGING, num_parts, num_parts)
    return TrainingAudit(
        epsilon=best,
        curve_epsilon=best_curve,
        claim_refuted=refuted,
        claimed=claimed,
        delta=plan.delta,
        guesses=used,
        right=hits,
        num_canaries=count,
        attack=roc(scores, included),
        confidence=confidence,
        seconds=time.monotonic() - started,
        plan=plan.to_dict(),
    )
