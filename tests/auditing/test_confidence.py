import numpy as np
import pytest
from scipy import stats

from reldp.auditing.confidence import (
    mean_lower,
    mean_upper,
    proportion_lower,
    proportion_upper,
)
from reldp.errors import InputError


@pytest.mark.parametrize(("hits", "trials"), [(0, 50), (3, 50), (50, 50), (700, 1000)])
def test_proportions_agree_with_scipys_exact_interval(hits, trials):
    oracle = stats.binomtest(hits, trials).proportion_ci(confidence_level=0.9, method="exact")
    assert proportion_lower(hits, trials, miss=0.05) == pytest.approx(oracle.low, abs=1e-12)
    assert proportion_upper(hits, trials, miss=0.05) == pytest.approx(oracle.high, abs=1e-12)


@pytest.mark.parametrize("law", ["fair", "beta", "rare"])
def test_means_are_covered_as_often_as_promised(law):
    # 400 experiments at miss 0.1: 58 misses have probability below 0.3 % if the promise holds.
    rng = np.random.default_rng(3)
    draw = {
        "fair": lambda n: rng.integers(0, 2, n).astype(float),
        "beta": lambda n: rng.beta(0.5, 3.0, n),
        "rare": lambda n: (rng.random(n) < 0.01).astype(float),
    }[law]
    truth = {"fair": 0.5, "beta": 1 / 7, "rare": 0.01}[law]
    missed = np.zeros(2)
    for _ in range(400):
        values, pilot = draw(300), draw(100)
        missed += [
            mean_upper(values, pilot, miss=0.1) < truth,
            mean_lower(values, pilot, miss=0.1) > truth,
        ]
    assert missed.max() <= 58


def test_a_constant_costs_only_the_logarithm_over_the_trials():
    values = np.full(10_000, 0.01)
    assert 0.01 < mean_upper(values, values[:100], miss=0.01) < 0.01 + 1.1 * np.log(100) / 10_000


def test_bounds_on_means_close_in_like_the_central_limit_theorem():
    values = np.random.default_rng(0).random(100_000)
    width = mean_upper(values, values[:1000], miss=0.01) - values.mean()
    assert width < 1.35 * stats.norm.isf(0.01) * values.std() / np.sqrt(values.size)


def test_values_outside_the_unit_interval_are_refused():
    with pytest.raises(InputError, match="`values` must be numbers in"):
        mean_upper(np.array([1.5]), np.array([0.5]), miss=0.1)
    with pytest.raises(InputError, match="`miss` must be a number strictly between 0 and 1, got 0"):
        proportion_upper(1, 2, miss=0)
