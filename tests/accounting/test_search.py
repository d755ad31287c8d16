"""The cost of a search holds for mechanisms whose best run can be computed exactly, and is not vacuous."""

import math

import numpy as np
import pytest
from scipy.special import logsumexp

from reldp.accounting import CoupledStep, PLDAccountant
from reldp.accounting.search import ORDERS, SearchSize, _best, search_cost
from reldp.errors import PlanError

STEP = CoupledStep(
    num_relations=20_000, pool_size=10_000, max_degree=5, num_negatives=4, sample_rate=1e-3,
    noise_multiplier=1.0,
)  # fmt: skip


def generating(size, x):
    """E[x^K] in closed form: another way to the distribution than its probabilities."""
    if size.eta == 1:
        return size.gamma * x / (1 - (1 - size.gamma) * x)
    return np.log1p(-(1 - size.gamma) * x) / math.log(size.gamma)


def best_of(size, masses):
    """Distribution of the best of K outcomes, which are ordered from worst to best."""
    below = np.concatenate([[0.0], np.cumsum(masses)])
    below[-1] = 1.0
    return np.diff(generating(size, below))


def renyi(p, q, order):
    return float(logsumexp(order * np.log(p) + (1 - order) * np.log(q))) / (order - 1)


def divergences(p, q):
    return [max(renyi(p, q, order), renyi(q, p, order)) for order in ORDERS]


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("distribution", ["logarithmic", "geometric"])
@pytest.mark.parametrize("mean", [1.5, 10.0, 300.0])
def test_the_distribution_has_its_mean_and_sums_to_one(distribution, mean):
    size = SearchSize(mean=mean, distribution=distribution)
    counts = np.arange(1, 60_000)
    chances = np.array([size.probability(int(k)) for k in counts])
    assert chances.sum() == pytest.approx(1, abs=1e-6)
    assert chances @ counts == pytest.approx(mean, rel=1e-4)
    for x in (0.0, 0.3, 0.99):
        assert chances @ x**counts == pytest.approx(generating(size, x), abs=1e-9)


def test_numbers_are_drawn_by_their_probabilities():
    """False alarms once in a million; a geometric distribution of the same mean is rejected."""
    size, other = SearchSize(mean=4.0), SearchSize(mean=4.0, distribution="geometric")
    drawn = np.bincount([min(size.draw(), 12) for _ in range(20_000)], minlength=13)[1:]

    def statistic(model):
        chances = np.array([model.probability(k) for k in range(1, 12)])
        expected = 20_000 * np.append(chances, 1 - chances.sum())
        return float(np.sum((drawn - expected) ** 2 / expected))

    assert statistic(size) < 50  # chi-square with 11 degrees of freedom
    assert statistic(other) > 500


def searches(distribution):
    """Distributions of the best run on both neighbors, delta, and epsilon of the search and of one run."""
    generator = np.random.default_rng(5)
    pairs = [(np.array([0.75, 0.25]), np.array([0.25, 0.75]))]
    for _ in range(30):
        q = generator.dirichlet(np.ones(6))
        tilt = np.exp(generator.normal(size=6) * generator.choice([0.1, 0.5, 1.5]))
        pairs.append((q * tilt / (q * tilt).sum(), q))
    for p, q in pairs:
        totals = divergences(p, q)
        for mean in (2.0, 10.0, 100.0):
            size = SearchSize(mean=mean, distribution=distribution)
            released = best_of(size, p), best_of(size, q)
            for delta in (1e-2, 1e-5):
                one_run = max(0.0, min(_converted(totals, delta)))
                for a, b in (released, released[::-1]):
                    yield a, b, delta, _best(totals, size, delta), one_run


@pytest.mark.parametrize("distribution", ["logarithmic", "geometric"])
def test_the_bound_holds_for_mechanisms_whose_best_run_is_known_exactly(distribution):
    """Randomized response and random pairs: exact hockey-stick divergence of the best run against epsilon."""
    for a, b, delta, epsilon, _ in searches(distribution):
        assert hockey_stick(a, b, epsilon) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("distribution", ["logarithmic", "geometric"])
def test_control_the_epsilon_of_one_run_is_refuted_for_a_search(distribution):
    refuted = [
        hockey_stick(a, b, one_run) > delta for a, b, delta, _, one_run in searches(distribution)
    ]
    assert sum(refuted) > 20


def _converted(totals, delta):
    from reldp.accounting.rdp import to_epsilon

    return [to_epsilon(order, total, delta) for order, total in zip(ORDERS, totals, strict=True)]


@pytest.mark.parametrize(("distribution", "shape"), [("logarithmic", 0), ("geometric", 1)])
@pytest.mark.parametrize("mean", [2.0, 30.0])
def test_another_library_has_the_same_bound(distribution, shape, mean):
    """dp-accounting on a Gaussian mechanism; ours may be larger by rounding only."""
    from dp_accounting.dp_event import GaussianDpEvent, RepeatAndSelectDpEvent
    from dp_accounting.rdp import RdpAccountant

    theirs = RdpAccountant(orders=ORDERS)
    theirs.compose(RepeatAndSelectDpEvent(GaussianDpEvent(2.0), mean, shape))
    totals = [order / 8 for order in ORDERS]
    ours = _best(totals, SearchSize(mean=mean, distribution=distribution), 1e-6)
    assert ours == pytest.approx(theirs.get_epsilon(1e-6), rel=1e-6)


def test_more_runs_cost_more_and_many_less_than_their_composition():
    single = PLDAccountant().epsilon(STEP * 500, 1e-6).epsilon
    costs = [
        search_cost(STEP * 500, SearchSize(mean=mean), 1e-6).epsilon for mean in (1.1, 10.0, 100.0)
    ]
    assert single < costs[0] < costs[1] < costs[2]
    # Against the composition of as many runs: dearer for a few, far cheaper for many.
    assert costs[1] > PLDAccountant().epsilon(STEP * 5_000, 1e-6).epsilon
    assert costs[2] < 0.7 * PLDAccountant().epsilon(STEP * 50_000, 1e-6).epsilon
    geometric = search_cost(STEP * 500, SearchSize(mean=10.0, distribution="geometric"), 1e-6)
    assert geometric.epsilon > costs[1]


def test_what_has_no_bound_is_refused_or_infinite():
    for mean in (1.0, 0.0, math.nan, 1e9):
        with pytest.raises(PlanError, match="`mean` must be"):
            SearchSize(mean=mean)
    with pytest.raises(PlanError, match="`distribution` must be one of"):
        SearchSize(mean=2.0, distribution="poisson")
    from dataclasses import replace

    size = SearchSize(mean=5.0)
    assert search_cost(replace(STEP, noise_multiplier=0.0) * 5, size, 1e-6).epsilon == math.inf
    crowded = replace(STEP, pool_size=250)
    with pytest.raises(PlanError, match="far below the pool"):
        search_cost(crowded * 500, size, 1e-6)
