"""Every batch and every negative draw of tiny graphs, against the accountant's bound on one step.

The mechanism of theory.md 1 is listed exactly for both neighbors; a search then chooses the tuples'
gradients, up to norm 1, to tell the neighbors apart. The true hockey-stick divergence may never exceed the dominating
pair's. Gradients live on a lattice, so that sums take few values and the divergence is cheap to integrate.
"""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from reldp.accounting.discretization import hockey_stick
from reldp.accounting.dominating import dominating_pair
from reldp.accounting.events import CoupledStep

U = 0  # the entity that the neighbors differ in; entities are 0 .. n-1
EPSILONS = np.array([0.0, 0.05, 0.2, 0.5, 1.0, 2.0])
LATTICE = 2  # gradients are multiples of 1 / LATTICE
ROUNDS = 60  # moves that the search tries on the larger graphs


@dataclass(frozen=True)
class Tiny:
    """A graph in which u has `degree` relations and `others` relations do not touch it."""

    entities: int
    others: int
    degree: int
    negatives: int
    rate: float
    sigma: float

    @property
    def relations(self):
        rest = itertools.combinations(range(1, self.entities), 2)
        own = [(U, v) for v in range(1, self.degree + 1)]
        return [*itertools.islice(rest, self.others), *own]

    def pair(self, analysis, **changes):
        """The accountant's dominating pair."""
        step = CoupledStep(
            num_relations=self.others,
            pool_size=self.entities,
            max_degree=self.degree,
            num_negatives=self.negatives,
            sample_rate=self.rate,
            noise_multiplier=self.sigma,
        )
        return dominating_pair(replace(step, **changes), analysis, -200.0)

    def bound(self, analysis, **changes):
        """Its divergences at EPSILONS: removal, insertion."""
        return hockey_stick(self.pair(analysis, **changes), EPSILONS)


TINY = [
    Tiny(entities=7, others=4, degree=2, negatives=1, rate=0.3, sigma=0.7),
    Tiny(entities=7, others=5, degree=1, negatives=1, rate=0.2, sigma=0.5),
    Tiny(entities=6, others=2, degree=1, negatives=2, rate=0.4, sigma=0.6),
    Tiny(entities=7, others=2, degree=1, negatives=2, rate=0.5, sigma=1.0),
    Tiny(entities=7, others=1, degree=1, negatives=3, rate=0.5, sigma=0.4),
    Tiny(entities=6, others=3, degree=1, negatives=1, rate=0.7, sigma=0.5),
    Tiny(entities=5, others=4, degree=1, negatives=1, rate=0.1, sigma=0.35),
]


class Listing:
    """All batches of both neighbors as counts of tuples; a tuple is a relation with its set of negatives."""

    def __init__(self, tiny):
        self.tiny = tiny
        self.tuples = {}
        self.sides = [self._side(with_u=True), self._side(with_u=False)]
        size = len(self.tuples)
        self.sides = [(np.array([self._row(b, size) for b in law]), p) for law, p in self.sides]

    def _side(self, *, with_u):
        """Distinct batches (as sorted numbers of tuples) and their probabilities."""
        tiny = self.tiny
        relations = [r for r in tiny.relations if with_u or U not in r]
        pool = range(0 if with_u else 1, tiny.entities)
        law = {}
        for size in range(len(relations) + 1):
            slots = size * tiny.negatives
            share = tiny.rate**size * (1 - tiny.rate) ** (len(relations) - size)
            share /= math.perm(len(pool), slots)
            for chosen in itertools.combinations(relations, size):
                for draw in itertools.permutations(pool, slots):
                    batch = tuple(
                        self._number(r, draw[i * tiny.negatives : (i + 1) * tiny.negatives])
                        for i, r in enumerate(chosen)
                    )
                    law[batch] = law.get(batch, 0.0) + share
        assert sum(law.values()) == pytest.approx(1, abs=1e-12)
        return list(law), np.array(list(law.values()))

    def _number(self, relation, negatives):
        return self.tuples.setdefault((relation, frozenset(negatives)), len(self.tuples))

    @staticmethod
    def _row(batch, size):
        row = np.zeros(size)
        row[list(batch)] = 1
        return row

    def by_class(self, own, negative, neither):
        """Gradients by what a tuple holds: u's own relation, u as a negative, neither.  (tuples, d)."""
        kinds = [0 if U in r else 1 if U in n else 2 for r, n in self.tuples]
        values = [np.atleast_1d(np.asarray(v, dtype=float)) for v in (own, negative, neither)]
        return np.array([values[kind] for kind in kinds])

    def divergences(self, gradients):
        """True hockey-sticks (removal, insertion) at EPSILONS for gradients (tuples, d)."""
        assert np.linalg.norm(gradients, axis=1).max() <= 1 + 1e-12
        laws = []
        for counts, chances in self.sides:
            keys = np.rint(counts @ gradients * LATTICE).astype(int)  # (batches, d)
            points, place = np.unique(keys, axis=0, return_inverse=True)
            laws.append((points / LATTICE, np.bincount(place.ravel(), chances)))
        grid, cell = self._grid([points for points, _ in laws])
        p, q = (self._density(grid, *law) * cell for law in laws)
        assert p.sum() == pytest.approx(1, abs=1e-5)
        removal = [np.maximum(p - math.exp(e) * q, 0).sum() for e in EPSILONS]
        insertion = [np.maximum(q - math.exp(e) * p, 0).sum() for e in EPSILONS]
        return np.array([removal, insertion])

    def _grid(self, clouds):
        points, sigma = np.concatenate(clouds), self.tiny.sigma
        per_sigma = {1: 60.0, 2: 9.0, 3: 4.5}[points.shape[1]]
        reach = 5.2 * sigma
        axes = [
            np.arange(low - reach, high + reach, sigma / per_sigma)
            for low, high in zip(points.min(0), points.max(0), strict=True)
        ]
        grid = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
        return grid, (sigma / per_sigma) ** points.shape[1]

    def _density(self, grid, points, weights):
        sigma = self.tiny.sigma
        square = (grid**2).sum(1)[:, None] + (points**2).sum(1) - 2 * grid @ points.T
        scale = (2 * math.pi * sigma**2) ** (-points.shape[1] / 2)
        return scale * np.exp(-square / (2 * sigma**2)) @ weights


def search(listing, start, rng):
    """Moves gradients of tuples, and of alike tuples, where that brings the divergence closer to the bound."""
    alike = {}
    for number, (relation, negatives) in enumerate(listing.tuples):
        alike.setdefault((relation, U in negatives), []).append(number)
        alike[number] = [number]
    groups = list(alike.values())
    rounds = ROUNDS if len(listing.sides[0][1]) > 5000 else 4 * ROUNDS
    limit = np.maximum(listing.tiny.bound("anchored"), 1e-3)
    gradients, found = start, listing.divergences(start)
    for _ in range(rounds):
        tried = gradients.copy()
        tried[groups[rng.integers(len(groups))]] = rng.integers(-LATTICE, LATTICE + 1) / LATTICE
        new = listing.divergences(tried)
        if (new / limit).max() >= (found / limit).max():
            gradients, found = tried, new
    return found


def adversaries(listing, seed):
    """True divergences of gradients worth trying: by class in one to three dimensions, random, and searched."""
    rng = np.random.default_rng(seed)
    for own, negative, neither in ((1, 1, -1), (1, 1, 0), (1, 1, -0.5), (-1, 1, 0.5)):
        yield listing.divergences(listing.by_class(own, negative, neither))
    for negative in ([1, 0], [0.5, 0.5], [0, 1]):
        yield listing.divergences(listing.by_class([1, 0], negative, [0, 1]))
    if len(listing.tuples) < 60:
        yield listing.divergences(listing.by_class([1, 0, 0], [0, 1, 0], [0, 0, 1]))
    yield search(listing, listing.by_class(1, 1, -1), rng)
    yield search(listing, rng.integers(-1, 2, (len(listing.tuples), 1)).astype(float), rng)


@pytest.fixture(scope="module")
def truths():
    """(tiny, true divergences (adversaries, 2, EPSILONS)) for all tiny graphs, listed once."""
    return [(t, np.array(list(adversaries(Listing(t), 7 + i)))) for i, t in enumerate(TINY)]


@pytest.mark.parametrize("analysis", ["anchored", "replacement"])
def test_no_adversary_exceeds_the_bound_in_either_direction(truths, analysis):
    for tiny, found in truths:
        limit = np.array(tiny.bound(analysis))
        assert (found <= limit * (1 + 2e-4) + 1e-6).all(), (tiny, (found - limit).max())


def test_the_anchored_bound_is_nearly_reached(truths):
    best = [(f[:, 0] / t.bound("anchored")[0])[:, :4].max() for t, f in truths]
    assert max(best) >= 0.98
    assert min(best) >= 0.85


def refuted(truths, wrong):
    """The graphs on which a true divergence clearly exceeds a wrong bound."""
    return [t for t, f in truths if (f > np.array(wrong(t)) * (1 + 1e-3) + 1e-5).any()]


def test_without_the_reweighting_the_bound_is_refuted(truths):
    def unweighted(tiny):
        pair = tiny.pair("anchored")
        totals = np.log(np.exp(pair.log_weights).sum(axis=1, keepdims=True))
        return hockey_stick(replace(pair, log_weights=pair.log_weights - totals), EPSILONS)

    assert refuted(truths, unweighted)


def test_a_smaller_shift_for_negatives_is_refuted(truths):
    assert refuted(truths, lambda tiny: tiny.bound("anchored", negative_removal=0.8))


def test_a_smaller_degree_is_refuted(truths):
    deep = [(t, f) for t, f in truths if t.degree > 1]
    assert refuted(deep, lambda tiny: tiny.bound("anchored", max_degree=tiny.degree - 1))
