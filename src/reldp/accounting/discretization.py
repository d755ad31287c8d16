"""From a dominating pair to a pessimistic discrete privacy-loss distribution.

The privacy loss of node r at output x is L_r(x) = log sum_c p_c exp(v_c x / s^2 - v_c^2 / 2 s^2), increasing and
convex in x. Newton's method finds the outputs of all chosen loss values at once; without the constant component
the function is convex with slope at least the smallest sensitivity, so Newton's steps from an upper bound fall
monotonically to the root. Between two neighboring loss values a < b lie mass P of one side and mass Q of the other;
they are put on the two ends so that both totals are kept,

    at b: (P - e^a Q) / (1 - e^(a-b))        at a: the rest of P,

which is the connect-the-dots discretization (arXiv:2207.04380): the hockey-stick curve is replaced by chords, every
error upwards. What lies above the highest loss value goes to infinity. The values need not be equally spaced: they are
dense where the mass is and sparse in the tails, always multiples of one interval, so that they can be
composed by FFT.

>>> from reldp.accounting.events import CoupledStep
>>> from reldp.accounting.dominating import dominating_pair
>>> step = CoupledStep(num_relations=100, pool_size=100, max_degree=1, num_negatives=0, sample_rate=1.0,
...                    noise_multiplier=1.0)
>>> removal, insertion = discretize(dominating_pair(step, "replacement", -80.0), np.arange(-100, 101), 0.1)
>>> round(float(removal.masses.sum() + removal.infinity), 9)
1.0
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr

from reldp.accounting.dominating import DominatingPair
from reldp.accounting.log_sum import log_sum_exp

__all__ = [
    "LossDistribution",
    "discretize",
    "excess_at",
    "hockey_stick",
    "loss_at",
    "loss_range",
    "output_at",
    "upper_mass",
]

Array = npt.NDArray[np.floating[Any]]

NEWTON_STEPS = 60
CHUNK = 4_000_000
PEAKS = 24


@dataclass(frozen=True)
class LossDistribution:
    """A privacy-loss distribution on multiples of an interval.

    Attributes:
        interval: The spacing.
        positions: Integer multiples of the interval, increasing.  (N,)
        masses: Probabilities, 0 or more.  (N,)
        infinity: Probability of an infinite loss.
    """

    interval: float
    positions: npt.NDArray[np.int64]
    masses: Array
    infinity: float

    @property
    def losses(self) -> Array:
        """Positions times the interval."""
        return self.positions * self.interval


def _exponents(pair: DominatingPair) -> Array:
    """log p_c - v_c^2 / (2 s^2).  (R, C)."""
    return pair.log_weights - pair.sensitivities**2 / (2 * pair.sigma**2)


def loss_at(pair: DominatingPair, standard: Array) -> Array:
    """Privacy loss of every node at outputs x = standard * s.  (E,) -> (R, E)."""
    terms = (
        _exponents(pair)[:, None, :]
        + (pair.sensitivities / pair.sigma)[None, None, :] * standard[None, :, None]
    )
    top = terms.max(axis=2)
    losses: Array = top + np.log(np.exp(terms - top[..., None]).sum(axis=2))
    return losses


def excess_at(pair: DominatingPair, standard: Array) -> Array:
    """exp(loss) - 1 at outputs x = standard * s, precise however small; capped at 1.  (E,) -> (R, E)."""
    rise = (
        pair.sensitivities
        / pair.sigma
        * (standard[:, None] - 0.5 * pair.sensitivities / pair.sigma)
    )  # (E, C)
    weights = pair.log_weights[:, None, :]  # (R, 1, C)
    near = np.exp(weights) * np.expm1(np.minimum(rise, 1.0))
    far = np.exp(np.minimum(weights + rise, 10.0)) - np.exp(weights)  # far above the cap
    total = pair.excess[:, None] + np.where(rise <= 1.0, near, far).sum(axis=2)
    excess: Array = np.minimum(total, 1.0)
    return excess


def output_at(pair: DominatingPair, losses: Array) -> Array:
    """Return outputs x / s at which each node has the given losses, -inf where it is always larger.  (E,) -> (R, E)."""
    width = max(1, CHUNK // max(1, pair.log_weights.size))
    parts = [_newton(pair, losses[i : i + width]) for i in range(0, len(losses), width)]
    return np.concatenate(parts, axis=1)


def _newton(pair: DominatingPair, losses: Array) -> Array:
    constant = pair.log_weights[:, :1]  # (R, 1): the component at sensitivity 0
    gap = losses[None, :] - constant  # (R, E)
    with np.errstate(divide="ignore", invalid="ignore"):
        target = np.where(
            np.isinf(constant),
            np.broadcast_to(losses, gap.shape),
            losses[None, :] + np.log(-np.expm1(-np.maximum(gap, 0.0))),
        )
    slopes = pair.sensitivities[1:] / pair.sigma  # d loss / d (x/s) of each component
    exponents = _exponents(pair)[:, 1:]
    solvable = np.isfinite(target)
    if len(slopes) == 0:  # the loss is constant
        return np.where(solvable, np.inf, -np.inf)
    goal = np.where(solvable, target, 0.0)
    x = np.full(goal.shape, np.inf)
    for c, slope in enumerate(slopes):  # each component alone bounds the root from above
        bound = (goal - exponents[:, c : c + 1]) / slope
        x = np.minimum(x, bound)
    for _ in range(NEWTON_STEPS):
        terms = exponents[:, None, :] + slopes * x[..., None]  # (R, E, C)
        top = terms.max(axis=2)
        np.exp(terms - top[..., None], out=terms)
        total = terms.sum(axis=2)
        excess = top + np.log(total) - goal
        step = excess * total / (terms @ slopes)
        x -= step
        if np.all(np.abs(step) <= 1e-13 * (1.0 + np.abs(x))):
            break
    return np.where(solvable, x, -np.inf)


def upper_mass(pair: DominatingPair, standard: float) -> float:
    """Mass of the side with the entity above output x = standard * s, averaged over the nodes."""
    masses = np.exp(pair.log_weights) @ ndtr(pair.sensitivities / pair.sigma - standard)
    return float(pair.node_weights @ masses)


def _between(edges: Array) -> Array:
    """Return standard normal mass between neighboring edges, exact in both tails.  (..., E) -> (..., E-1)."""
    tail = ndtr(-np.abs(edges))
    low, high = edges[..., :-1], edges[..., 1:]
    tail_low, tail_high = tail[..., :-1], tail[..., 1:]
    same = np.where(low >= 0, tail_low - tail_high, tail_high - tail_low)
    masses: Array = np.where((low < 0) & (high > 0), 1.0 - tail_low - tail_high, same)
    return masses


def _interval_masses(pair: DominatingPair, losses: Array) -> tuple[Array, Array]:
    """Masses of both sides below, between and above the loss values, averaged over nodes.  (E,) -> (E+1,) twice."""
    x = output_at(pair, losses)  # (R, E)
    endpoints = np.full((len(x), 1), np.inf)
    edges = np.concatenate([-endpoints, x, endpoints], axis=1)  # (R, E+2)
    without = pair.node_weights @ _between(edges)
    with_entity = np.zeros(len(losses) + 1)
    weights = np.exp(pair.log_weights) * pair.node_weights[:, None]
    for c, sensitivity in enumerate(pair.sensitivities):
        with_entity += weights[:, c] @ _between(edges - sensitivity / pair.sigma)
    return with_entity, without


def _connect(
    upper: Array, lower: Array, positions: npt.NDArray[np.int64], interval: float
) -> LossDistribution:
    """Connect-the-dots from masses below, between and above the positions."""
    losses = positions * interval
    width = np.diff(losses)
    inner, inner_lower = upper[1:-1], lower[1:-1]
    with np.errstate(over="ignore", invalid="ignore"):
        excess = inner - np.exp(losses[:-1]) * inner_lower
    excess = np.where(np.isfinite(excess), excess, inner)
    to_right = np.clip(excess / -np.expm1(-width), 0.0, inner)
    masses = np.zeros(len(positions))
    masses[1:] += to_right
    masses[:-1] += inner - to_right
    masses[0] += upper[0]  # losses below the lowest value are raised to it
    with np.errstate(over="ignore"):
        held = min(upper[-1], float(np.exp(min(losses[-1], 700.0)) * lower[-1]))
    masses[-1] += held
    return LossDistribution(interval, positions, masses, float(upper[-1] - held))


def discretize(
    pair: DominatingPair, positions: npt.NDArray[np.int64], interval: float
) -> tuple[LossDistribution, LossDistribution]:
    """Loss distributions for removal (with against without) and insertion (without against with).

    Args:
        pair: The dominating pair.
        positions: Increasing integers; positions times interval are the removal losses to keep. The
            insertion losses are their negatives.
        interval: The spacing.
    """
    with_entity, without = _interval_masses(pair, positions * interval)
    beyond = float(np.exp(pair.tail_log_weights).sum())
    removal = _connect(with_entity, without, positions, interval)
    insertion = _connect(without[::-1], with_entity[::-1], -positions[::-1], interval)
    # The far tail of i: infinite loss on removal; on insertion it is mass that the other side lacks.
    removal = LossDistribution(interval, positions, removal.masses, removal.infinity + beyond)
    return removal, insertion


def hockey_stick(pair: DominatingPair, losses: Array) -> tuple[Array, Array]:
    """Exact hockey-stick divergences of one step at epsilon = losses: removal, then insertion.  (E,) -> (E,) twice."""
    weights = np.exp(pair.log_weights)
    centers = pair.sensitivities / pair.sigma
    x = output_at(pair, losses)  # (R, E): removal keeps outputs above it
    above = np.einsum("rc,rec->re", weights, ndtr(centers - x[..., None]))
    removal = pair.node_weights @ (above - np.exp(losses[None, :] + log_ndtr(-x)))
    x = output_at(pair, -losses)  # insertion keeps outputs below it
    with np.errstate(divide="ignore"):
        log_below = log_sum_exp(
            pair.log_weights[:, None, :] + log_ndtr(x[..., None] - centers), axis=2
        )
    insertion = pair.node_weights @ (ndtr(x) - np.exp(losses[None, :] + log_below))
    beyond = float(np.exp(pair.tail_log_weights).sum())
    return np.maximum(removal, 0.0) + beyond, np.maximum(insertion, 0.0)


def loss_range(pair: DominatingPair, rare: float) -> tuple[float, float]:
    """Lowest and highest loss that matter when mass `rare` on either side may be ignored; an estimate, not a bound."""
    reach = 40.0
    x_high = _bisect(
        lambda x: upper_mass(pair, x) <= rare,
        -reach,
        float(pair.sensitivities[-1]) / pair.sigma + reach,
    )
    x_low = _bisect(lambda x: float(ndtr(x)) > rare, -reach, reach)
    x = _outputs(pair, x_low, x_high)
    losses = loss_at(pair, x)  # (R, E)
    nodes = pair.node_weights[:, None]
    without = nodes * _between(x)[None, :]
    with_entity = np.zeros(without.shape)
    for c, sensitivity in enumerate(pair.sensitivities):
        with_entity += (
            nodes
            * np.exp(pair.log_weights[:, c : c + 1])
            * _between(x - sensitivity / pair.sigma)[None, :]
        )
    lowest = _quantile(losses[:, :-1], without, rare)
    return lowest, -_quantile(-losses[:, 1:], with_entity, rare)


def _outputs(pair: DominatingPair, low: float, high: float) -> Array:
    """Return outputs x/s from low to high, dense around up to PEAKS of the components.  (E,)."""
    step = -(-len(pair.sensitivities) // PEAKS)
    centers = pair.sensitivities[::-step] / pair.sigma
    near = (centers[:, None] + np.linspace(-14.0, 14.0, 29)).ravel()
    near = near[(near > low) & (near < high)]
    return np.unique(np.concatenate([np.linspace(low, high, 201), near]))


def _quantile(values: Array, masses: Array, rare: float) -> float:
    """Return the largest value with at most mass `rare` below it."""
    order = np.argsort(values, axis=None)
    below = np.cumsum(masses.ravel()[order])
    index = int(np.searchsorted(below, rare))
    return float(values.ravel()[order[min(index, len(order) - 1)]])


def _bisect(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the smallest argument, to 1e-9, at which the monotone condition holds."""
    for _ in range(80):
        middle = 0.5 * (low + high)
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
