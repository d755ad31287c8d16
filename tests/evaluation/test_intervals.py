import numpy as np
import pytest

from reldp.errors import InputError
from reldp.evaluation import intervals
from reldp.evaluation.intervals import bootstrap, difference

USUAL = {"resamples": 400, "confidence": 0.95, "seed": 3}


def test_the_interval_has_the_width_that_the_central_limit_theorem_says():
    values = np.random.default_rng(0).random(2000)
    estimate = bootstrap(values, **USUAL)
    expected = 2 * 1.96 * values.std() / np.sqrt(len(values))
    assert estimate.value == pytest.approx(values.mean())
    assert estimate.high - estimate.low == pytest.approx(expected, rel=0.15)


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    """Coverage 88 %: under 245 of 300 has p < 1e-3. Half the width covers 59 % and must fail."""
    generator = np.random.default_rng(11)
    hits = narrow = 0
    for trial in range(300):
        values = (generator.random(150) < 0.3).astype(float)
        estimate = bootstrap(values, resamples=200, confidence=0.9, seed=trial)
        hits += estimate.low <= 0.3 <= estimate.high
        half = (estimate.high - estimate.low) / 4
        narrow += abs(estimate.value - 0.3) <= half
    assert hits >= 245
    assert narrow < 245


def test_the_seed_decides_everything():
    values = np.random.default_rng(1).random(100)
    assert bootstrap(values, **USUAL) == bootstrap(values, **USUAL)
    assert bootstrap(values, **USUAL) != bootstrap(values, **{**USUAL, "seed": 4})


def test_bundles_keep_the_width_and_the_mean(monkeypatch):
    values = np.random.default_rng(2).random(5003)
    plain = bootstrap(values, **USUAL)
    monkeypatch.setattr(intervals, "MAX_BUNDLES", 500)
    bundled = bootstrap(values, **USUAL)
    assert bundled.value == plain.value
    assert bundled.high - bundled.low == pytest.approx(plain.high - plain.low, rel=0.2)


def test_a_paired_difference_is_narrower_than_two_intervals():
    generator = np.random.default_rng(5)
    before = generator.random(500)
    after = before + 0.02 + 0.01 * generator.normal(size=500)
    gain = difference(after, before, **USUAL)
    assert 0.015 < gain.low < gain.value < gain.high < 0.025
    with pytest.raises(InputError, match="same relations"):
        difference(after[:-1], before, **USUAL)


@pytest.mark.parametrize(
    ("change", "named"), [({"confidence": 1.0}, "confidence"), ({"resamples": 0}, "resamples")]
)
def test_settings_that_mean_nothing_are_refused(change, named):
    with pytest.raises(InputError, match=f"`{named}`"):
        bootstrap(np.ones(3), **{**USUAL, **change})
    with pytest.raises(InputError, match="`values`"):
        bootstrap(np.ones(0), **USUAL)


def test_an_estimate_reads_in_percent():
    assert str(intervals.Estimate(value=0.5, low=0.25, high=0.755)) == "50.0 [25.0, 75.5]"
