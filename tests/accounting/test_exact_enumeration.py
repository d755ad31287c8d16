"""Every batch and every negative draw of tiny graphs, against the accountant's bound on one step.

The mechanism of theory.md section 1 is listed exactly for both neighbours, with tuple gradients chosen by
a search to tell them apart. The true hockey-stick divergence may never exceed the dominating pair's.
"""

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
import pytest

from reldp.accounting.discretisation import hockey_stick
from reldp.accounting.dominating import dominating_pair
from reldp.accounting.events import CoupledStep

U = 0  # the entity that the neighbours differ in; entities are 0 .. n-1
EPSILONS = np.array([0.0, 0.05, 0.2, 0.5, 1.0, 2.0])


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

    def event(self, **changes):
        step = CoupledStep(
            num_relations=self.others,
            pool_size=self.entities,
            max_degree=self.degree,
            num_negatives=self.negatives,
            sample_rate=self.rate,
            noise_multiplier=self.sigma,
        )
        return replace(step, **changes)


def batches(tiny, *, with_u):
    """Every (tuples, probability); a tuple is (relation, negatives) and tuples of a batch are ordered."""
    relations = [r for r in tiny.relations if with_u or U not in r]
    pool = range(0 if with_u else 1, tiny.entities)
    for size in range(len(relations) + 1):
        chance = tiny.rate**size * (1 - tiny.rate) ** (len(relations) - size)
        slots = size * tiny.negatives
        share = chance / math.perm(len(pool), slots)
        for chosen in itertools.combinations(relations, size):
            for draw in itertools.permutations(pool, slots):
                parts = [
                    (r, draw[i * tiny.negatives : (i + 1) * tiny.negatives])
                    for i, r in enumerate(chosen)
                ]
                yield parts, share


def sums(tiny, gradient, *, with_u):
    """Law of the clipped sum: a list of points (d,) and their probabilities."""
    law = defaultdict(float)
    for parts, share in batches(tiny, with_u=with_u):
        total = sum((gradient(*part) for part in parts), np.zeros(gradient.dimension))
        law[tuple(np.round(total, 9))] += share
    return np.array(list(law)), np.array(list(law.values()))


def density(points, weights, grid, sigma):
    """Density of the noisy sum on a grid (G, d)."""
    square = ((grid[:, None, :] - points[None, :, :]) ** 2).sum(axis=2)
    scale = (2 * math.pi * sigma**2) ** (-grid.shape[1] / 2)
    return scale * np.exp(-square / (2 * sigma**2)) @ weights


def divergences(tiny, gradient):
    """True hockey-stick divergences, removal and insertion, at EPSILONS; their total masses are checked."""
    with_u, without = sums(tiny, gradient, with_u=True), sums(tiny, gradient, with_u=False)
    reach = 7 * tiny.sigma
    points = np.concatenate([with_u[0], without[0]])
    count = 3001 if gradient.dimension == 1 else 181
    axes = [
        np.linspace(low - reach, high + reach, count)
        for low, high in zip(points.min(0), points.max(0), strict=True)
    ]
    cell = math.prod(axis[1] - axis[0] for axis in axes)
    grid = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
    p, q = density(*with_u, grid, tiny.sigma) * cell, density(*without, grid, tiny.sigma) * cell
    assert p.sum() == pytest.approx(1, abs=1e-6)
    removal = [np.maximum(p - math.exp(e) * q, 0).sum() for e in EPSILONS]
    insertion = [np.maximum(q - math.exp(e) * p, 0).sum() for e in EPSILONS]
    return np.array(removal), np.array(insertion)


class ByClass:
    """Gradients by what a tuple holds: u's own relation, u as a negative, neither."""

    def __init__(self, own, negative, neither):
        self._values = [np.atleast_1d(np.asarray(v, dtype=float)) for v in (own, negative, neither)]
        self.dimension = len(self._values[0])
        assert all(np.linalg.norm(v) <= 1 + 1e-12 for v in self._values)

    def __call__(self, relation, negatives):
        kind = 0 if U in relation else 1 if U in negatives else 2
        return self._values[kind]


class Table:
    """An own gradient for every relation and set of negatives."""

    dimension = 1

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)
        self._values = {}

    def __call__(self, relation, negatives):
        key = relation, frozenset(negatives)
        if key not in self._values:
            high = 1.0 if U in relation or U in negatives else self._rng.choice([-1.0, -0.5, 0.0])
            self._values[key] = np.array([high * self._rng.choice([1.0, 0.9, 1.0])])
        return self._values[key]


def adversaries(seed):
    """Gradients that a search over directions and sizes found worth trying, and random ones."""
    yield ByClass(1, 1, -1)
    yield ByClass(1, 1, 0)
    yield ByClass(1, 1, -0.3)
    yield ByClass(-1, 1, 0.5)
    for angle in (0.5, 0.8, 1.0):
        aside = [0.0, 1.0]
        yield ByClass([1, 0], [1, 0], aside)
        yield ByClass([1, 0], [math.cos(angle), math.sin(angle)], aside)
    for s in range(3):
        yield Table(seed + s)


TINY = [
    Tiny(entities=7, others=4, degree=2, negatives=1, rate=0.3, sigma=0.7),
    Tiny(entities=7, others=5, degree=1, negatives=1, rate=0.2, sigma=0.5),
    Tiny(entities=6, others=2, degree=1, negatives=2, rate=0.4, sigma=0.6),
    Tiny(entities=7, others=2, degree=1, negatives=2, rate=0.5, sigma=1.0),
    Tiny(entities=7, others=1, degree=1, negatives=3, rate=0.5, sigma=0.4),
    Tiny(entities=6, others=3, degree=1, negatives=1, rate=0.7, sigma=0.5),
]


def bound(tiny, analysis, **changes):
    return hockey_stick(dominating_pair(tiny.event(**changes), analysis, -200.0), EPSILONS)


def unweighted(tiny):
    """The anchored pair with its reweighting left out, a wrong bound."""
    pair = dominating_pair(tiny.event(), "anchored", -200.0)
    totals = np.log(np.exp(pair.log_weights).sum(axis=1, keepdims=True))
    return hockey_stick(replace(pair, log_weights=pair.log_weights - totals), EPSILONS)


@pytest.fixture(scope="module")
def truths():
    """(tiny, divergences of every adversary) for all tiny graphs, listed once."""
    return [(t, [divergences(t, g) for g in adversaries(7 * i)]) for i, t in enumerate(TINY)]


@pytest.mark.parametrize("analysis", ["anchored", "replacement"])
@pytest.mark.parametrize("direction", [0, 1])
def test_no_adversary_exceeds_the_bound(truths, analysis, direction):
    for tiny, found in truths:
        limit = bound(tiny, analysis)[direction]
        for true in found:
            assert (true[direction] <= limit * (1 + 1e-4) + 1e-7).all(), (tiny, true, limit)


def test_the_anchored_bound_is_nearly_reached(truths):
    best = 0.0
    for tiny, found in truths:
        limit = bound(tiny, "anchored")[0]
        best = max(best, *(float((true[0] / limit).max()) for true in found))
    assert best >= 0.85


def test_without_the_reweighting_the_bound_is_refuted(truths):
    refuted = [
        tiny
        for tiny, found in truths
        if any((true[d] > unweighted(tiny)[d] * 1.001).any() for true in found for d in (0, 1))
    ]
    assert refuted


def test_a_smaller_shift_for_negatives_is_refuted(truths):
    refuted = [
        tiny
        for tiny, found in truths
        if any(
            (true[0] > bound(tiny, "anchored", negative_removal=0.8)[0] * 1.001).any()
            for true in found
        )
    ]
    assert refuted
