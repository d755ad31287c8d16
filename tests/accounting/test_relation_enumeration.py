"""Every batch and every draw of tiny graphs whose negatives are other relations, against the bound on one step.

Neighbors differ in one entity with its only relation (theory.md 2.6). The larger graph draws from one relation more.
Controls that must be refuted: an entity with two relations, and the number of entities as the size of the pool.
"""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from reldp.accounting.dominating import dominating_pair
from reldp.accounting.events import CoupledStep
from tests.accounting.test_exact_enumeration import EPSILONS, Listing, Tiny
from tests.accounting.test_owner_enumeration import truths

U = 0  # the entity that the neighbors differ in


@dataclass(frozen=True, kw_only=True)
class RelationTiny(Tiny):
    """A matching of `others` relations, and `degree` relations of u; `negatives` counts other relations."""

    entities: int = 0

    @property
    def relations(self):
        rest = [(2 * i + 1, 2 * i + 2) for i in range(self.others)]
        return [*rest, *((U, 2 * self.others + 1 + i) for i in range(self.degree))]

    def pair(self, analysis, **changes):
        step = CoupledStep(
            num_relations=self.others,
            pool_size=self.others + self.degree,
            max_degree=1,
            num_negatives=self.negatives,
            sample_rate=self.rate,
            noise_multiplier=self.sigma,
        )
        return dominating_pair(replace(step, **changes), analysis, -200.0)

    @property
    def overflow(self):
        """What theory.md 2.4 charges for batches that cannot be drawn, in both directions, at EPSILONS."""
        largest = (self.others + self.degree - 1) // self.negatives
        size, rate = self.others + 1, self.rate
        larger = range(largest + 1, size + 1)
        chance = sum(math.comb(size, i) * rate**i * (1 - rate) ** (size - i) for i in larger)
        return chance * (1 + 1.5 * np.exp(EPSILONS))


TINY = [
    RelationTiny(others=3, degree=1, negatives=1, rate=0.3, sigma=0.7),
    RelationTiny(others=4, degree=1, negatives=1, rate=0.2, sigma=0.5),
    RelationTiny(others=2, degree=1, negatives=1, rate=0.5, sigma=0.6),
    RelationTiny(others=5, degree=1, negatives=1, rate=0.1, sigma=0.4),
]
PAIRS_OF_OTHERS = RelationTiny(others=6, degree=1, negatives=2, rate=0.05, sigma=0.5)


class RelationListing(Listing):
    """The mechanism with other relations: all batches of both neighbors that can be drawn."""

    def _side(self, *, with_u):
        relations = [r for r in self.tiny.relations if with_u or U not in r]
        law = {}
        for size in range(len(relations) + 1):
            share = self.tiny.rate**size * (1 - self.tiny.rate) ** (len(relations) - size)
            draws = list(self._draws(relations, size))
            for chosen in itertools.combinations(relations, size):
                for draw in draws:
                    batch = tuple(
                        self._number(relation, itertools.chain(*drawn))
                        for relation, drawn in zip(chosen, draw, strict=True)
                    )
                    law[batch] = law.get(batch, 0.0) + share / len(draws)
        assert sum(law.values()) == pytest.approx(1, abs=1e-12)
        return list(law), np.array(list(law.values()))

    def _draws(self, relations, size):
        """The other relations of each of `size` tuples, all draws being equally likely."""
        k = self.tiny.negatives
        if k * size > len(relations):
            return [((),) * size]
        dealt = itertools.permutations(relations, k * size)
        return [tuple(draw[i * k : (i + 1) * k] for i in range(size)) for draw in dealt]


@pytest.fixture(scope="module")
def listed():
    return [(tiny, truths(RelationListing(tiny), 3 + i)) for i, tiny in enumerate(TINY)]


@pytest.mark.parametrize("analysis", ["anchored", "replacement"])
def test_no_adversary_exceeds_the_bound_with_relations_for_entities(listed, analysis):
    for tiny, found in listed:
        limit = np.array(tiny.bound(analysis))
        assert (found <= limit * (1 + 2e-4) + 1e-6).all(), (tiny, (found - limit).max())


def test_the_bound_is_nearly_reached(listed):
    best = [(f[:, 0] / t.bound("anchored")[0])[:, :4].max() for t, f in listed]
    assert min(best) >= 0.9


def test_an_entity_with_two_relations_is_refuted():
    tiny = RelationTiny(others=3, degree=2, negatives=1, rate=0.3, sigma=0.5)
    found = truths(RelationListing(tiny), 5)
    assert (found > np.array(tiny.bound("anchored")) * (1 + 1e-3) + 1e-4).any()


def test_a_larger_pool_is_refuted(listed):
    """Drawing from the relations and stating the number of entities would promise too much."""
    for tiny, found in listed[:2]:
        wrong = np.array(tiny.bound("anchored", pool_size=2 * (tiny.others + tiny.degree)))
        assert (found > wrong * (1 + 1e-3) + 1e-4).any()


def test_batches_that_cannot_be_drawn_are_charged():
    found = truths(RelationListing(PAIRS_OF_OTHERS), 7)
    limit = np.array(PAIRS_OF_OTHERS.bound("anchored")) + PAIRS_OF_OTHERS.overflow
    assert (found <= limit * (1 + 2e-4) + 1e-6).all(), (found - limit).max()
