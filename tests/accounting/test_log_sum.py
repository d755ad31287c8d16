import math

import numpy as np
import pytest
from scipy.special import logsumexp

from reldp.accounting.log_sum import log_sum_exp

GENERATOR = np.random.default_rng(3)
ROWS = [scale * GENERATOR.normal(size=(7, 31)) for scale in (1e-3, 1.0, 40.0, 1e3)]
WEIGHTS = GENERATOR.random(7)


@pytest.mark.parametrize("logs", ROWS)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_sums_are_those_of_scipy(logs, axis):
    assert np.allclose(log_sum_exp(logs, axis=axis), logsumexp(logs, axis=axis), rtol=1e-15, atol=0)


@pytest.mark.parametrize("logs", ROWS)
def test_weighted_sums_are_those_of_scipy(logs):
    weights = np.where(np.arange(7) == 2, 0.0, WEIGHTS)
    ours = log_sum_exp(logs, axis=0, weights=weights[:, None])
    assert np.allclose(ours, logsumexp(logs, axis=0, b=weights[:, None]), rtol=1e-15, atol=0)
    ours = log_sum_exp(logs[:, 0], weights=weights)
    assert ours == pytest.approx(logsumexp(logs[:, 0], b=weights), rel=1e-15, abs=0)


def test_a_small_term_is_not_lost_beside_a_large_one():
    assert log_sum_exp([0.0, -50.0]) == pytest.approx(math.exp(-50.0), rel=1e-14, abs=0)
    assert math.log(math.exp(0.0) + math.exp(-50.0)) == 0.0  # the plain formula loses it


def test_equal_largest_terms_all_count():
    assert log_sum_exp([700.0] * 5 + [-800.0]) == pytest.approx(700.0 + math.log(5.0), rel=1e-15)


@pytest.mark.parametrize(
    ("logs", "weights", "expected"),
    [
        ([-np.inf, -np.inf], None, -np.inf),
        ([-np.inf, 1.0], None, 1.0),
        ([np.inf, 1.0], None, np.inf),
        ([np.inf, 1.0], [0.0, 1.0], 1.0),
        ([np.nan, 1.0], [0.0, 1.0], 1.0),
        ([2.0, 1.0], [0.0, 0.0], -np.inf),
        ([np.nan, 1.0], None, np.nan),
        ([], None, -np.inf),
    ],
)
def test_what_is_infinite_or_left_out(logs, weights, expected):
    given = None if weights is None else np.array(weights)
    found = log_sum_exp(logs, weights=given)
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(found, logsumexp(logs, b=given), equal_nan=True)


def test_rows_of_nothing_beside_rows_of_something():
    logs = np.array([[-np.inf, -np.inf], [0.0, -np.inf], [np.inf, 0.0]])
    assert np.array_equal(log_sum_exp(logs, axis=1), [-np.inf, 0.0, np.inf])
