import random

import mpmath
import pytest

from reldp.noise.refine import EXTRA_WORDS, FRACTION_BITS, exact_pair


def oracle(first, second, extra):
    """The definition, in mpmath with 400 bits."""
    with mpmath.workprec(400):
        u_bits = first >> 1
        for word in extra[:3]:
            u_bits = u_bits << 64 | word
        v_bits = second - 2**64 if second >= 2**63 else second
        for word in extra[3:]:
            v_bits = v_bits * 2**64 + word
        uniform = (mpmath.mpf(u_bits) + 0.5) / mpmath.mpf(2) ** 255
        turn = (mpmath.mpf(v_bits) + 0.5) / mpmath.mpf(2) ** 255
        radius = mpmath.sqrt(-2 * mpmath.log(uniform))
        sign = -1 if first & 1 else 1
        angle = turn * mpmath.pi / 2
        return sign * radius * mpmath.cos(angle), radius * mpmath.sin(angle)


def error_bits(words):
    """log2 of the larger error of the pair."""
    with mpmath.workprec(400):
        exact = exact_pair(words[0], words[1], words[2:])
        scale = mpmath.mpf(2) ** FRACTION_BITS
        truths = oracle(words[0], words[1], words[2:])
        worst = max(abs(e / scale - t) for e, t in zip(exact, truths, strict=True))
        return float(mpmath.log(worst, 2)) if worst else -400.0


def test_random_bits_are_evaluated_to_2_to_the_minus_240():
    rng = random.Random(1)
    for _ in range(300):
        words = [rng.getrandbits(64) for _ in range(2 + EXTRA_WORDS)]
        assert error_bits(words) < -240


@pytest.mark.parametrize("first", [0, 1, 2, 1 << 45, (1 << 63) - 1, 1 << 63, (1 << 64) - 2])
@pytest.mark.parametrize("second", [0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("extra", [0, (1 << 64) - 1])
def test_extreme_bits_are_evaluated_too(first, second, extra):
    # U within 2^-255 of 0 or 1 is the worst case: the radius loses half its digits near 1.
    assert error_bits([first, second] + [extra] * EXTRA_WORDS) < -115


def test_largest_draw_is_below_19_standard_deviations():
    cosine, _ = exact_pair(0, 0, [0] * EXTRA_WORDS)
    assert 18.7 < cosine / 2**FRACTION_BITS < 18.85


def test_lowest_bit_flips_the_cosine_and_only_that():
    plus = exact_pair(12345 << 40, 678 << 50, [5] * EXTRA_WORDS)
    minus = exact_pair(12345 << 40 | 1, 678 << 50, [5] * EXTRA_WORDS)
    assert abs(plus[0] + minus[0]) <= 1  # floor division rounds both down
    assert plus[1] == minus[1]
