"""Lower bounds on epsilon from guesses about many canaries in a single training run.

Each of m canaries was put in with probability 1/2, independently; the attacker says "in" or "out" for r of them and
is right v times. Two bounds on how likely that is:

* `guessing_p_value`: for an (epsilon, delta)-private run, v is dominated by a binomial with success probability
  e^epsilon / (1 + e^epsilon), up to delta (Steinke, Nasr, Jagielski, "Privacy auditing with one (1) training run",
  2023, theorem 5.2 in its numerical form).
* `is_too_good`: the same for a whole trade-off curve (Mahloujifar, Melis, Chaudhuri, "Auditing f-differential
  privacy in one run", 2024). Write r_i and h_i for the chances that a random canary is guessed right, or wrong, while
  at least i guesses are right. Reversing one canary's draw turns a right guess into a wrong one, so h_i is at least
  what the curve allows for r_(i+1); and r, h grow together. Starting from the assumption that at least v right
  guesses have probability `miss`, the recursion runs down to i = 0; if more comes out than the share of canaries that
  were guessed at all, the assumption was wrong.

Public to `reldp.auditing`: `guessing_p_value`, `guessing_bound`, `is_too_good`, `gaussian_curve`, `profile_curve`,
`gaussian_epsilon`, `curve_bound`.

>>> guessing_p_value(canaries=100, guesses=100, right=50, epsilon=0.0, delta=0.0) > 0.5
True
>>> 2.6 < guessing_bound(canaries=100, guesses=100, right=100, delta=1e-5, miss=0.05) < 3.6
True
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from reldp.errors import InputError

__all__ = [
    "curve_bound",
    "gaussian_curve",
    "gaussian_epsilon",
    "guessing_bound",
    "guessing_p_value",
    "is_too_good",
    "profile_curve",
]

Curve = Callable[[float], float]  # P of an event -> the least Q that the curve allows it

_HALVINGS = 40
_VACUOUS = 700.0  # an epsilon beyond which e^epsilon is no double, and nothing is promised
_LARGEST = 40.0  # epsilon, or Gaussian mu, beyond which no audit looks


def _check_guesses(canaries: int, guesses: int, right: int) -> None:
    if not 0 <= right <= guesses <= canaries:
        raise InputError(
            f"`right` must be at most the guesses, and those at most the canaries, got {right}, "
            f"{guesses} and {canaries}."
        )


def guessing_p_value(
    *, canaries: int, guesses: int, right: int, epsilon: float, delta: float
) -> float:
    """Return the largest chance of so many right guesses against an (epsilon, delta)-private run."""
    _check_guesses(canaries, guesses, right)
    chance = 1.0 / (1.0 + math.exp(-epsilon))
    tail = float(binom.sf(right - 1, guesses, chance))
    if delta == 0 or right == 0:
        return min(tail, 1.0)
    # P[right > Bin >= right - i], for i = 1 .. right
    below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, chance))
    worst = float((below / np.arange(1, right + 1)).max())
    return min(tail + 2.0 * canaries * delta * worst, 1.0)


def guessing_bound(*, canaries: int, guesses: int, right: int, delta: float, miss: float) -> float:
    """Return the largest epsilon, at delta, that these guesses refute with probability of error `miss`."""
    _check_guesses(canaries, guesses, right)

    def refuted(epsilon: float) -> bool:
        value = guessing_p_value(
            canaries=canaries, guesses=guesses, right=right, epsilon=epsilon, delta=delta
        )
        return value < miss

    return _largest(refuted)


def _largest(refuted: Callable[[float], bool]) -> float:
    """Return the largest argument that is refuted, to within rounding downwards; 0 if none is."""
    if not refuted(0.0):
        return 0.0
    low, high = 0.0, _LARGEST
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def is_too_good(*, canaries: int, guesses: int, right: int, curve: Curve, miss: float) -> bool:
    """Whether so many right guesses have probability below `miss` under a trade-off curve."""
    _check_guesses(canaries, guesses, right)
    if right == 0:
        return False
    caught = miss * right / canaries
    missed = miss * (guesses - right) / canaries
    for i in range(right - 1, -1, -1):
        before = missed
        missed = max(missed, curve(caught))
        caught += i / (guesses - i) * (missed - before)
        if caught + missed > guesses / canaries:
            return True
    return False


def gaussian_curve(mu: float) -> Curve:
    """Return the trade-off of a Gaussian mechanism with shift mu."""
    return lambda p: float(ndtr(ndtri(p) - mu))


def profile_curve(points: Sequence[tuple[float, float]]) -> Curve:
    """Return the trade-off that follows from (epsilon, delta) pairs, each for an event and for its complement."""
    known = [(epsilon, delta) for epsilon, delta in points if epsilon < _VACUOUS]
    growth = np.exp(np.array([epsilon for epsilon, _ in known]))
    deltas = np.array([delta for _, delta in known])

    def curve(p: float) -> float:
        of_event = (p - deltas) / growth
        of_complement = 1.0 - deltas - growth * (1.0 - p)
        return float(max(0.0, of_event.max(initial=0.0), of_complement.max(initial=0.0)))

    return curve


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon at delta of a Gaussian mechanism with shift mu."""
    if mu <= 0:
        return 0.0

    def exceeds(epsilon: float) -> bool:
        profile = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
        return bool(profile > delta)

    return _largest(exceeds)


def curve_bound(*, canaries: int, guesses: int, right: int, delta: float, miss: float) -> float:
    """Epsilon at delta of the strongest Gaussian mechanism that these guesses refute.

    A lower bound for mechanisms whose trade-off curve is close to a Gaussian one, as that of many composed
    noisy steps is; for others it is an estimate.
    """

    def refuted(mu: float) -> bool:
        return is_too_good(
            canaries=canaries, guesses=guesses, right=right, curve=gaussian_curve(mu), miss=miss
        )

    return gaussian_epsilon(_largest(refuted), delta)
