"""One pair of Gaussian draws to 256 binary digits: the slow, exact half of the secure noise.

Both halves compute the same function of uniform bits (Box and Muller 1958, with the angle halved):

    U in (0, 1), sign s in {-1, +1}, V in (-1, 1)
    (s * sqrt(-2 ln U) * cos(V pi/2),  sqrt(-2 ln U) * sin(V pi/2))

which is a pair of independent N(0, 1). The fast half (``reldp.noise.rounded``) reads 63 bits of U
and 64 of V; where that leaves the rounding of a draw open, this module reads 192 more bits of each
and evaluates in integers. No floating point takes part, so it is also the oracle that the fast half
is checked against.

Guarantee: for U >= 2^-64 and 1 - U >= 2^-64 the result is within 2^-185 of the value that
infinitely many further bits would give; outside (probability 2^-63) the error grows as 2^-249 / U
or 2^-249 / (1 - U). Rounding to the grid of 2^-30 therefore differs from rounding the ideal value
with probability below 2^-200 per draw. The largest possible draw is 18.8; an ideal Gaussian exceeds
it with probability below 2^-255.

Public: ``EXTRA_WORDS``, ``FRACTION_BITS``, ``exact_pair``. See theory.md 6.

>>> cosine, sine = exact_pair(first=1 << 63, second=0, extra=[0] * EXTRA_WORDS)  # U = 1/2, V = 0
>>> round(cosine / 2**FRACTION_BITS, 12), round(sine / 2**FRACTION_BITS, 12)  # sqrt(2 ln 2), 0
(1.177410022515, 0.0)
"""

import math
from collections.abc import Sequence

__all__ = ["EXTRA_WORDS", "FRACTION_BITS", "exact_pair"]

# Three more words for U and three for V.
EXTRA_WORDS = 6
_EXTRA_BITS = 192
# Results are integers in units of 2^-256.
FRACTION_BITS = 256
_ONE = 1 << FRACTION_BITS
_HALF_PI = 0x1921FB54442D18469898CC51701B839A252049C1114CF98E804177D4C76273644
_LOG_2 = 0xB17217F7D1CF79ABC9E3B39803F2F6AF40F343267298B62D8A0D175B8BAAFA2B


def _joined(words: Sequence[int]) -> int:
    """Return the words as one number, the first word highest."""
    number = 0
    for word in words:
        number = number << 64 | int(word)
    return number


def _minus_log(number: int) -> int:
    """-ln(number / 2^256) for 0 < number < 2^256, in units of 2^-256."""
    exponent = FRACTION_BITS - number.bit_length()
    mantissa = number << exponent  # in [1/2, 1)
    # ln x = -2 artanh((1 - x) / (1 + x)); the argument is below 1/3.
    ratio = ((_ONE - mantissa) << FRACTION_BITS) // (_ONE + mantissa)
    square = ratio * ratio >> FRACTION_BITS
    total, power, order = 0, ratio, 1
    while power:
        total += power // order
        power = power * square >> FRACTION_BITS
        order += 2
    return 2 * total + exponent * _LOG_2


def _cosine_and_sine(angle: int) -> tuple[int, int]:
    """Both by their Taylor series, for |angle| <= pi/2; all in units of 2^-256."""
    square = angle * angle >> FRACTION_BITS
    cosine = even = 1 << FRACTION_BITS
    sine = odd = angle
    order = 0
    while even:  # the even terms start larger, so the odd ones have vanished too
        order += 2
        even = -(even * square >> FRACTION_BITS) // ((order - 1) * order)
        odd = -(odd * square >> FRACTION_BITS) // (order * (order + 1))
        # Floor division would keep a negative term at -1 forever.
        even, odd = (even if even != -1 else 0), (odd if odd != -1 else 0)
        cosine += even
        sine += odd
    return cosine, sine


def exact_pair(first: int, second: int, extra: Sequence[int]) -> tuple[int, int]:
    """Return the pair of draws that these bits stand for, in units of 2^-256.

    Args:
        first: 64-bit word: the upper 63 bits begin U, the lowest bit is the sign of the cosine's
            draw.
        second: 64-bit word: V, in two's complement.
        extra: Six 64-bit words: 192 more bits of U, then of V. Half a last bit is added to each.

    Returns:
        The draw with the cosine and the draw with the sine.
    """
    uniform = 2 * ((first >> 1) << _EXTRA_BITS | _joined(extra[:3])) + 1  # over 2^256
    signed = second - (1 << 64) if second >> 63 else second
    turn = 2 * ((signed << _EXTRA_BITS) + _joined(extra[3:])) + 1  # over 2^256
    radius = math.isqrt(2 * _minus_log(uniform) << FRACTION_BITS)
    cosine, sine = _cosine_and_sine(_HALF_PI * turn >> FRACTION_BITS)
    if first & 1:
        cosine = -cosine
    return radius * cosine >> FRACTION_BITS, radius * sine >> FRACTION_BITS
