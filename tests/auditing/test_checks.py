"""Checks of noise, batches and clipping: right ones pass, wrong ones fail. False alarms: 0.1 % each, seeds fixed."""

import numpy as np
import pytest

from reldp.auditing.checks import batch_checks, clip_check, noise_checks, repetition_checks

MISS = 0.001
RNG = np.random.default_rng(7)


def failed(checks):
    return [check.name for check in checks if check.refuted]


def noise(steps=2000, deviation=2.0):
    return np.random.default_rng(3).normal(size=(steps, 8)) * deviation


def sizes(steps=2000):
    return np.random.default_rng(4).binomial(100, 0.1, steps)


def check_noise(values, batch=None):
    batch = sizes(len(values)) if batch is None else batch
    return failed(noise_checks(values, batch, expected=10.0, deviation=2.0, miss=MISS))


def test_right_noise_passes():
    assert check_noise(noise()) == []


def test_noise_that_is_five_percent_too_small_is_seen():
    assert "noise deviation" in check_noise(0.95 * noise())


def test_noise_that_is_too_small_for_some_batches_is_seen_there():
    batch = sizes()
    wrong = noise() * np.where(batch > 10, 0.8, 1.1)[:, None]
    actual = check_noise(wrong, batch)
    assert "noise deviation, large batches" in actual
    assert "noise deviation, small batches" not in actual


def test_noise_of_another_shape_is_seen():
    even = np.random.default_rng(5).uniform(-1, 1, (2000, 8)) * 2.0 * 3**0.5
    assert check_noise(even) == ["noise distribution"]


def test_weights_that_share_their_noise_are_seen():
    shared = noise()
    shared[:, 1] = shared[:, 0]
    assert "noise of different weights" in check_noise(shared)


def check_repetition(values, other=None):
    branches = {0: values, 1: noise(500)[:, ::-1] if other is None else other}
    return failed(repetition_checks(branches, deviation=2.0, miss=MISS))


def test_fresh_noise_passes():
    assert check_repetition(noise()) == []


def test_one_repeated_step_of_thousands_is_seen():
    values = noise()
    values[1700] = values[20]
    assert check_repetition(values) == ["noise of steps and branches"]
    assert check_repetition(noise(), noise()[300:301]) == ["noise of steps and branches"]


@pytest.mark.parametrize("lag", [1, 50, 700])
def test_noise_that_is_partly_old_is_seen_at_its_lag(lag):
    fresh = noise()
    mixed = 0.9 * fresh
    mixed[lag:] += (1 - 0.9**2) ** 0.5 * fresh[:-lag]
    assert check_repetition(mixed) == ["noise of steps at every lag"]


def test_the_bound_on_lags_is_seldom_below_the_truth():
    # 200 audits of right noise: with a false-alarm rate of 5 % in each at most, 25 or more have a chance below 1e-4.
    actual = [
        failed(repetition_checks({0: RNG.normal(size=(64, 4))}, deviation=1.0, miss=0.1))
        for _ in range(200)
    ]
    assert sum(bool(names) for names in actual) < 25


def check_batches(drawn):
    return failed(batch_checks(drawn, num_relations=100, sample_rate=0.1, miss=MISS))


def test_binomial_batches_pass():
    assert check_batches(sizes()) == []


def test_a_rate_that_is_five_percent_too_high_is_seen():
    drawn = np.random.default_rng(4).binomial(100, 0.105, 2000)
    assert "mean batch size" in check_batches(drawn)


def test_batches_of_fixed_size_are_seen_though_their_mean_is_right():
    actual = check_batches(np.full(2000, 10))
    assert "mean batch size" not in actual
    assert len(actual) >= 2


def test_a_tuple_that_adds_more_than_one_clip_norm_is_seen():
    drawn = sizes()
    spread = np.random.default_rng(6).normal(size=2000) * 2.0
    assert not clip_check(-drawn + spread, drawn, deviation=2.0, miss=MISS).refuted
    check = clip_check(-1.05 * drawn + spread, drawn, deviation=2.0, miss=MISS)
    assert check.refuted
    assert check.to_dict()["expected"] == "at most 1"
