"""A search for the batch in which one entity moves the clipped sum most.

Works from nothing but a rule's units and thresholds, so a *new* rule's claimed profile is attacked, not only the known
ones. A batch is legal when degrees stay within K, relations differ and no entity is a negative twice. Take the entity
out: its i tuples go, and where it was a negative (j = 1) another entity stands in. With gradients of the auditor's
choice the sum then moves by exactly

    sum of thresholds of units that went, + both thresholds of units whose members changed,
    + |threshold before - threshold after| of all other units,

reached when every gradient is long and points the right way (triangle inequality). Structured families come first
(stars, stars with tails, overlapping negatives), then local search from the best of them and from nothing.
Theory: sections 2 and 2.1.

Public: `Batch`, `Finding`, `search_neighbors`, `claimed_shift`, `movement`, `families`.

>>> from reldp.clipping import get_rule
>>> found = search_neighbors(get_rule("frequency"), max_degree=5, num_negatives=0, evaluations=50, seed=0)
>>> found.moved, found.claimed  # the counterexample of theory.md 2.1
(1.75, 1.0)
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from reldp.clipping import ClippingRule, ClipUnits
from reldp.errors import InputError

__all__ = ["Batch", "Finding", "claimed_shift", "families", "movement", "search_neighbors"]

IntArray = npt.NDArray[np.int64]
Claim = Callable[[int, int], float]

ENTITY = 0  # the entity that is taken out
_ROUNDING = 1e-9
_RESTART = 400  # evaluations without progress after which a walk starts anew


class Rule(Protocol):
    """What the search needs of a rule."""

    def units(
        self, positives: npt.ArrayLike, negatives: npt.ArrayLike, *, clip_norm: float
    ) -> ClipUnits:
        """Clip units of a whole batch with their thresholds."""
        ...


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch that contains the entity, number 0.

    Attributes:
        positives: (l, 2) entity numbers.
        negatives: (l, k) entity numbers.
        substitute: The negative that stands in for the entity.
    """

    positives: IntArray
    negatives: IntArray
    substitute: int

    def legal(self, max_degree: int) -> bool:
        """Whether a sampler could draw it, with the entity and with its substitute."""
        endpoints = np.sort(self.positives, axis=1)
        if (endpoints[:, 0] == endpoints[:, 1]).any() or len(np.unique(endpoints, axis=0)) < len(
            endpoints
        ):
            return False
        used = np.append(self.negatives.ravel(), self.substitute)
        if len(np.unique(used)) < used.size or self.substitute == ENTITY:
            return False
        return int(np.bincount(self.positives.ravel()).max(initial=0)) <= max_degree

    @property
    def touches_entity(self) -> npt.NDArray[np.bool_]:
        """Tuples whose positive is a relation of the entity.  (l,)."""
        return np.asarray((self.positives == ENTITY).any(axis=1))

    @property
    def counts(self) -> tuple[int, int]:
        """(i, j) of theory.md 2."""
        foreign = self.negatives[~self.touches_entity]
        return int(self.touches_entity.sum()), int((foreign == ENTITY).any())


@dataclass(frozen=True, kw_only=True, eq=False)
class Finding:
    """The worst batch found.

    Attributes:
        batch: The batch.
        moved: How far the sum moves, in clip norms.
        claimed: How far the rule says that it moves at most.
        origin: The family it grew from.
        evaluations: Batches looked at.
        seconds: Time taken.
    """

    batch: Batch
    moved: float
    claimed: float
    origin: str
    evaluations: int
    seconds: float

    @property
    def ratio(self) -> float:
        """Movement divided by claim; above 1 the claim is false."""
        return self.moved / self.claimed

    @property
    def refuted(self) -> bool:
        """Whether the claim is false: no statistics, the batch shows it."""
        return self.ratio > 1 + _ROUNDING

    @property
    def verdict(self) -> str:
        """One line for people."""
        if not self.refuted:
            return (
                f"Consistent: of {self.evaluations:,} batches none lets one entity move the clipped sum "
                f"further than the rule says."
            )
        return (
            f"REFUTED: in a batch of {len(self.batch.positives)} tuples one entity moves the clipped sum "
            f"by {self.moved:.3g} clip norms, the rule claims at most {self.claimed:.3g}."
        )

    def to_record(self) -> dict[str, Any]:
        """Return the few values that belong on a certificate."""
        return {
            "kind": "search for bad neighbors",
            "verdict": self.verdict,
            "refuted": self.refuted,
            "batches": self.evaluations,
            "moved": self.moved,
            "claimed": self.claimed,
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, the batch included."""
        batch = {
            "entity": ENTITY,
            "positives": self.batch.positives.tolist(),
            "negatives": self.batch.negatives.tolist(),
            "substitute": self.batch.substitute,
        }
        extra = {"ratio": self.ratio, "origin": self.origin, "seconds": self.seconds}
        return {**self.to_record(), **extra, "batch": batch}


def claimed_shift(rule: ClippingRule, num_negatives: int) -> Claim:
    """Return the rule's claim: i + 2j (2j/k for pairs), or 1 for the frequency rule."""
    if not rule.is_local:
        return lambda i, j: 1.0
    return lambda i, j: i + rule.replacement_sensitivity(num_negatives) * j


def movement(rule: Rule, batch: Batch) -> float:
    """Return how far the sum moves at most when the entity is removed, in clip norms."""
    stay = ~batch.touches_entity
    before = rule.units(batch.positives, batch.negatives, clip_norm=1.0)
    replaced = np.where(batch.negatives == ENTITY, batch.substitute, batch.negatives)[stay]
    after = rule.units(batch.positives[stay], replaced, clip_norm=1.0)
    stays = stay[before.tuple_index]
    gone = float(before.thresholds[~stays].sum())
    was, is_now = before.thresholds[stays], after.thresholds
    same = (before.entities[stays] == after.entities).all(axis=1)
    return gone + float(np.where(same, np.abs(was - is_now), was + is_now).sum())


class _Numbers:
    """Source of entity numbers that are not in use."""

    def __init__(self, first: int = 1) -> None:
        self.next = first

    def take(self, *shape: int) -> IntArray:
        """Fresh numbers."""
        size = int(np.prod(shape))
        self.next += size
        return np.arange(self.next - size, self.next).reshape(shape)


def _built(pairs: list[tuple[int, int]], num_negatives: int, fresh: _Numbers) -> Batch:
    positives = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    negatives = fresh.take(len(pairs), num_negatives)
    return Batch(positives, negatives, int(fresh.take(1)[0]))


def _star(degree: int, tails: int, overlap: bool, num_negatives: int) -> Batch:
    """Return a star: the entity, its partners, their further relations, and its negatives as other endpoints."""
    fresh = _Numbers()
    partners = fresh.take(degree)
    pairs = [(ENTITY, int(a)) for a in partners]
    entity_negatives = fresh.take(degree, num_negatives)
    for end in np.concatenate(
        [np.repeat(partners, tails), entity_negatives.ravel() if overlap else []]
    ):
        pairs.append((int(end), int(fresh.take(1)[0])))
    batch = _built(pairs, num_negatives, fresh)
    batch.negatives[:degree] = entity_negatives
    return batch


def _bystander(num_tuples: int, num_negatives: int) -> Batch:
    """Return the entity is only a negative, of a tuple among others."""
    fresh = _Numbers()
    endpoints = fresh.take(num_tuples, 2)
    batch = _built([(int(a), int(b)) for a, b in endpoints], num_negatives, fresh)
    batch.negatives[0, 0] = ENTITY
    return batch


def _path(length: int, num_negatives: int) -> Batch:
    """Return the entity in the middle of a path."""
    fresh = _Numbers()
    nodes = [*fresh.take(length).tolist(), ENTITY, *fresh.take(length).tolist()]
    return _built(list(pairwise(nodes)), num_negatives, fresh)


def families(max_degree: int, num_negatives: int) -> Iterator[tuple[str, Batch]]:
    """Structured batches, named."""
    for degree in range(1, max_degree + 1):
        for tails in range(max_degree):
            yield f"star {degree}, tails {tails}", _star(degree, tails, False, num_negatives)
            if num_negatives:
                name = f"star {degree}, tails {tails}, overlapping negatives"
                yield name, _star(degree, tails, True, num_negatives)
    if max_degree >= 2:
        yield "path", _path(3, num_negatives)
    if num_negatives:
        yield "bystander", _bystander(3, num_negatives)


def _mutant(batch: Batch, rng: np.random.Generator, max_tuples: int) -> Batch:
    """Return a batch with one place, tuple or the substitute changed."""
    positives, negatives = batch.positives.copy(), batch.negatives.copy()
    top = max(int(positives.max(initial=0)), int(negatives.max(initial=0)), batch.substitute)
    known = int(rng.integers(top + 3))  # an old entity or a new one
    size, k = negatives.shape
    move = int(rng.integers(5))
    if move == 0 and size < max_tuples:
        row = np.array([[known, top + 3]])
        return Batch(
            np.concatenate([positives, row]),
            np.concatenate([negatives, np.arange(k)[None, :] + top + 4]),
            batch.substitute,
        )
    if move == 1 and size > 1:
        keep = np.arange(size) != rng.integers(size)
        return Batch(positives[keep], negatives[keep], batch.substitute)
    if move == 2:
        return Batch(positives, negatives, known)
    if move == 3 and k:
        negatives[rng.integers(size), rng.integers(k)] = known
    else:
        positives[rng.integers(size), rng.integers(2)] = known
    return Batch(positives, negatives, batch.substitute)


@dataclass
class _Walk:
    """Where a local search stands."""

    batch: Batch
    value: float
    origin: str
    idle: int = 0


def search_neighbors(
    rule: Rule,
    *,
    max_degree: int,
    num_negatives: int,
    claim: Claim | None = None,
    evaluations: int = 20_000,
    seconds: float | None = None,
    seed: int = 0,
    use_families: bool = True,
    max_tuples: int = 40,
) -> Finding:
    """Return the batch with the largest movement relative to the claim.

    Args:
        rule: The rule under attack.
        max_degree: K.
        num_negatives: k.
        claim: Claimed sensitivity for (i, j) (default: the claim of the rule, if it is one of reldp's).
        evaluations: Largest number of batches to evaluate.
        seconds: Time after which to stop, if given.
        seed: Of the search.
        use_families: Whether structured batches are tried before local search.
        max_tuples: Largest batch that local search builds.
    """
    if claim is None:
        if not isinstance(rule, ClippingRule):
            raise InputError("`claim` must be given for a rule that states no shift, got None.")
        claim = claimed_shift(rule, num_negatives)
    started = time.monotonic()
    attack = _Attack(rule, claim, max_degree)
    pair_start = _built([(ENTITY, 1)], num_negatives, _Numbers(2))
    starts = [("nothing", pair_start)]
    if use_families:
        starts += list(families(max_degree, num_negatives))
    for origin, batch in starts:
        attack.try_batch(batch, origin)
    rng = np.random.default_rng(seed)
    walk = _Walk(attack.best.batch, attack.best.value, attack.best.origin)
    while attack.evaluations < evaluations:
        if seconds is not None and time.monotonic() - started > seconds:
            break
        if walk.idle > _RESTART:
            origin, batch = starts[int(rng.integers(len(starts)))]
            walk = _Walk(batch, attack.value(batch), origin)
        _advance(walk, attack, rng, max_tuples)
    best = attack.best
    return Finding(
        batch=best.batch,
        moved=movement(rule, best.batch),
        claimed=claim(*best.batch.counts),
        origin=best.origin,
        evaluations=attack.evaluations,
        seconds=time.monotonic() - started,
    )


class _Attack:
    """Evaluate batches and remember the worst."""

    def __init__(self, rule: Rule, claim: Claim, max_degree: int) -> None:
        self.rule, self.claim, self.max_degree = rule, claim, max_degree
        self.evaluations = 0
        self.best = _Walk(Batch(np.zeros((0, 2), np.int64), np.zeros((0, 0), np.int64), 1), 0.0, "")

    def value(self, batch: Batch) -> float:
        """Movement over claim; -1 for what cannot be drawn or does not contain the entity."""
        self.evaluations += 1
        if not batch.legal(self.max_degree) or batch.counts == (0, 0):
            return -1.0
        return movement(self.rule, batch) / self.claim(*batch.counts)

    def try_batch(self, batch: Batch, origin: str) -> float:
        """Its value, remembered if it is the worst so far."""
        value = self.value(batch)
        if value > self.best.value:
            self.best = _Walk(batch, value, origin)
        return value


def _advance(walk: _Walk, attack: _Attack, rng: np.random.Generator, max_tuples: int) -> None:
    """Try one mutant, sometimes two changes at once; sideways steps are taken too."""
    mutant = _mutant(walk.batch, rng, max_tuples)
    if rng.random() < 0.5:
        mutant = _mutant(mutant, rng, max_tuples)
    value = attack.try_batch(mutant, walk.origin)
    walk.idle += 1
    if value >= walk.value:
        if value > walk.value + 1e-12:
            walk.idle = 0
        walk.batch, walk.value = mutant, value
