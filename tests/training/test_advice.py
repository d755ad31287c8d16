"""Poor plans are named, good ones are not."""

from dataclasses import replace

import pytest

from reldp.plan import PrivacyPlan
from reldp.training.advice import advice

GOOD = PrivacyPlan(
    num_entities=10_000,
    num_relations=20_000,
    max_degree=5,
    num_negatives=4,
    expected_batch_size=32.0,
    num_steps=500,
    noise_multiplier=0.8,
    delta=1e-6,
)


def changed(**settings):
    """The good plan, with another batch size instead of a rate where asked for."""
    if "expected_batch_size" in settings:
        settings["sample_rate"] = None
    return replace(GOOD, **settings)


def test_a_good_plan_is_left_alone():
    assert advice(GOOD, 3.0) == []


@pytest.mark.parametrize(
    ("plan", "epsilon", "words"),
    [
        (changed(delta=1e-4), 3.0, "delta should be below 1/n"),
        (GOOD, 12.0, "epsilon should be at most 10"),
        (changed(noise_multiplier=20.0), 0.1, "the noise hides the signal"),
        (changed(expected_batch_size=1500.0), 3.0, "60% per batch"),
        (changed(clipping="frequency"), 3.0, "false in the worst case"),
    ],
)
def test_each_weakness_is_named_alone(plan, epsilon, words):
    found = advice(plan, epsilon)
    assert len(found) == 1
    assert words in found[0]


def test_a_run_without_privacy_gets_no_advice_about_it():
    assert advice(changed(noise_multiplier=0.0), float("inf")) == []
