import numpy as np
import pytest
from scipy.stats import norm

from reldp.auditing.attacks import LikelihoodRatio, scores


def test_the_ratio_is_that_of_the_two_mixtures():
    with_entity = np.array([0.0, 0.0, 0.0, 2.0])
    ratio = LikelihoodRatio.fit(with_entity, np.zeros(5), deviation=0.7)
    outputs = np.array([[0.3, 1.9], [-1.0, 0.0]])
    p = 0.75 * norm.pdf(outputs, 0, 0.7) + 0.25 * norm.pdf(outputs, 2, 0.7)
    oracle = np.log(p / norm.pdf(outputs, 0, 0.7)).sum(axis=1)
    np.testing.assert_allclose(ratio(outputs), oracle, rtol=1e-9)


def test_many_different_sums_are_merged_but_kept_close():
    sums = np.random.default_rng(0).normal(size=20_000) * 100
    ratio = LikelihoodRatio.fit(sums, sums, deviation=1.0)
    assert ratio.with_entity.centers.size <= 1000
    assert np.abs(ratio(sums[:50, None])).max() < 1e-9


def test_simple_scores_say_what_they_are_named_for():
    ratio = LikelihoodRatio.fit(np.array([1.0]), np.array([0.0]), deviation=1.0)
    actual = scores(np.array([[3.0, -1.0]]), ratio)
    assert actual["projection"].tolist() == [2.0]
    assert actual["smallest output"].tolist() == [1.0]
    assert actual["range of outputs"].tolist() == [4.0]


def test_one_step_has_no_range():
    ratio = LikelihoodRatio.fit(np.array([1.0]), np.array([0.0]), deviation=1.0)
    assert "range of outputs" not in scores(np.ones((2, 1)), ratio)
    assert ratio(np.array([[1e6]])) == pytest.approx(0.0)  # both densities are beyond doubles
