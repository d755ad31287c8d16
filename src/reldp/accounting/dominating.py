"""The dominating pair of one step: the worst two output distributions that neighboring graphs can give.

theory.md 3.1 and 3.2 both have one form. Given the number l of positives that do not touch the entity, the
step with it is a measure  M_l = sum_c p_c(l) N(v_c, sigma^2)  and the step without it is  N(0, sigma^2), and
the weights p_c(l) are affine in l:

    replacement:  (1 - kl/n) Bin(i; K, gamma) at v = i     and  (kl/n) Bin(i; K, gamma)            at v = i + 2j
    anchored:     (1 - kl/n) Bin(i; K, gamma) at v = i     and  (m - l) g' (k/n) Bin(i; K, gamma)  at v = i + 1

(the anchored total is rho_l). Every divergence used here is a convex function of M_l, so of l. Therefore
spreading l onto a few nodes with its mean kept (chords instead of the curve) can only raise it: that is
how thousands of batch sizes become a few dozen nodes, every error upwards and of second order.
Tails count as well: the mass of l outside its window is added at both ends of l's range, and both tails of i at
sensitivities rounded up, beside the measure. On removal they are added, on insertion they are mass that the other side
lacks.

>>> from reldp.accounting.events import CoupledStep
>>> step = CoupledStep(num_relations=1000, pool_size=500, max_degree=2, num_negatives=4, sample_rate=0.01,
...                    noise_multiplier=1.0)
>>> pair = dominating_pair(step, "anchored", log_tail=-60.0)
>>> pair.sensitivities.tolist()
[0.0, 1.0, 2.0, 3.0]
>>> round(float(pair.node_weights @ np.exp(pair.log_weights).sum(axis=1)), 9)
1.0
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reldp.accounting.binomial import binomial_window, log_upper_tail
from reldp.accounting.events import CoupledStep

__all__ = ["DominatingPair", "dominating_pair"]

Array = npt.NDArray[np.floating[Any]]

MAX_COMPONENTS = 256
TAIL_GROWTH = 1.1


@dataclass(frozen=True)
class DominatingPair:
    """Measures M_r = sum_c exp(log_weights[r, c]) N(sensitivities[c], sigma^2), one per node r, against N(0, sigma^2).

    Attributes:
        sensitivities: Increasing, in units of the clip norm; sensitivities[0] is 0.  (C,)
        log_weights: Natural logs; -inf where a component is absent.  (R, C)
        node_weights: Probabilities of the nodes of l, which both sides share.  (R,)
        sigma: Noise multiplier.
        excess: Total mass of each M_r minus 1, without cancellation.  (R,)
        tail_sensitivities: Sensitivities that the tails of i are rounded up to.  (G,)
        tail_log_weights: Logs of upper bounds on the tails' masses, the same for every node.  (G,)
    """

    sensitivities: Array
    log_weights: Array
    node_weights: Array
    sigma: float
    excess: Array
    tail_sensitivities: Array
    tail_log_weights: Array


def _log(values: npt.ArrayLike) -> Array:
    """Natural log that takes zero to -inf in silence."""
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(values, dtype=np.float64))


def _relation_counts(
    degree: int, rate: float, log_tail: float
) -> tuple[Array, Array, Array, Array]:
    """Sensitivities and log weights of i ~ Bin(degree, rate), then those of its tails, rounded up."""
    # The window always holds i = 1, however rare.
    log_tail = min(log_tail, log_upper_tail(degree, rate, 0.0))
    window = binomial_window(degree, rate, log_tail)
    # True probabilities, their sum below 1: on insertion the window may not stand in for its tails.
    wide = binomial_window(degree, rate, log_tail - 45.0)
    sensitivities = window.values
    weights = wide.probabilities[window.low - wide.low : window.high - wide.low + 1]
    if (
        len(sensitivities) > MAX_COMPONENTS
    ):  # groups of neighboring counts, each moved up to its largest
        group = -(-len(sensitivities) // MAX_COMPONENTS)
        starts = np.arange(0, len(sensitivities), group)
        weights = np.add.reduceat(weights, starts)
        sensitivities = sensitivities[np.minimum(starts + group - 1, len(sensitivities) - 1)]
    tail_sensitivities, tail_logs = [], []
    if window.low > 0:
        tail_sensitivities.append(float(sensitivities[0]))
        tail_logs.append(window.log_tail)
    edge = window.high
    while edge < degree:
        top = min(degree, max(edge + 1, math.ceil(edge * TAIL_GROWTH)))
        tail_sensitivities.append(float(top))
        tail_logs.append(log_upper_tail(degree, rate, edge))
        edge = top
    return sensitivities, _log(weights), np.array(tail_sensitivities), np.array(tail_logs)


def _nodes(
    size: int, rate: float, largest: float, log_tail: float, spacing: float
) -> tuple[Array, Array]:
    """Nodes and weights of l ~ Bin(size, rate), its mean kept between neighboring nodes."""
    window = binomial_window(size, rate, log_tail)
    high = min(float(window.high), largest)
    inside = window.values <= high
    values, weights = window.values[inside], window.probabilities[inside]
    deviation = math.sqrt(size * rate * (1 - rate))
    mean = size * rate
    steps = np.concatenate(
        [[-18, -13, -9.5, -7.5, -6], np.arange(-5, 5.01, spacing), [6, 7.5, 9.5, 13, 18]]
    )
    nodes = mean + deviation * steps
    nodes = nodes[(nodes > max(window.low, 0)) & (nodes < high)]
    nodes = np.unique(np.concatenate([[0.0], [float(window.low)], nodes, [high], [largest]]))
    if len(values) <= len(nodes):
        nodes = np.unique(np.concatenate([[0.0], values, [largest]]))
    if len(nodes) == 1:
        return nodes, np.ones(1)
    right = np.clip(np.searchsorted(nodes, values, side="left"), 1, len(nodes) - 1)
    share = (values - nodes[right - 1]) / (nodes[right] - nodes[right - 1])
    spread = np.zeros(len(nodes))
    np.add.at(spread, right, weights * share)
    np.add.at(spread, right - 1, weights * (1 - share))
    # Outside the window a convex function is at most its value at 0 plus its value at the largest l.
    outside = 2.0 * math.exp(window.log_tail)  # both sides of the window
    spread[0] += outside
    spread[-1] += outside
    keep = spread > 0
    return nodes[keep], spread[keep]


def dominating_pair(
    event: CoupledStep, analysis: str, log_tail: float, node_spacing: float = 0.125
) -> DominatingPair:
    """Return the dominating pair of one step under one analysis.

    Args:
        event: The step.
        analysis: ``"replacement"`` (theory.md 3.1) or ``"anchored"`` (3.2).
        log_tail: Log of the probability beyond which i and l are handled by tail bounds.
        node_spacing: Distance of the nodes of l in standard deviations; a wider one errs upwards.
    """
    if event.claimed_constant:
        return _claimed_pair(event, log_tail, node_spacing)
    sensitivities, log_counts, tail_sensitivities, tail_logs = _relation_counts(
        event.max_degree, event.sample_rate, log_tail
    )
    weights: Array = np.ones(1)
    excess: Array = np.zeros(1)
    log_without: Array = np.zeros(1)
    log_with: Array = np.full(1, -np.inf)
    jump = 0.0
    if event.num_negatives:
        k, n, m = event.num_negatives, event.pool_size, event.num_relations
        # Both neighbors can draw batches of up to L positives; `overflow` charges the others (theory.md 2.4).
        largest = (n - 1) // k
        # Many components mean many relations per entity, which hide what the nodes resolve.
        node_spacing = max(node_spacing, min(1.0, node_spacing * len(sensitivities) / 32))
        nodes, weights = _nodes(m, event.sample_rate, min(m, largest), log_tail, node_spacing)
        excess = np.zeros(len(nodes))
        with np.errstate(divide="ignore"):
            log_without = np.log1p(-np.minimum(k * nodes / n, 1.0))
        if analysis == "replacement":
            log_with, jump = _log(k * nodes / n), event.negative_replacement
            tail_scale = 0.0
        else:
            odds = event.sample_rate / (1 - event.sample_rate)
            jump = event.negative_removal or 0.0
            log_with = _log((m - nodes) * odds * k / n)
            excess = -(k / n) * (nodes - event.sample_rate * m) / (1 - event.sample_rate)
            tail_scale = float(np.logaddexp(log_without, log_with).max())
        tail_sensitivities, tail_logs = tail_sensitivities + jump, tail_logs + max(tail_scale, 0.0)
    sensitivities, log_weights = _assemble(sensitivities, log_counts, log_without, log_with, jump)
    return DominatingPair(
        sensitivities,
        log_weights,
        weights,
        event.noise_multiplier,
        excess,
        tail_sensitivities,
        tail_logs,
    )


def _claimed_pair(event: CoupledStep, log_tail: float, spacing: float) -> DominatingPair:
    """Return the frequency rule's claim: sensitivity 1 with probability Gamma_l = 1 - (1-gamma)^K (1 - kl/n)."""
    k, n = event.num_negatives, event.pool_size
    if k:
        m = event.num_relations
        nodes, weights = _nodes(m, event.sample_rate, min(m, n // k), log_tail, spacing)
    else:
        nodes, weights = np.zeros(1), np.ones(1)
    with np.errstate(divide="ignore"):
        log_still = event.max_degree * np.log1p(-event.sample_rate) + np.log1p(
            -np.minimum(k * nodes / n, 1.0)
        )
    log_moved = _log(-np.expm1(log_still))
    log_weights = np.stack([log_still, log_moved], axis=1)
    none = np.zeros(0)
    return DominatingPair(
        np.array([0.0, 1.0]),
        log_weights,
        weights,
        event.noise_multiplier,
        np.zeros(len(nodes)),
        none,
        none,
    )


def _assemble(
    counts: Array, log_counts: Array, log_without: Array, log_with: Array, jump: float
) -> tuple[Array, Array]:
    """Sensitivities that start with 0, and both mixtures on them.  (C,), (R, C)."""
    sensitivities = np.unique(np.concatenate([[0.0], counts, counts + jump]))
    log_weights = np.full((len(log_without), len(sensitivities)), -np.inf)
    still = np.searchsorted(sensitivities, counts)
    log_weights[:, still] = log_without[:, None] + log_counts[None, :]
    moved = np.searchsorted(sensitivities, counts + jump)
    log_weights[:, moved] = np.logaddexp(
        log_weights[:, moved], log_with[:, None] + log_counts[None, :]
    )
    present = np.isfinite(log_weights).any(axis=0)
    present[0] = True
    return sensitivities[present], log_weights[:, present]
