"""Slow, independent versions of what the accountants compute, written from theory.md 3.

Nothing here uses reldp's own mixtures, windows, quadrature or FFT. The number l of positives is listed in full, so
steps must be small and every batch drawable.
"""

import math

import mpmath as mp
import numpy as np


def components(step, analysis, size):
    """(weight, shift) of the side with the entity, given `size` positives that do not touch it; rho is their sum."""
    k, n, m = step.num_negatives, step.pool_size, step.num_relations
    rate = mp.mpf(step.sample_rate)
    if analysis == "replacement":
        without, moved, jump = (
            1 - mp.mpf(k * size) / n,
            mp.mpf(k * size) / n,
            step.negative_replacement,
        )
    else:
        without, jump = 1 - mp.mpf(k * size) / n, step.negative_removal
        moved = (m - size) * rate / (1 - rate) * k / n if k else mp.mpf(0)
    degree = step.max_degree
    found = []
    for i in range(degree + 1):
        chance = mp.binomial(degree, i) * rate**i * (1 - rate) ** (degree - i)
        found += [(chance * without, mp.mpf(i)), (chance * moved, mp.mpf(i) + mp.mpf(jump))]
    return [(weight, sensitivity) for weight, sensitivity in found if weight > 0]


def batch_sizes(step):
    """(size, probability); one size where no entity of the pool is protected."""
    if not step.num_negatives:
        return [(0, mp.mpf(1))]
    m, rate = step.num_relations, mp.mpf(step.sample_rate)
    assert step.num_negatives * m < step.pool_size, "every batch must be drawable"
    return [(i, mp.binomial(m, i) * rate**i * (1 - rate) ** (m - i)) for i in range(m + 1)]


def renyi_moments(step, analysis, order):
    """E of theory.md 3.3 for removal and insertion."""
    sigma = mp.mpf(step.noise_multiplier)
    totals = [mp.mpf(0), mp.mpf(0)]
    for size, chance in batch_sizes(step):
        parts = components(step, analysis, size)
        reach = int(order * float(max(s for _, s in parts)) / float(sigma)) + 12
        edges = [mp.mpf(x) for x in range(-reach, reach + 1, 2)]

        def ratio(x, parts=parts):
            return mp.fsum(w * mp.exp(s * x / sigma - (s / sigma) ** 2 / 2) for w, s in parts)

        for place, power in enumerate((order, 1 - order)):
            totals[place] += chance * mp.quad(
                lambda x, p=power: mp.npdf(x) * ratio(x) ** p, edges, maxdegree=5
            )
    return totals


def hockey_sticks(step, analysis, epsilon):
    """Divergences of one step at epsilon for removal and insertion, by the root of the likelihood ratio."""
    sigma = mp.mpf(step.noise_multiplier)
    removal, insertion = mp.mpf(0), mp.mpf(0)
    for size, chance in batch_sizes(step):
        parts = components(step, analysis, size)
        for level, sign in ((mp.mpf(epsilon), 1), (-mp.mpf(epsilon), -1)):
            x = _root(parts, sigma, mp.exp(level))
            with_entity = mp.fsum(w * mp.ncdf(sign * (s / sigma - x)) for w, s in parts)
            without = mp.ncdf(-sign * x)
            if sign > 0:
                removal += chance * max(0, with_entity - mp.exp(epsilon) * without)
            else:
                insertion += chance * max(0, without - mp.exp(epsilon) * with_entity)
    return removal, insertion


def _root(parts, sigma, level):
    """x/s at which the ratio is `level`, by bisection; -60 where it is always larger."""
    low, high = mp.mpf(-60), mp.mpf(200)
    for _ in range(90):
        middle = (low + high) / 2
        value = mp.fsum(w * mp.exp(s * middle / sigma - (s / sigma) ** 2 / 2) for w, s in parts)
        low, high = (low, middle) if value > level else (middle, high)
    return high


class Simulation:
    """Total losses of many runs of T steps, drawn from theory.md's pair: a Monte-Carlo view of the truth.

    `delta(epsilon)` is a confidence interval of the larger direction's divergence by the empirical Bernstein
    inequality, wrong with probability at most `alarm` for each direction and side.
    """

    def __init__(self, step, analysis, num_steps, runs, seed, alarm=1e-7):
        rng = np.random.default_rng(seed)
        self._alarm = alarm
        self._totals = [np.zeros(runs), np.zeros(runs)]
        sizes = batch_sizes(step)
        rows = [components(step, analysis, size) for size, _ in sizes]
        width = max(len(row) for row in rows)
        weights = np.array([[float(w) for w, _ in r] + [0.0] * (width - len(r)) for r in rows])
        sensitivities = np.array(
            [[float(s) for _, s in r] + [0.0] * (width - len(r)) for r in rows]
        )
        chance = np.array([float(c) for _, c in sizes])
        joint = (chance[:, None] * weights).ravel()
        sigma = step.noise_multiplier
        for _ in range(num_steps):
            cell = rng.choice(len(joint), size=runs, p=joint / joint.sum())
            row = cell // width
            x = sensitivities.ravel()[cell] / sigma + rng.standard_normal(runs)
            self._totals[0] += _loss(weights[row], sensitivities[row], sigma, x)
            row = rng.choice(len(chance), size=runs, p=chance / chance.sum())
            self._totals[1] -= _loss(
                weights[row], sensitivities[row], sigma, rng.standard_normal(runs)
            )

    def delta(self, epsilon):
        """Lower and upper end of the interval for the larger direction."""
        endpoints = [self._interval(np.maximum(-np.expm1(epsilon - t), 0.0)) for t in self._totals]
        return max(low for low, _ in endpoints), max(high for _, high in endpoints)

    def _interval(self, values):
        count, log_term = len(values), math.log(2 / self._alarm)
        margin = math.sqrt(2 * values.var(ddof=1) * log_term / count) + 7 * log_term / (
            3 * (count - 1)
        )
        return values.mean() - margin, values.mean() + margin


def _loss(weights, sensitivities, sigma, x):
    rise = sensitivities / sigma * (x[:, None] - sensitivities / sigma / 2)
    return np.log((weights * np.exp(rise)).sum(axis=1))
