"""Theorem B (theory.md 2.4) through the accountants: epsilon for bounds on the sizes covers every graph within them.

Exact enumeration with the searching adversaries of `test_exact_enumeration`, monotonicity at random settings, and
controls: bounds on the wrong side of the sizes must be refuted.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from reldp.accounting import PLDAccountant, RenyiAccountant
from reldp.accounting.discretization import hockey_stick
from reldp.accounting.dominating import dominating_pair
from reldp.accounting.events import CoupledStep
from reldp.accounting.overflow import log_overflow
from tests.accounting.test_exact_enumeration import EPSILONS, TINY, Listing, adversaries

ANALYSES = ("anchored", "replacement")
PROFILE = np.array([-1.0, -0.2, 0.0, 0.05, 0.3, 1.0, 2.5])


# --- Every batch and every draw of tiny graphs -------------------------------------------------------------------

SMALL = [TINY[1], TINY[2], TINY[3], TINY[5], TINY[6]]


@pytest.fixture(scope="module")
def truths():
    """(tiny graph, true divergences of its adversaries)."""
    return [(t, np.array(list(adversaries(Listing(t), 31 + i)))) for i, t in enumerate(SMALL)]


def bounded(tiny, fewer=0, more=0, extra=0):
    """The accountant's step for a graph with `fewer` entities and `more` relations than the tiny one."""
    return CoupledStep(
        num_relations=tiny.others + more,
        pool_size=tiny.entities - fewer,
        max_degree=tiny.degree + extra,
        num_negatives=tiny.negatives,
        sample_rate=tiny.rate,
        noise_multiplier=tiny.sigma,
    )


def limits(step, analysis):
    """Divergences of the accountant's pair, with the overflow charge of one step."""
    chance = math.exp(log_overflow(step))
    ratio = step.num_negatives / step.pool_size
    factor = (1 + ratio) * (1 + chance * ratio)
    pair = np.array(hockey_stick(dominating_pair(step, analysis, -200.0), EPSILONS))
    return pair + chance * (1 + factor * np.exp(EPSILONS))


LOOSER = [
    {"fewer": 1},
    {"more": 1},
    {"more": 4},
    {"fewer": 1, "more": 2},
    {"fewer": 1, "more": 3, "extra": 1},
]


@pytest.mark.parametrize("analysis", ANALYSES)
@pytest.mark.parametrize("looser", LOOSER)
def test_no_adversary_on_a_graph_within_the_bounds_exceeds_them(truths, looser, analysis):
    tried = 0
    for tiny, found in truths:
        step = bounded(tiny, **looser)
        if step.sample_rate * step.num_relations * step.num_negatives > step.pool_size - 1:
            continue
        tried += 1
        assert (found <= limits(step, analysis) * (1 + 2e-4) + 1e-6).all(), (tiny, looser)
    assert tried >= 3


@pytest.mark.parametrize("wrong", [{"fewer": -6}, {"more": -1}, {"fewer": -3, "more": -1}])
def test_bounds_on_the_wrong_side_are_refuted(truths, wrong):
    """The control: more entities than there are, or fewer relations."""

    def refuted(tiny, found):
        return (found > limits(bounded(tiny, **wrong), "anchored") * (1 + 1e-3) + 1e-5).any()

    caught = sum(
        refuted(tiny, found) for tiny, found in truths if tiny.others + wrong.get("more", 0)
    )
    assert caught >= 2


# --- Monotone in n and m, at random settings ---------------------------------------------------------------------


def random_step(rng, largest):
    """A step whose batches of up to m + K positives can all be drawn, also with fewer entities."""
    m, k, degree = int(rng.integers(2, largest)), int(rng.integers(1, 5)), int(rng.integers(1, 6))
    return CoupledStep(
        num_relations=m,
        pool_size=2 * k * (3 * m + degree) + int(rng.integers(0, 200)),
        max_degree=degree,
        num_negatives=k,
        sample_rate=float(rng.uniform(0.01, 0.6)),
        noise_multiplier=float(rng.uniform(0.3, 3.0)),
        negative_replacement=float(rng.choice([2.0, 2.0 / k])),
    )


def loosened(step, rng):
    """The same step with looser bounds: fewer entities, or more relations, or both."""
    which = int(rng.integers(3))
    pool = int(step.pool_size * rng.uniform(0.5, 1.0)) if which != 1 else step.pool_size
    more = int(rng.integers(1, 2 * step.num_relations)) if which != 0 else 0
    return replace(step, pool_size=pool, num_relations=step.num_relations + more)


def profile(step, analysis):
    """Hockey-stick divergences in both directions; m is small, so every batch size is a node of its own."""
    return np.array(hockey_stick(dominating_pair(step, analysis, -300.0), PROFILE))


@pytest.mark.parametrize("analysis", ANALYSES)
def test_divergences_grow_with_relations_and_fall_with_entities(analysis):
    rng = np.random.default_rng(11)
    grew = np.zeros(2)
    for _ in range(150):
        step = random_step(rng, 12)
        looser = loosened(step, rng)
        exact, bound = profile(step, analysis), profile(looser, analysis)
        assert (exact <= bound + 1e-9).all(), (step, looser)
        grew += (bound > exact + 1e-7).any(axis=1)
    assert (grew > 100).all()  # in both directions; a test of equal numbers would show nothing


@pytest.mark.parametrize(
    ("accountant", "count"), [(PLDAccountant, 12), (RenyiAccountant, 12)], ids=["pld", "rdp"]
)
@pytest.mark.parametrize("analysis", ANALYSES)
def test_epsilon_grows_with_relations_and_falls_with_entities(accountant, count, analysis):
    """Accountants err by up to 0.2 % upwards, so epsilon for exact sizes may be that much above that of bounds."""
    rng = np.random.default_rng(12)
    grew = 0
    for _ in range(count):
        n = int(10 ** rng.uniform(4, 7))
        step = CoupledStep(
            num_relations=int(n * rng.uniform(0.5, 4)),
            pool_size=n,
            max_degree=int(rng.integers(1, 8)),
            num_negatives=int(rng.integers(1, 6)),
            sample_rate=float(10 ** rng.uniform(-4, -2.5)),
            noise_multiplier=float(rng.uniform(0.5, 2.0)),
        )
        steps = int(rng.integers(10, 1000))
        looser = loosened(step, rng)
        made = accountant(analysis=analysis)
        exact = made.epsilon(step * steps, 1e-6).epsilon
        bound = made.epsilon(looser * steps, 1e-6).epsilon
        assert exact <= bound * (1 + 2e-3), (step, looser)
        grew += bound > exact * (1 + 4e-3)
    assert grew >= count // 3


def test_bounds_the_wrong_way_round_are_seen_to_be_too_small():
    """The control of monotonicity: swapped, most of the random settings break the inequality."""
    rng = np.random.default_rng(11)
    broken = 0
    for _ in range(60):
        step = random_step(rng, 12)
        looser = loosened(step, rng)
        broken += bool((profile(looser, "anchored") > profile(step, "anchored") + 1e-9).any())
    assert broken > 50
