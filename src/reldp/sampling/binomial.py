"""The number of positives in a batch: Bin(num_relations, sample_rate), from uniform bits.

Poisson sampling includes each relation independently; drawing the binomial count first and then as
many distinct relations is the same distribution (theory.md 1, step 1), at a cost that does
not grow with the graph.

Method. Inversion, with the probabilities in integers of 256 fraction bits: the weight of the mode
is 2^256, its neighbors follow by the exact ratio (m - l) p / ((l + 1) (1 - p)), p being the very
rational number that the float holds, each rounded down, outwards until a weight is 0. The
cumulative weights are compared with a uniform number of 256 bits; 64 of them decide alone unless
they hit a boundary exactly, so a draw costs one search in a table of 64-bit words.

Guarantee: the statistical distance of a draw from the true binomial is below 2^-256 (L^2 + 2 m + 2
+ L) for a table of L outcomes (about 38 standard deviations): rounding down costs at most j units
at distance j from the mode since the ratios are at most 1, the weights beyond the table sum to at
most (m + 1) units on either side, and the comparison costs one unit per outcome. That is below
2^-196 for every m up to 2^48, and so below 2^-166 over 10^9 steps.

Public: ``BinomialCount``.

>>> from reldp.noise.streams import Streams
>>> count = BinomialCount(10**12, 256e-12)
>>> [count.draw(Streams(bytes(32)).stream("doctest", 0, step)) for step in range(3)]
[280, 271, 238]
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reldp._validate import as_integer, check_integer, check_number
from reldp.errors import InputError, PlanError

if TYPE_CHECKING:
    from reldp.noise.streams import Stream

__all__ = ["MAX_SIZE", "BinomialCount"]

MAX_SIZE = 1 << 48
_BITS = 256
_EXTRA_WORDS = 3


class BinomialCount:
    """Draws from Bin(size, rate).

    Making one costs about 40 standard deviations of arithmetic on 256-bit integers: a
    millisecond for batches of hundreds. The same object serves every step.

    Args:
        size: Number of independent trials, up to 2^48.
        rate: Probability of each, in (0, 1].
    """

    def __init__(self, size: int, rate: float) -> None:
        rule = "an integer from 0 to 2^48"
        self.size = check_integer(
            "num_relations", as_integer(size), high=MAX_SIZE, rule=rule, error=PlanError
        )
        self.rate = check_number("sample_rate", float(rate), above=0, high=1, error=PlanError)
        self._numerator, self._denominator = self.rate.as_integer_ratio()
        self._mode = min(self.size, (self.size + 1) * self._numerator // self._denominator)
        self._num_upward = sum(1 for _ in self._upward())
        self._total = sum(weight for _, weight in self._outcomes())
        self._table = self._boundaries()

    def draw(self, stream: "Stream") -> int:
        """Return the next count from the stream; reads one word, hardly ever four."""
        word = int(stream.uint64(1)[0])
        left = int(np.searchsorted(self._table, np.uint64(word), side="left"))
        right = int(np.searchsorted(self._table, np.uint64(word), side="right"))
        if left == right:
            return self._outcome(left)
        for extra in stream.uint64(_EXTRA_WORDS):
            word = word << 64 | int(extra)
        return self.invert(word)

    def invert(self, bits: int) -> int:
        """Return the outcome that a uniform number of 256 bits stands for, by walking all weights."""
        reached = 0
        for outcome, weight in self._outcomes():
            reached += weight
            # reached / total > bits / 2^256
            if reached << _BITS > bits * self._total:
                return outcome
        raise InputError(f"`bits` must be below 2^256, got {bits}.")

    def _outcome(self, place: int) -> int:
        """Place in the table's order: the mode, then up from it, then down from it."""
        if place < self._num_upward:
            return self._mode + place
        return self._mode - (place - self._num_upward) - 1

    def _outcomes(self) -> Iterator[tuple[int, int]]:
        """(outcome, weight) in the table's order; any order is good for inversion."""
        yield from self._upward()
        yield from self._downward()

    def _upward(self) -> Iterator[tuple[int, int]]:
        outcome, weight = self._mode, 1 << _BITS
        success, failure = self._numerator, self._denominator - self._numerator
        while weight:
            yield outcome, weight
            if outcome == self.size:
                return
            weight = weight * ((self.size - outcome) * success) // ((outcome + 1) * failure)
            outcome += 1

    def _downward(self) -> Iterator[tuple[int, int]]:
        outcome, weight = self._mode, 1 << _BITS
        success, failure = self._numerator, self._denominator - self._numerator
        while outcome:
            weight = weight * (outcome * failure) // ((self.size - outcome + 1) * success)
            outcome -= 1
            if not weight:
                return
            yield outcome, weight

    def _boundaries(self) -> NDArray[np.uint64]:
        """Upper 64 bits of every cumulative share but the last, which is 1; (L - 1,), ascending."""

        def words() -> Iterator[int]:
            reached = 0
            for _, weight in self._outcomes():
                reached += weight
                if reached < self._total:
                    yield (reached << 64) // self._total

        return np.fromiter(words(), np.uint64)
