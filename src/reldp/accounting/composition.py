"""Composes discrete privacy-loss distributions and reads epsilon, every error upwards.

The sum of T losses is computed by FFT after an exponential tilt: masses are multiplied by exp(theta L), theta chosen
so that the tilted sum is centered where the answer lies. Rounding is then relative to the answer, not to 1, so delta =
1e-30 is as accurate as 1e-5 (a plain FFT loses everything below about 1e-15). On the safe side:

* infinite losses take 1 - (1 - infinity)^T of delta;
* what lies outside the FFT's window takes at most NEGLIGIBLE of delta at either end, by Chernoff's bound (what wraps
  round only adds), and the sums over bins as much again;
* a bound on the FFT's rounding is added to every bin;
* the T single losses are exact to a few units in the last place, and T times that is added to epsilon.

>>> loss = LossDistribution(1.0, np.array([-1, 1]), np.array([0.25, 0.75]), 0.0)
>>> round(epsilon_of([(loss, 1)], delta=0.25), 3)  # 0.75 (1 - exp(epsilon - 1)) = 0.25
0.595
"""

import math
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import fft

from reldp.accounting.discretization import LossDistribution
from reldp.accounting.log_sum import log_sum_exp
from reldp.errors import PlanError

__all__ = ["ComposedLoss", "epsilon_of", "smallest_epsilon"]

Array = npt.NDArray[np.floating[Any]]
Parts = list[tuple[LossDistribution, int]]

ROUNDING = float(np.finfo(np.float64).eps)
NEGLIGIBLE = 1e-6  # share of delta that each truncation may take
RETILTS = 6
STEEPEST = 500.0  # largest tilt times window: beyond it nothing but rounding is left
VANISHED = -100.0  # log size below which a coefficient of the spectrum is bounded, not computed
WIDEST = 2**22  # bins of a window that doubling may lead to; a narrower window only raises epsilon
MAX_TRANSFORMED = (
    2**23
)  # that the transforms for one epsilon may have together, whatever the first one takes
FAR = 40.0  # losses this far above epsilon count whole


def epsilon_of(parts: Parts, delta: float) -> float:
    """Return the smallest epsilon at which the hockey-stick divergence of the composition is at most delta.

    Args:
        parts: Loss distributions of one interval, and how often each is composed.
        delta: The target.

    Returns:
        Epsilon, 0 or more; infinite where the infinite losses alone exceed delta.
    """
    return ComposedLoss(parts, delta).epsilon()


class ComposedLoss:
    """The sum of independent losses, seen from one delta.

    Raises:
        PlanError: Losses are so small that rounding has made masses of them negative: nothing would bound the error.
    """

    def __init__(self, parts: Parts, delta: float) -> None:
        if any(float(part.masses.min()) < 0 for part, _ in parts):
            raise PlanError(
                "`noise_multiplier` must leave losses of a step that doubles can tell apart, got so much noise that "
                "they are rounded away. Use less: epsilon is next to 0 long before."
            )
        self._parts = parts
        self._delta = delta
        self.transformed = 0  # bins of all transforms so far: the work
        self._interval = parts[0][0].interval
        self._largest = max(float(np.abs(part.losses).max()) for part, _ in parts)
        self._log_rare = math.log(delta) + math.log(NEGLIGIBLE)
        with np.errstate(divide="ignore"):
            self._log_masses = [np.log(part.masses) for part, _ in parts]

    @cached_property
    def window(self) -> tuple[float, float]:
        """Losses between which all but a negligible part of the sum lies."""
        low, _ = self.chernoff(self._log_rare, -1)
        high, _ = self.chernoff(self._log_rare, 1)
        return -low, max(high, -low)

    @property
    def is_bounded(self) -> bool:
        """Whether doubles can hold the window, and tell its ends apart; epsilon is infinite where they cannot."""
        low, high = self.window
        return 0 < high - low < math.inf

    @property
    def num_bins(self) -> int:
        """How many multiples of the interval the window holds."""
        low, high = self.window
        return int((high - low) / self._interval) + 3

    def epsilon(self) -> float:
        """Return the smallest epsilon at which the divergence is at most delta, an upper bound."""
        spare = self._delta * (1 - 3 * NEGLIGIBLE) - self._infinite()
        if spare <= 0:
            return math.inf
        low, high = self.window
        _, tilt = self.chernoff(math.log(self._delta), 1)
        tilt = min(tilt, STEEPEST / (high - low + self._interval))
        # No finite sum exceeds the sum of the largest losses.
        best = max(0.0, sum(float(part.losses[-1]) * count for part, count in self._parts))
        for _ in range(RETILTS):
            if self.transformed and self.transformed + self._bins(low, high)[1] > MAX_TRANSFORMED:
                break  # the bounds so far stand
            epsilon, without_rounding = self._epsilon_at(low, high, tilt, spare)
            is_lower, best = epsilon < best, min(best, epsilon)
            # Where losses are heavy-tailed Chernoff's tilt aims too far out. The result is valid but
            # loose: aim at the answer itself, or widen the window.
            if tilt > self._largest_tilt(best, high - low):
                tilt = min(self._tilt_towards(best, tilt), self._largest_tilt(best / 2, high - low))
            # Near delta = 1 rounding is as large as 1 - delta, and every widening may add to it.
            elif (
                best - without_rounding > 1e-3 * best
                and (is_lower or self._delta <= 0.5)
                and self._has_room(high - low)
            ):
                high += high - low
                tilt = self._tilt_towards(without_rounding, tilt)
            else:
                break
        steps = sum(count for _, count in self._parts)
        return best + 16.0 * ROUNDING * steps if best > 0 else 0.0

    def divergences(self, epsilons: Array) -> Array:
        """Return upper bounds on the hockey-stick divergence at each epsilon, 0 or more.  (E,) -> (E,).

        All of them come from one transform without a tilt, so rounding is relative to 1 and not to the answer: use
        `epsilon` where delta is tiny.
        """
        low, high = self.window
        first, size = self._bins(low, high)
        masses, rounding = self._tilted_sum(0.0, size)
        start = min(max(0, -first - 1), size - 1)  # no loss below -1 interval matters
        masses = np.maximum(np.roll(masses, -(first % size))[start:], 0.0)
        losses = (first + np.arange(start, size)) * self._interval
        scale = math.exp(float(self._log_moments(np.zeros(1))[0]))
        masses = scale * (masses + rounding)
        spent = self._infinite() + 3 * NEGLIGIBLE * self._delta
        # Losses may be too small by the rounding that `epsilon` adds.
        margin = 16.0 * ROUNDING * sum(count for _, count in self._parts)
        at = np.asarray(epsilons, dtype=np.float64) - margin
        above = np.searchsorted(losses, at, side="right")
        # Sum over losses above epsilon of mass - exp(epsilon) mass exp(-loss), and what adding up may round away.
        whole = np.append(np.cumsum(masses[::-1])[::-1], 0.0)[above]
        shrunk = np.append(np.cumsum((masses * np.exp(-losses))[::-1])[::-1], 0.0)[above]
        with np.errstate(over="ignore", invalid="ignore"):
            excess = whole - np.nan_to_num(np.exp(at) * shrunk)
        values: Array = spent + np.maximum(excess, 0.0) + 4 * ROUNDING * len(masses) * whole
        return np.minimum(values, 1.0)

    def _has_room(self, width: float) -> bool:
        """Whether memory allows a window of twice this width."""
        return 2 * width / self._interval <= WIDEST

    def _infinite(self) -> float:
        """Probability that at least one loss is infinite."""
        if any(part.infinity >= 1 for part, _ in self._parts):
            return 1.0
        return -math.expm1(sum(count * math.log1p(-part.infinity) for part, count in self._parts))

    def _log_moments(self, rates: Array) -> Array:
        """log E exp(rate * sum) for each rate, infinite losses left out."""
        total = np.zeros(len(rates))
        for (part, count), log_masses in zip(self._parts, self._log_masses, strict=True):
            losses = part.losses
            width = max(1, 2_000_000 // len(losses))
            for i in range(0, len(rates), width):
                exponents = rates[i : i + width, None] * losses + log_masses
                total[i : i + width] += count * log_sum_exp(exponents, axis=1)
        return total

    def _rates(self) -> Array:
        return np.exp(np.linspace(math.log(1e-4), math.log(1e8), 57)) / self._largest

    def chernoff(self, log_mass: float, sign: int) -> tuple[float, float]:
        """Return the lowest bound b found with P[sign * sum > b] <= exp(log_mass), and the rate that gives it."""
        rates = self._rates()
        for points in (17, 17):  # every rate gives a valid bound: refine around the best
            bounds = self._chernoff_bounds(rates, log_mass, sign)
            best = int(np.argmin(bounds))
            low, high = rates[max(best - 1, 0)], rates[min(best + 1, len(rates) - 1)]
            rates = np.exp(np.linspace(math.log(low), math.log(high), points))
        bounds = self._chernoff_bounds(rates, log_mass, sign)
        best = int(np.argmin(bounds))
        return float(bounds[best]), float(rates[best])

    def _chernoff_bounds(self, rates: Array, log_mass: float, sign: int) -> Array:
        """Return the bound of each rate; infinite where it is beyond the range of a double."""
        with np.errstate(over="ignore", invalid="ignore"):
            bounds = (self._log_moments(sign * rates) - log_mass) / rates
        return np.where(np.isnan(bounds), math.inf, bounds)

    def _largest_tilt(self, above: float, width: float) -> float:
        """Return the largest tilt at which mass that wraps round the window to above `above` stays negligible.

        A sum beyond `above + width` wraps round and is then counted exp(tilt * width) times too often.
        """
        rates = self._rates()
        log_wrapped = float((self._log_moments(rates) - rates * (above + width)).min())
        return max((self._log_rare - log_wrapped) / width, 1e-12 / self._largest)

    def _tilt_towards(self, epsilon: float, largest: float) -> float:
        """Return the tilt, at most the given one, that centers the tilted sum at epsilon."""
        rates = largest * np.exp(np.linspace(math.log(1e-4), 0.0, 65))
        return float(rates[int(np.argmin(self._log_moments(rates) - rates * epsilon))])

    def _epsilon_at(
        self, low: float, high: float, tilt: float, delta: float
    ) -> tuple[float, float]:
        """Epsilon with the rounding bound added to every bin, and epsilon without it."""
        first, size = self._bins(low, high)
        start = max(0, -first)  # epsilon is never negative
        if start >= size:
            return 0.0, 0.0
        tilted, rounding = self._tilted_sum(tilt, size)
        tilted = np.maximum(np.roll(tilted, -(first % size))[start:], 0.0)
        losses = (first + np.arange(start, size)) * self._interval
        log_moment = float(self._log_moments(np.array([tilt]))[0])
        # Where the cap holds, the rounding bound alone is far more than any delta.
        scale = np.exp(np.minimum(log_moment - tilt * losses, 600.0))
        with_rounding = smallest_epsilon(losses, scale * (tilted + rounding), delta)
        return with_rounding, smallest_epsilon(losses, scale * tilted, delta)

    def _bins(self, low: float, high: float) -> tuple[int, int]:
        """Return the first multiple of the interval in a window, and the number of bins of the transform."""
        first = math.floor(low / self._interval) - 1
        return first, fft.next_fast_len(math.ceil(high / self._interval) - first + 2, real=True)

    def _tilted_sum(self, tilt: float, size: int) -> tuple[Array, float]:
        """Tilted masses of the sum modulo `size`, and a bound on each one's rounding error.

        A coefficient F of one part's transform is known to within `noise`, so that of the sum to within
        the product of (|F| + noise)^count less the product of |F|^count.
        """
        self.transformed += size
        fft_noise = 4.0 * ROUNDING * math.log2(size)
        powers = np.zeros(size // 2 + 1)  # log of the product of |F|^count
        at_most = np.zeros(size // 2 + 1)  # the same with |F| + noise
        transforms, counts = [], []
        for (part, count), log_masses in zip(self._parts, self._log_masses, strict=True):
            logs = tilt * part.losses + log_masses
            weights = np.exp(logs - log_sum_exp(logs))
            present = weights > 0
            doubt = (np.abs(tilt * part.losses) - log_masses)[present] @ weights[present] + 8.0
            transform = fft.rfft(np.bincount(part.positions % size, weights, minlength=size))
            magnitude = np.abs(transform)
            with np.errstate(divide="ignore"):
                powers += count * np.log(magnitude)
            at_most += count * np.log(magnitude + (fft_noise + ROUNDING * float(doubt)))
            transforms.append(transform)
            counts.append(count)
        retained = np.flatnonzero(at_most > VANISHED)
        spectrum = np.zeros(size // 2 + 1, dtype=np.complex128)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = sum(
                count * np.log(f[retained]) for f, count in zip(transforms, counts, strict=True)
            )
            spectrum[retained] = np.nan_to_num(np.exp(logs), nan=0.0)
        error = np.exp(at_most[retained]) * (
            -np.expm1(powers[retained] - at_most[retained]) + 8.0 * ROUNDING * sum(counts)
        )
        rounding = (2.0 / size) * float(error.sum() + fft_noise * np.abs(spectrum).sum())
        return fft.irfft(spectrum, size), rounding + math.exp(VANISHED)


def smallest_epsilon(losses: Array, masses: Array, delta: float) -> float:
    """Smallest epsilon >= 0 with sum over losses above it of mass (1 - exp(epsilon - loss)) <= delta.

    >>> round(smallest_epsilon(np.array([0.0, 10_000.0]), np.array([0.5, 1.2e-5]), 1e-5), 3)
    9998.208
    """
    above = np.cumsum(masses[::-1])[::-1]  # mass at or above each loss
    if above[0] <= delta:
        return 0.0

    def divergence(j: int) -> float:
        """At epsilon = losses[j]; nothing cancels."""
        far = max(
            j + 1, int(np.searchsorted(losses, losses[j] + FAR))
        )  # FAR may vanish in rounding
        near = -np.expm1(losses[j] - losses[j + 1 : far]) @ masses[j + 1 : far]
        return float(near) + (float(above[far]) if far < len(losses) else 0.0)

    low, high = -1, len(losses) - 1  # divergence(high) <= delta < divergence(low)
    near, reach = _roughly_smallest(losses, masses, above, delta), 1
    while low < near < high:  # a good guess leaves few places; a bad one costs time only
        if divergence(near) <= delta:
            high, near = near, near - reach
        else:
            low, near = near, near + reach
        reach *= 8
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if divergence(middle) <= delta else (middle, high)
    # Just below losses[high] the divergence is above - exp(epsilon - losses[high]) (above - here).
    here = divergence(high)
    if above[high] <= delta:  # equal up to rounding
        return float(losses[high])
    root = float(losses[high]) + math.log1p(-(delta - here) / (float(above[high]) - here))
    return max(root, 0.0)


def _roughly_smallest(losses: Array, masses: Array, above: Array, delta: float) -> int:
    """Return about the first place where the divergence is at most delta, by sums in which much may cancel."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        growth = np.exp(losses - losses[0])
        shrunk = np.cumsum((masses / growth)[::-1])[::-1]
        excess = above - growth * shrunk
    return min(int(np.argmax(excess <= delta)), len(losses) - 1)
