"""Composes discrete privacy-loss distributions and reads epsilon, every error upwards.

The sum of T losses is computed by FFT after an exponential tilt: masses are multiplied by exp(theta L), theta chosen
so that the tilted sum is centred where the answer lies. Rounding is then relative to the answer, not to 1, so delta =
1e-30 is as accurate as 1e-5 (a plain FFT loses everything below about 1e-15). Three things are added to delta:

* the infinite losses, 1 - (1 - infinity)^T;
* the mass above the FFT window, by Chernoff's bound (what wraps round from below only adds);
* a bound on the FFT's rounding, added to every bin.

>>> coin = LossDistribution(1.0, np.array([-1, 1]), np.array([0.25, 0.75]), 0.0)
>>> round(epsilon_of([(coin, 1)], delta=0.25), 3)  # 0.75 (1 - exp(epsilon - 1)) = 0.25
0.595
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import fft
from scipy.special import logsumexp

from reldp.accounting.discretisation import LossDistribution

__all__ = ["epsilon_of", "window_size"]

Array = npt.NDArray[np.floating[Any]]
Parts = list[tuple[LossDistribution, int]]

ROUNDING = np.finfo(np.float64).eps
NEGLIGIBLE = 1e-4  # share of delta that each truncation may take
RETILTS = 6


def _log_moment(parts: Parts, rate: float) -> float:
    """log E exp(rate * total loss), infinite losses left out."""
    with np.errstate(divide="ignore"):
        return sum(
            count * float(logsumexp(rate * part.losses + np.log(part.masses)))
            for part, count in parts
        )


def _chernoff(parts: Parts, log_mass: float, sign: int) -> tuple[float, float]:
    """The lowest bound b with P[sign * loss > b] <= exp(log_mass), and the rate that gives it."""
    largest = max(float(np.abs(part.losses).max()) for part, _ in parts)

    def bound(log_rate: float) -> float:
        rate = math.exp(log_rate)
        return (_log_moment(parts, sign * rate) - log_mass) / rate

    grid = np.linspace(math.log(1e-4 / largest), math.log(1e8 / largest), 56)
    values = [bound(g) for g in grid]
    best = int(np.argmin(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(24):  # golden section
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if bound(left) <= bound(right):
            high = right
        else:
            low = left
    middle = 0.5 * (low + high)
    return min(bound(middle), values[best]), math.exp(middle)


def window_size(parts: Parts, delta: float) -> int:
    """How many bins the composition of these parts needs."""
    low, high, _ = _window(parts, delta)
    return int((high - low) / parts[0][0].interval) + 3


def _window(parts: Parts, delta: float) -> tuple[float, float, float]:
    """Lower and upper end of the window, and the tilt."""
    log_rare = math.log(delta) + math.log(NEGLIGIBLE)
    high, _ = _chernoff(parts, log_rare, 1)
    low, _ = _chernoff(parts, log_rare, -1)
    _, tilt = _chernoff(parts, math.log(delta), 1)
    return -low, max(high, -low), tilt


def _tilted_sum(parts: Parts, tilt: float, size: int) -> tuple[Array, float]:
    """Tilted masses of the total loss modulo `size`, and a bound on each one's rounding error."""
    log_power = np.zeros(size // 2 + 1, dtype=np.complex128)
    relative = np.zeros(size // 2 + 1)
    noise = 4.0 * ROUNDING * math.log2(size)
    for part, count in parts:
        with np.errstate(divide="ignore"):
            logs = tilt * part.losses + np.log(part.masses)
        weights = np.exp(logs - logsumexp(logs))
        folded = np.bincount(part.positions % size, weights=weights, minlength=size)
        transform = fft.rfft(folded)
        magnitude = np.maximum(np.abs(transform), noise)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_power += count * np.log(transform)
        relative += count * (noise / magnitude + 8.0 * ROUNDING)
    spectrum = np.exp(log_power)
    spectrum[~np.isfinite(spectrum)] = 0.0
    size_of = np.abs(spectrum)
    rounding = float((2.0 / size) * (size_of * np.minimum(relative, 1e6)).sum())
    rounding += noise * math.sqrt(2.0 * float((size_of**2).sum())) / size
    return fft.irfft(spectrum, size), rounding


def epsilon_of(parts: Parts, delta: float) -> float:
    """The smallest epsilon at which the hockey-stick divergence of the composition is at most delta.

    Args:
        parts: Loss distributions of one interval, and how often each is composed.
        delta: The target.

    Returns:
        Epsilon, 0 or more; infinite where the infinite losses alone exceed delta.
    """
    if any(part.infinity >= 1 for part, _ in parts):
        return math.inf
    infinite = -math.expm1(sum(count * math.log1p(-part.infinity) for part, count in parts))
    spare = delta * (1 - NEGLIGIBLE) - infinite
    if spare <= 0:
        return math.inf
    low, high, tilt = _window(parts, delta)
    best = math.inf
    for _ in range(RETILTS):
        epsilon, without_rounding = _epsilon_at_tilt(parts, (low, high), tilt, spare)
        best = min(best, epsilon)
        # Where losses are heavy-tailed Chernoff's tilt aims too far out. The result is valid but
        # loose: aim at the answer itself, or widen the window.
        if tilt > _largest_tilt(parts, best, high - low, delta):
            tilt = min(
                _tilt_towards(parts, best, tilt), _largest_tilt(parts, best / 2, high - low, delta)
            )
        elif best - without_rounding > 1e-3 * best:
            high += high - low
            tilt = _tilt_towards(parts, without_rounding, tilt)
        else:
            break
    return best


def _largest_tilt(parts: Parts, above: float, width: float, delta: float) -> float:
    """The largest tilt at which mass that wraps round the window to above `above` stays negligible.

    A total loss beyond `above + width` wraps round and is then counted exp(tilt * width) times too often.
    """
    log_rare = math.log(delta) + math.log(NEGLIGIBLE)
    largest = max(float(np.abs(part.losses).max()) for part, _ in parts)
    rates = np.exp(np.linspace(math.log(1e-4 / largest), math.log(1e8 / largest), 112))
    log_wrapped = min(_log_moment(parts, rate) - rate * (above + width) for rate in rates.tolist())
    return max((log_rare - log_wrapped) / width, 1e-12)


def _tilt_towards(parts: Parts, epsilon: float, largest: float) -> float:
    """The tilt, at most the given one, that centres the tilted sum at epsilon."""
    grid = largest * np.exp(np.linspace(math.log(1e-4), 0.0, 65))
    exponents = [_log_moment(parts, rate) - rate * epsilon for rate in grid]
    return float(grid[int(np.argmin(exponents))])


def _epsilon_at_tilt(
    parts: Parts, window: tuple[float, float], tilt: float, delta: float
) -> tuple[float, float]:
    """Epsilon with the rounding bound added to every bin, and epsilon without it."""
    interval = parts[0][0].interval
    first = math.floor(window[0] / interval) - 1
    size = fft.next_fast_len(math.ceil(window[1] / interval) - first + 2, real=True)
    tilted, rounding = _tilted_sum(parts, tilt, size)
    tilted = np.roll(tilted, -(first % size))
    losses = (first + np.arange(size)) * interval
    start = int(np.searchsorted(losses, 0.0))  # epsilon is never negative
    losses, tilted = losses[start:], np.maximum(tilted[start:], 0.0)
    if len(losses) == 0:
        return 0.0, 0.0
    scale = np.exp(np.minimum(_log_moment(parts, tilt) - tilt * losses, 600.0))
    return _root(losses, scale * (tilted + rounding), delta), _root(losses, scale * tilted, delta)


def _root(losses: Array, masses: Array, delta: float) -> float:
    """Smallest epsilon >= 0 with sum over losses above it of mass (1 - exp(epsilon - loss)) <= delta."""
    above = np.cumsum(masses[::-1])[::-1]  # mass at or above each loss
    # Below this start the divergence surely exceeds delta: mass one above it alone is too much.
    sure = int(np.count_nonzero(above > delta / -math.expm1(-1.0)))
    base = max(0.0, float(losses[min(sure, len(losses) - 1)]) - 1.0)
    begin = int(np.searchsorted(losses, base))
    losses, masses, above = losses[begin:], masses[begin:], above[begin:]
    discounted = np.cumsum((masses * np.exp(-np.minimum(losses - base, 700.0)))[::-1])[::-1]
    # For epsilon in (losses[j-1], losses[j]] the divergence is above[j] - exp(epsilon - base) discounted[j].
    growth = np.exp(np.minimum(losses - base, 700.0))
    j = int(np.flatnonzero(above - growth * discounted <= delta)[0])
    if above[j] <= delta:
        return base
    root = base + math.log((above[j] - delta) / discounted[j])
    return min(max(root, 0.0), float(losses[j]))
