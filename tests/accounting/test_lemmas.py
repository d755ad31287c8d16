"""Random counterexamples to the lemmas of theory.md 3 and the steps of Theorem B (2.4), with controls to be caught.

Pairs are written from the page and divergences are sums over a fine grid of outputs, without the accountants' code; one
test then holds the accountants' own pairs and charge against the same enumeration.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from reldp.accounting.discretization import hockey_stick
from reldp.accounting.dominating import dominating_pair
from reldp.accounting.events import CoupledStep
from reldp.accounting.overflow import log_overflow
from reldp.errors import PlanError

EPSILONS = np.array([-2.0, -0.7, -0.1, 0.0, 0.05, 0.3, 1.0, 2.5])


def hockey_sticks(p, q, epsilons=EPSILONS):
    """H_eps(P || Q) and H_eps(Q || P) for densities times cell sizes; (2, epsilons)."""
    return np.array(
        [[np.maximum(a - math.exp(e) * b, 0).sum() for e in epsilons] for a, b in ((p, q), (q, p))]
    )


def gaussians(means, sigma, low, high, per_sigma=80):
    """Densities times cell size of N(mean, sigma^2) on a grid; (means, outputs)."""
    x = np.arange(low - 8 * sigma, high + 8 * sigma, sigma / per_sigma)
    z = (x - np.asarray(means, dtype=float)[:, None]) / sigma
    return np.exp(-0.5 * z**2) / (math.sqrt(2 * math.pi) * per_sigma)


# --- Lemma 1 ---------------------------------------------------------------------------------------------------


def stochastic(rng, rows, columns):
    return rng.dirichlet(np.full(columns, 0.5), rows)


def composed(rng, blur):
    """Divergences of two adaptive steps, and of the product of pairs: dominating ones, or a blurred second one."""
    (p1, q1), (p2, q2) = stochastic(rng, 2, 4), stochastic(rng, 2, 4)
    # What post-processing makes of a pair is dominated by it. Blurred, the pair dominates nothing.
    kernels = [np.eye(4) if blur else stochastic(rng, 4, 5) for _ in range(4)]
    joint_p = np.array([p1[y] * (p2 @ kernels[y]) for y in range(4)])
    joint_q = np.array([q1[y] * (q2 @ kernels[y]) for y in range(4)])
    p2, q2 = (1 - blur) * p2 + blur * q2, (1 - blur) * q2 + blur * p2
    return hockey_sticks(joint_p, joint_q), hockey_sticks(np.outer(p1, p2), np.outer(q1, q2))


def test_lemma_1_domination_composes_adaptively():
    rng = np.random.default_rng(1)
    for _ in range(500):
        true, bound = composed(rng, blur=0.0)
        assert (true <= bound + 1e-12).all()


def test_control_a_pair_that_does_not_dominate_one_step_is_caught_after_two():
    rng = np.random.default_rng(1)
    caught = sum(
        (true > bound + 1e-6).any() for true, bound in (composed(rng, 0.1) for _ in range(500))
    )
    assert caught > 400


# --- Lemma 2 ---------------------------------------------------------------------------------------------------


def plane_and_line(rng, factor):
    """Divergences of a mixture in the plane, and of the mixture on the line with `factor` times the norms."""
    sigma, count = rng.uniform(0.4, 1.5), rng.integers(1, 5)
    weights, vectors = rng.uniform(0, 1, count), rng.normal(size=(count, 2))
    if factor < 1:
        vectors[:, 1] = 0  # where the lemma is an equality
        vectors[:, 0] = np.abs(vectors[:, 0])
    low, high = vectors.min() - 1, vectors.max() + 1
    across, along = (gaussians([0, *vectors[:, d]], sigma, low, high, 25) for d in (0, 1))
    plane = np.einsum("ca,cb->cab", across, along)
    on_line = gaussians(factor * np.linalg.norm(vectors, axis=1), sigma, 0, 5, 400)
    q = gaussians([0], sigma, 0, 5, 400)[0]
    return (
        hockey_sticks(np.tensordot(weights, plane[1:], 1), plane[0]),
        hockey_sticks(weights @ on_line, q),
    )


def test_lemma_2_vectors_may_be_put_on_a_line():
    rng = np.random.default_rng(2)
    for _ in range(60):
        plane, line = plane_and_line(rng, 1.0)
        assert (plane <= line + 2e-4).all()


def test_control_a_line_with_shorter_vectors_is_caught():
    rng = np.random.default_rng(2)
    caught = 0
    for _ in range(60):
        plane, line = plane_and_line(rng, 0.8)
        caught += bool((plane > line + 1e-3).any())
    assert caught > 50


# --- Lemma 3 ---------------------------------------------------------------------------------------------------


def moved(rng, up):
    """Divergences before and after a part of a mixture's mass moves."""
    sigma, count = rng.uniform(0.3, 2), rng.integers(1, 5)
    weights, means = rng.uniform(0, 1, count), rng.uniform(0, 3, count)
    share, step = rng.uniform(0, 1, count) * weights, rng.uniform(0, 2)
    step = step if up else -np.minimum(step, means)
    density = gaussians([*means, *(means + step)], sigma, -1, 6)
    q = gaussians([0], sigma, -1, 6)[0]
    before = weights @ density[:count]
    return hockey_sticks(before, q), hockey_sticks(
        before + share @ (density[count:] - density[:count]), q
    )


def test_lemma_3_mass_moved_up_raises_both_divergences():
    rng = np.random.default_rng(3)
    for _ in range(300):
        before, after = moved(rng, up=True)
        assert (before <= after + 1e-9).all()


def test_control_mass_moved_down_is_caught():
    rng = np.random.default_rng(3)
    caught = [
        (before > after + 1e-6).any() for before, after in (moved(rng, False) for _ in range(300))
    ]
    assert sum(caught) > 250


# --- Theorem B: the chain of pairs -----------------------------------------------------------------------------


def anchored(m, n, degree, k, rate, largest):
    """Weights (l, sensitivity) of the restricted pair of theory.md 2.4, and the weights of l."""
    sizes = np.arange(min(m, largest) + 1)
    chance, counts = binom.pmf(sizes, m, rate), binom.pmf(np.arange(degree + 1), degree, rate)
    weights = np.zeros((len(sizes), degree + 3))
    weights[:, : degree + 1] += np.outer((1 - k / n * sizes) * chance, counts)
    negative = np.where(sizes < largest, k / n * (m - sizes) * rate / (1 - rate) * chance, 0)
    weights[:, 1 : degree + 2] += np.outer(negative, counts)
    return weights, chance


def replacement(m, n, degree, k, rate, largest):
    sizes = np.arange(min(m, largest) + 1)
    chance, counts = binom.pmf(sizes, m, rate), binom.pmf(np.arange(degree + 1), degree, rate)
    weights = np.zeros((len(sizes), degree + 3))
    weights[:, : degree + 1] += np.outer((1 - k / n * sizes) * chance, counts)
    weights[:, 2:] += np.outer(k / n * sizes * chance, counts)
    return weights, chance


def with_dummies(m, dummies, n, degree, k, rate, largest):
    """The anchored pair of a step in which l plus the sampled dummy relations stay within `largest`."""
    counts = binom.pmf(np.arange(degree + 1), degree, rate)
    weights, chances = np.zeros((min(m, largest) + 1, degree + 3)), []
    for size in range(len(weights)):
        chance = binom.pmf(size, m, rate)
        room = binom.cdf(largest - size, dummies, rate)
        more = binom.cdf(largest - size - 1, dummies, rate)
        weights[size, : degree + 1] += (1 - k / n * size) * chance * room * counts
        odds = rate / (1 - rate)
        weights[size, 1 : degree + 2] += k / n * (m - size) * odds * chance * more * counts
        chances.append(chance * room)
    return weights, np.array(chances)


def divergences(pair, sigma, epsilons=EPSILONS):
    weights, chances = pair
    density = gaussians(np.arange(weights.shape[1]), sigma, 0, weights.shape[1])
    return hockey_sticks(weights @ density, np.outer(chances, density[0]), epsilons)


def random_sizes(rng):
    k, degree_bound = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    n_low, m = int(rng.integers(k + 2, 16)), int(rng.integers(1, 9))
    return {
        "k": k,
        "degree": int(rng.integers(0, degree_bound + 1)),
        "degree_bound": degree_bound,
        "n_low": n_low,
        "n": n_low + int(rng.integers(0, 5)),
        "m": m,
        "m_high": m + int(rng.integers(0, 5)),
        "rate": float(rng.uniform(0.02, 0.8)),
        "sigma": float(rng.uniform(0.3, 2)),
        "largest": (n_low - 1) // k,
    }


def test_theorem_b_bounds_on_sizes_dominate_every_smaller_graph():
    rng = np.random.default_rng(4)
    without_dummies = 0
    for _ in range(200):
        s = random_sizes(rng)
        rest = (s["k"], s["rate"], s["largest"])
        bound = divergences(anchored(s["m_high"], s["n_low"], s["degree_bound"], *rest), s["sigma"])
        pair = with_dummies(s["m"], s["m_high"] - s["m"], s["n"], s["degree"], *rest)
        assert pair[0].sum() == pytest.approx(pair[1].sum(), abs=1e-12)
        assert (divergences(pair, s["sigma"]) <= bound + 1e-9).all(), s
        plain = divergences(anchored(s["m"], s["n"], s["degree"], *rest), s["sigma"])
        without_dummies += bool((plain > bound + 1e-6).any())
    # The control: restricted pairs as they are, which the overflow charge has to pay for.
    assert without_dummies > 60


# --- Theorem B: everything listed, overflow included -----------------------------------------------------------


def outputs(relations, pool, k, rate, gradient):
    """The law of the clipped sum of one step of theory.md 1, an empty batch where negatives do not suffice."""
    law = {}
    for size in range(len(relations) + 1):
        chance = rate**size * (1 - rate) ** (len(relations) - size)
        for batch in itertools.combinations(relations, size):
            draws = [()]
            if k * size <= len(pool):
                draws = list(itertools.permutations(pool, k * size))
            for draw in draws:
                parts = [gradient(r, draw[i * k : (i + 1) * k]) for i, r in enumerate(batch)]
                total = round(sum(parts), 6) if draw else 0.0
                law[total] = law.get(total, 0.0) + chance / len(draws)
    return law


def listed(law, sigma):
    return np.array(list(law.values())) @ gaussians(list(law), sigma, -6, 6)


GRADIENTS = [(1, 1, -1), (1, 1, 0), (-1, 1, 0.5), (-1, -1, 1)]  # u's own, u a negative, neither


EPS = np.array([0.0, 0.05, 0.2, 0.5, 1.0, 2.0])


def enumerated(seed, count, epsilons=EPS):
    """(bounds on sizes, their largest batch, the chance of larger ones, true divergences) of tiny graphs."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        k, n = int(rng.integers(1, 3)), int(rng.integers(4, 6))
        m, degree = int(rng.integers(1, 4)), int(rng.integers(0, 3))
        rate, sigma = float(rng.uniform(0.1, 0.8)), float(rng.uniform(0.3, 1.5))
        bounds = {
            "num_relations": m + int(rng.integers(0, 3)),
            "pool_size": n - int(rng.integers(0, 2)),
            "max_degree": max(degree, 1),
            "num_negatives": k,
            "sample_rate": rate,
            "noise_multiplier": sigma,
        }
        largest = (bounds["pool_size"] - 1) // k
        missed = binom.sf(largest, bounds["num_relations"] + bounds["max_degree"], rate)
        others = list(itertools.combinations(range(1, n), 2))[:m]
        mine = [(0, v) for v in range(1, degree + 1)]
        for own, negative, neither in GRADIENTS:

            def gradient(relation, negatives, own=own, negative=negative, neither=neither):
                return own if 0 in relation else negative if 0 in negatives else neither

            p = listed(outputs(others + mine, range(n), k, rate, gradient), sigma)
            q = listed(outputs(others, range(1, n), k, rate, gradient), sigma)
            yield bounds, largest, missed, hockey_sticks(p, q, epsilons)


def test_theorem_b_covers_batches_that_cannot_be_drawn():
    uncharged = 0
    for bounds, largest, missed, true in enumerated(seed=5, count=40):
        charge = missed * np.array([np.ones(len(EPS)), 1 + np.exp(EPS)])
        *sizes, sigma = bounds.values()
        m, n, degree, k, rate = sizes
        for analysis in (anchored, replacement):
            bound = divergences(analysis(m, n, degree, k, rate, largest), sigma, EPS)
            assert (true <= bound + charge + 1e-6).all()
            uncharged += bool((true > bound + 1e-4).any())
    assert uncharged > 20  # the control: without the charge the statement is false


def test_the_accountants_own_pairs_and_charge_cover_every_graph_within_the_bounds():
    """The accountant keeps A^(+1) at the largest batch and charges e^eps times c for it."""
    uncharged = tried = 0
    for bounds, _, missed, true in enumerated(seed=6, count=40):
        try:
            step = CoupledStep(**bounds)
        except PlanError:  # the expected batch alone needs more negatives than there are
            continue
        tried += 1
        chance = math.exp(log_overflow(step))
        assert chance >= missed * (1 - 1e-12)
        extra = 1 + step.num_negatives / step.pool_size
        factor = extra * (1 + chance * (extra - 1))
        charge = missed * np.array([np.ones(len(EPS)), 1 + factor * np.exp(EPS)])
        for analysis in ("anchored", "replacement"):
            bound = np.array(hockey_stick(dominating_pair(step, analysis, -200.0), EPS))
            assert (true <= bound + charge + 1e-6).all(), (bounds, analysis)
            uncharged += bool((true > bound + 1e-4).any())
    assert tried > 100
    assert uncharged > 20


@pytest.mark.parametrize("scale", [1.0, 5.0, 50.0, 250.0])
def test_noisy_bounds_miss_their_side_as_rarely_as_theory_says(scale):
    """theory.md 2.4: P[dLap(s) > t] <= exp(-(t + 1) / s) for integers t >= 0, and nearly as much."""
    for t in (0, 3, 100):
        exact = math.exp(-(t + 1) / scale) / (1 + math.exp(-1 / scale))
        terms = np.exp(-np.arange(t + 1, t + 60 * scale) / scale)
        summed = terms.sum() * math.tanh(1 / (2 * scale))
        assert summed == pytest.approx(exact, rel=1e-9)
        assert 0.49 * math.exp(-(t + 1) / scale) < exact <= math.exp(-(t + 1) / scale)


# --- Proposition 1 ---------------------------------------------------------------------------------------------


def worst_outcomes(epsilon, delta):
    """The two laws on four outcomes that no (epsilon, delta) guarantee can exceed, in both directions."""
    larger = (1 - delta) / (1 + math.exp(-epsilon))
    p = np.array([delta, larger, 1 - delta - larger, 0.0])
    return p, p[::-1]


def release_and_training(epsilon, delta, release_epsilon, failure, at):
    """max H over both directions of a noisy bound y on n and of training whose worst law depends on y.

    Neighbors have 0 and -1 entities; y is valid if it is at most 0. Where it is not, nothing is guaranteed.
    """
    margin = math.ceil(math.log(1 / failure) / release_epsilon)
    noise = np.arange(-60 * margin, 60 * margin)
    values = []
    for larger, smaller in ((0, -1), (-1, 0)):
        chances = [
            np.exp(-release_epsilon * np.abs(noise + margin - n)) * math.tanh(release_epsilon / 2)
            for n in (larger, smaller)
        ]
        # The plan may be any function of y, so each y takes the direction that reveals most.
        p, q = worst_outcomes(epsilon, delta)
        joint = [
            np.maximum(chances[0][:, None] * a - math.exp(at) * chances[1][:, None] * b, 0).sum(1)
            for a, b in ((p, q), (q, p))
        ]
        values.append(np.where(noise <= 0, np.maximum(*joint), chances[0]).sum())
    return max(values)


@pytest.mark.parametrize("release_epsilon", [0.05, 0.4])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (2.0, 0.0)])
def test_proposition_1_release_and_training_add_up(epsilon, delta, release_epsilon):
    failure = 1e-3
    at = epsilon + release_epsilon
    true = release_and_training(epsilon, delta, release_epsilon, failure, at)
    assert true <= delta + 2 * failure
    assert true > delta  # a failure of the bound is really charged


def test_control_a_release_that_is_not_charged_is_caught():
    true = release_and_training(0.5, 1e-3, 0.4, 1e-3, at=0.5)
    assert true > 1e-3 + 2e-3
