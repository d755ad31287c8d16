from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from reldp.errors import InputError, PlanError
from reldp.noise.streams import Streams
from reldp.sampling.binomial import BinomialCount

STREAMS = Streams(bytes(range(32)))
ALARM = 1e-6  # false-alarm rate of every statistical test below; the key is fixed


def probabilities(count):
    """Outcome -> probability, as the object would draw with infinitely many bits."""
    return {outcome: Fraction(weight, count._total) for outcome, weight in count._outcomes()}


def exact(size, rate):
    """The binomial distribution in rational arithmetic, term by term."""
    p = Fraction(rate)
    term = (1 - p) ** size
    out = {}
    for outcome in range(size + 1):
        out[outcome] = term
        if outcome < size:
            term = term * (size - outcome) / (outcome + 1) * p / (1 - p)
    return out


@given(st.integers(0, 40), st.floats(1e-9, 1.0, exclude_max=True))
@settings(max_examples=60, deadline=None)
def test_probabilities_equal_rational_arithmetic_to_2_to_the_minus_240(size, rate):
    drawn, truth = probabilities(BinomialCount(size, rate)), exact(size, rate)
    distance = sum(abs(drawn.get(outcome, Fraction(0)) - truth[outcome]) for outcome in truth) / 2
    assert distance < Fraction(1, 2**240)


@pytest.mark.parametrize(
    ("size", "rate"),
    [(10**12, 1e-9), (10**12, 2.56e-10), (10**9, 2.56e-7), (5_000_000, 1e-5), (10_000, 0.999)],
)
def test_large_sizes_agree_with_mpmath_and_stay_inside_the_stated_distance(size, rate):
    count = BinomialCount(size, rate)
    drawn = probabilities(count)
    with mpmath.workprec(400):
        p = mpmath.mpf(Fraction(rate).numerator) / Fraction(rate).denominator
        for outcome in list(drawn)[:: max(1, len(drawn) // 50)]:
            log = mpmath.loggamma(size + 1) - mpmath.loggamma(outcome + 1)
            log += -mpmath.loggamma(size - outcome + 1)
            truth = mpmath.exp(log + outcome * mpmath.log(p) + (size - outcome) * mpmath.log1p(-p))
            got = mpmath.mpf(drawn[outcome].numerator) / drawn[outcome].denominator
            assert abs(got - truth) < mpmath.mpf(2) ** -200
    assert sum(drawn.values()) == 1


@given(st.integers(0, 2**256 - 1))
@settings(max_examples=200, deadline=None)
def test_the_table_and_the_full_walk_agree(bits):
    count = BinomialCount(1000, 0.01)
    assert _by_table(count, bits) == count.invert(bits)


def _by_table(count, bits):
    """`draw` on a stream that holds exactly these 256 bits."""

    class Words:
        def __init__(self):
            self.rest = [bits >> shift & (2**64 - 1) for shift in (192, 128, 64, 0)]

        def uint64(self, n):
            taken, self.rest = self.rest[:n], self.rest[n:]
            return np.array(taken, np.uint64)

    return count.draw(Words())


def test_words_that_hit_a_boundary_are_decided_by_the_further_bits():
    count = BinomialCount(1000, 0.01)
    decided = set()
    for boundary in count._table.tolist():
        for low in (0, 1, 2**191, 2**192 - 1):
            bits = boundary << 192 | low
            assert _by_table(count, bits) == count.invert(bits)
        decided.add((count.invert(boundary << 192), count.invert((boundary + 1 << 192) - 1)))
    assert any(left != right for left, right in decided)  # 64 bits alone would have been wrong


def pvalue(counts, size, rate):
    """Chi-square of drawn counts against Bin(size, rate), cells of at least 20 expected."""
    law = stats.binom(size, rate)
    edges = np.unique(law.ppf(np.linspace(0.01, 0.99, 30)))
    bounds = np.concatenate([[-1], edges, [size]])
    expected = np.diff(law.cdf(bounds)) * len(counts)
    observed = np.histogram(counts, bins=np.concatenate([bounds[:-1] + 0.5, [size + 0.5]]))[0]
    return stats.chisquare(observed, expected).pvalue


@pytest.mark.parametrize(
    ("size", "rate"), [(300, 0.1), (10**9, 2.56e-7), (10**12, 1e-9), (40, 0.5)]
)
def test_draws_follow_the_binomial_and_wrong_laws_are_rejected(size, rate):
    count = BinomialCount(size, rate)
    counts = [count.draw(STREAMS.stream("binomial", 0, step)) for step in range(20_000)]
    assert pvalue(counts, size, rate) > ALARM
    off = BinomialCount(size, rate * 1.1)
    wrong_rate = [off.draw(STREAMS.stream("binomial", 0, step)) for step in range(20_000)]
    assert pvalue(wrong_rate, size, rate) < ALARM
    assert pvalue([round(size * rate)] * 20_000, size, rate) < ALARM  # a fixed batch size


def test_rate_one_takes_everything_and_no_relations_give_nothing():
    stream = STREAMS.stream("edge", 0, 0)
    assert [BinomialCount(m, 1.0).draw(stream) for m in (0, 1, 7, 10**12)] == [0, 1, 7, 10**12]
    assert [BinomialCount(0, rate).draw(stream) for rate in (1e-9, 0.5)] == [0, 0]


@pytest.mark.parametrize(
    ("name", "size", "rate"),
    [
        ("num_relations", -1, 0.5),
        ("num_relations", 2.5, 0.5),
        ("num_relations", 2**48 + 1, 0.5),
        ("sample_rate", 10, 0.0),
        ("sample_rate", 10, -0.1),
        ("sample_rate", 10, 1.01),
        ("sample_rate", 10, float("nan")),
    ],
)
def test_impossible_sizes_and_rates_are_refused(name, size, rate):
    with pytest.raises(PlanError, match=f"`{name}`"):
        BinomialCount(size, rate)


def test_more_than_256_bits_are_refused():
    with pytest.raises(InputError, match="`bits`"):
        BinomialCount(10, 0.5).invert(2**256)
