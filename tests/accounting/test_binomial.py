import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from reldp.accounting.binomial import binomial_window, log_upper_tail


def exact_log(size, rate, value):
    with mp.workdps(50):
        rate = mp.mpf(rate)
        return (
            mp.loggamma(size + 1)
            - mp.loggamma(value + 1)
            - mp.loggamma(size - value + 1)
            + value * mp.log(rate)
            + (size - value) * mp.log1p(-rate)
        )


@pytest.mark.parametrize(
    ("size", "rate"), [(20, 0.1), (5_000_000, 1e-5), (10**6, 0.3), (10**12, 1e-9), (10**12, 1e-6)]
)
def test_probabilities_equal_mpmath_up_to_sizes_where_gamma_functions_fail(size, rate):
    window = binomial_window(size, rate, -100.0)
    for place in np.linspace(0, len(window.probabilities) - 1, 5).astype(int):
        exact = float(mp.exp(exact_log(size, rate, window.low + int(place))))
        assert window.probabilities[place] == pytest.approx(exact, rel=3e-11)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    size=st.integers(1, 3000),
    rate=st.floats(1e-6, 0.999),
    log_tail=st.floats(-200.0, -3.0),
)
def test_what_lies_outside_the_window_is_bounded(size, rate, log_tail):
    window = binomial_window(size, rate, log_tail)
    assert 0 <= window.low <= window.high <= size
    allowed = math.exp(log_tail) * (1 + 1e-9) + 1e-15
    assert binom.cdf(window.low - 1, size, rate) <= allowed
    assert binom.sf(window.high, size, rate) <= allowed
    assert window.probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    assert len(window.values) == len(window.probabilities)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(size=st.integers(1, 2000), rate=st.floats(1e-6, 1.0), above=st.floats(-2.0, 2100.0))
def test_the_upper_tail_is_an_upper_bound(size, rate, above):
    exact = binom.logsf(math.floor(above), size, rate)
    bound = log_upper_tail(size, rate, above)
    assert bound <= 0.0
    assert bound >= exact - 1e-9 * abs(exact) if math.isfinite(exact) else True


def test_a_rate_of_one_is_certain():
    window = binomial_window(7, 1.0, -50.0)
    assert (window.low, window.high, window.log_tail) == (7, 7, -math.inf)


def test_a_whole_range_has_no_tail():
    assert binomial_window(10, 0.5, -100.0).log_tail == -math.inf
    assert binomial_window(10_000, 0.5, -20.0).log_tail == -20.0
