"""Discrete Laplace noise, sampled exactly from the operating system's entropy.

P[X = x] = (1 - a) / (1 + a) * a^|x| with a = exp(-rate). Adding X to a count that neighbors change by at most s costs
s * rate of epsilon, exactly: the sampler uses integers and rational Bernoulli(exp(-x)) draws only (the rejection
sampler of Canonne, Kamath and Steinke 2020), so no rounding of floating-point numbers distorts the tails.

Tail: P[X > c] = a^(c + 1) / (1 + a), which is below d / 2 for c = `tail_margin(rate, d)` (theory.md 2.4).

Public: `discrete_laplace`, `tail_margin`.

>>> abs(discrete_laplace(Fraction(1000))) < 2
True
>>> tail_margin(Fraction(1, 50), 1e-9)
1037
"""

import math
import secrets
from collections.abc import Callable
from fractions import Fraction

from reldp.errors import InputError

__all__ = ["discrete_laplace", "tail_margin"]

Uniform = Callable[[int], int]  # uniform on 0 .. bound - 1


def discrete_laplace(rate: Fraction, uniform: Uniform = secrets.randbelow) -> int:
    """Draw an integer with probability proportional to exp(-rate |x|).

    Args:
        rate: Epsilon per unit of change, above 0; the scale is 1 / rate.
        uniform: Source of uniform integers; the operating system's unless a test replaces it.
    """
    if rate <= 0:
        raise InputError(f"`rate` must be above 0, got {rate}.")
    while True:
        size = _geometric(rate, uniform)
        negative = bool(uniform(2))
        if size or not negative:  # zero has one sign only
            return -size if negative else size


def tail_margin(rate: Fraction, delta: float) -> int:
    """Return a margin that the noise exceeds with probability below delta / 2, on either side."""
    return math.ceil(math.log(1 / delta) / rate)


def _geometric(rate: Fraction, uniform: Uniform) -> int:
    """Draw a non-negative integer with probability proportional to exp(-rate x)."""
    numerator, denominator = rate.numerator, rate.denominator
    while True:
        rest = uniform(denominator)
        if _bernoulli_exp(rest, denominator, uniform):
            break
    whole = 0
    while _bernoulli_exp(1, 1, uniform):
        whole += 1
    # rest + denominator * whole has weights exp(-x / denominator); every numerator-th value is kept.
    return (rest + denominator * whole) // numerator


def _bernoulli_exp(numerator: int, denominator: int, uniform: Uniform) -> bool:
    """Return True with probability exp(-numerator / denominator), a ratio of at most 1.

    The first failure among Bernoulli(x / 1), Bernoulli(x / 2), ... comes at an odd place with probability exp(-x).
    """
    place = 1
    while uniform(denominator * place) < numerator:
        place += 1
    return place % 2 == 1
