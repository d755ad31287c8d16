"""Standard Gaussian draws, each rounded *correctly* to the grid of multiples of 2^-30.

Why a grid: floating-point noise has holes and irregular low bits through which the noised value can
be read (Mironov 2012 for Laplace; Jin, McMurtry, Rubinstein, Ohrimenko 2022 for Gaussian noise). If
the value x that gets noise is first put on the grid, then x + round(G) = round(x + G) for a real
Gaussian G: what is released is a function of the ideal Gaussian mechanism's output, so the ideal
guarantee holds on the machine, with no argument about low bits. This needs round(G) to be drawn
with its true probabilities. Here it is, by interval refining (Haney, Desfontaines, Hartman,
Shrestha, Hay, arXiv:2207.13793): a draw is a function of uniform bits; compute it in float64 with
an error bound; if the whole interval rounds to one grid point, that point is the answer whatever
the remaining bits are; otherwise take more bits and digits (``reldp.noise.refine``). Holohan and
Braghin (arXiv:2107.10138; Opacus' secure mode) instead add four Gaussians, which makes the bits
hard to invert but proves nothing about the sum's distribution.

Error bound of the float64 half, with e = 2^-53, if log and tan are within 4 units in the last
place. With U and V as in ``reldp.noise.refine``, t = tan(V pi/4), cosine and sine of V pi/2 from t:
the rounding of U and its unread bits move ln U by at most e + 2^-63/U, the logarithm adds 4 units
and the root half a unit, so the radius r is off by at most 5 e r + (e + 2^-63/U)/r. Three roundings
of V, 4 units of tan and seven roundings after it move a draw by at most 20 e r. Together 25 e r +
(e + 2^-63/U)/r. The margin used is 2.5 times the first term and twice the second; draws with U
outside [2^-19, 1 - 2^-19] are always refined. About 30 draws in a million need refining.
``check_arithmetic`` measures the errors on the machine at hand.

Guarantees: only correctly rounded values leave this module, so draws do not depend on the machine
or its mathematical library. The statistical distance of one draw from the ideal rounded Gaussian is
below 2^-200, so that 10^9 steps of 10^9 parameters stay below 2^-140. Nothing here, not even the
time taken, depends on private data.

Public: ``GRID``, ``GRID_BITS``, ``rounded_normals``, ``check_arithmetic``.

>>> from reldp.noise.streams import Streams
>>> streams = Streams(bytes(32))
>>> words = streams.stream("doctest", 0, 0).uint64(4)
>>> more = lambda pair: streams.stream("doctest/more", 0, 0, pair).uint64(6).tolist()
>>> draws = rounded_normals(words, more)
>>> draws.shape, bool((draws / GRID == (draws / GRID).round()).all())
((4,), True)
"""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from reldp.errors import RunError
from reldp.noise.refine import EXTRA_WORDS, FRACTION_BITS, exact_pair

__all__ = ["GRID", "GRID_BITS", "check_arithmetic", "rounded_normals"]

GRID_BITS = 30
GRID = 2.0**-GRID_BITS

# pi/4 over the 63 fraction bits of V.
_ANGLE_STEP = np.pi / 4 * 2.0**-63
# Words that stand for U below 2^-19 or above 1 - 2^-19 (2^45 is 2^-19 of 2^64).
_EDGE = 1 << 45
# At least `_margin` of every U inside the edges: its first term is below 2^-44 there, its second at
# most 2^-43.
_COARSE_MARGIN = 2.0**-42


def _radius(first: NDArray[np.uint64]) -> NDArray[np.float64]:
    """sqrt(-2 ln U) in float64; (p,). The lowest bit is the pair's sign and reads as 1 here."""
    radius: NDArray[np.float64] = np.multiply(first | np.uint64(1), 2.0**-64)
    np.log(radius, out=radius)
    radius *= -2.0
    np.sqrt(radius, out=radius)
    return radius


def _approximate(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return the draws in float64, not rounded; words (p, 2) -> draws (p, 2), cosine first."""
    first, second = words[:, 0], words[:, 1]
    tangent = np.multiply(second.view(np.int64), _ANGLE_STEP)
    np.tan(tangent, out=tangent)
    square = tangent * tangent
    scaled = _radius(first)
    scaled /= square + 1.0
    tangent *= 2.0
    draws = np.empty(words.shape)  # (p, 2)
    np.multiply(scaled, tangent, out=draws[:, 1])
    # The lowest bit of the first word becomes the sign of the cosine's draw.
    signs = np.left_shift(first, np.uint64(63))
    signs ^= scaled.view(np.uint64)
    np.subtract(1.0, square, out=square)
    np.multiply(signs.view(np.float64), square, out=draws[:, 0])
    return draws


def _margin(first: NDArray[np.uint64]) -> NDArray[np.float64]:
    """At least twice the module's bound on the errors of `_approximate`; (p,)."""
    radius = _radius(first)
    uniform = (first | np.uint64(1)) * 2.0**-64
    return radius * 2.0**-47 + (2.0**-52 + 2.0**-62 / uniform) / radius


def _open_draws(
    words: NDArray[np.uint64], draws: NDArray[np.float64], whole: NDArray[np.float64], bits: int
) -> list[tuple[int, int]]:
    """Return (pair, index) of draws whose rounding is undecided; overwrites `draws`; (p, 2), grid units."""
    # A cheap test of all draws, then a sharp test of the few that it leaves.
    draws -= whole
    np.abs(draws, out=draws)  # distance from the grid point
    near = np.flatnonzero(draws > 0.5 - _COARSE_MARGIN * 2.0**bits)
    pairs, endpoints = near >> 1, near & 1
    sharp = 0.5 - _margin(words[pairs, 0]) * 2.0**bits
    is_open = draws[pairs, endpoints] > sharp
    # Unsigned wrap-around brings both edges together.
    edge = np.flatnonzero(words[:, 0] + np.uint64(_EDGE) < np.uint64(2 * _EDGE))
    open_draws = set(zip(pairs[is_open].tolist(), endpoints[is_open].tolist(), strict=True))
    open_draws.update((pair, end) for pair in edge.tolist() for end in (0, 1))
    return sorted(open_draws)


def rounded_normals(
    words: NDArray[np.uint64],
    more: Callable[[int], Sequence[int]],
    *,
    bits: int = GRID_BITS,
) -> NDArray[np.float64]:
    """Return correctly rounded N(0, 1) draws, one per word.

    Args:
        words: An even number of uniform 64-bit words; words 2p and 2p + 1 make draws 2p and 2p + 1.
        more: Gives six further uniform words for pair p, the same ones whenever asked.
        bits: The grid is 2^-bits. Only tests use another than the default.

    Returns:
        Multiples of 2^-bits; shape (words.size,).
    """
    pairs = words.reshape(-1, 2)  # (p, 2)
    draws = _approximate(pairs)  # (p, 2)
    draws *= 2.0**bits  # exact
    whole = np.rint(draws)
    half = 1 << (FRACTION_BITS - bits - 1)
    for pair, end in _open_draws(pairs, draws, whole, bits):
        exact = exact_pair(int(pairs[pair, 0]), int(pairs[pair, 1]), more(pair))[end]
        whole[pair, end] = (exact + half) >> (FRACTION_BITS - bits)
    whole *= 2.0**-bits
    return whole.reshape(-1)


@cache
def check_arithmetic() -> float:
    """Measures this machine's float64 half against the integer half; run once per process.

    Returns:
        The largest error seen, as a share of the margin.

    Raises:
        RunError: The share exceeds 1/2, so that the error bound cannot be relied on here.
    """
    # Weyl sequences spread both words evenly; the first pairs sit just inside the edges.
    steps = np.arange(1, 129, dtype=np.uint64)
    first = steps * np.uint64(0x9E3779B97F4A7C15)
    first[:4] = [_EDGE, _EDGE + 1, (1 << 64) - _EDGE - 1, (1 << 64) - _EDGE - 2]
    words = np.stack([first, steps * np.uint64(0xD1B54A32D192ED03)], axis=1)  # (128, 2)
    draws, margin = _approximate(words), _margin(first)
    worst = 0.0
    for row, drawn, allowed in zip(words.tolist(), draws.tolist(), margin.tolist(), strict=True):
        exact = exact_pair(row[0], row[1], [1 << 63] * EXTRA_WORDS)
        for value, truth in zip(drawn, exact, strict=True):
            error = abs(int(value * 2.0**100) - (truth >> (FRACTION_BITS - 100))) * 2.0**-100
            worst = max(worst, error / allowed)
    if not worst <= 0.5:
        raise RunError(
            "`noise` needs log and tan accurate to 4 units in the last place, got errors of "
            f"{worst:.3g} times the margin. Install another build of numpy."
        )
    return worst
