"""A cell that was run again stands beside the spread that was reported."""

import numpy as np
import pytest
from benchmarks.cross_domain import COLUMNS, private
from benchmarks.experiments import cost
from benchmarks.experiments.tables import again

from tests.benchmarks.made_up import store_of

OURS = [private(COLUMNS[0], "tuple", 4.0, seed) for seed in range(8)]
REPORTED = dict(zip(OURS[:3], (0.50, 0.51, 0.52), strict=True))  # 51.0 ± 4.97 holds a further seed


@pytest.mark.parametrize(("value", "word"), [(0.556, "yes"), (0.562, "**no**")])
def test_a_further_seed_is_inside_or_not(tmp_path, value, word):
    text = again.section(store_of(tmp_path, REPORTED | {OURS[7]: value}))
    row = text.splitlines()[-1].strip("| ").split(" | ")
    assert row[1:3] == [OURS[0].id, "7"]
    assert row[3:] == ["51.0 ± 1.0", f"{100 * value:.1f}", "46.0 to 56.0", word]
    assert f"Inside: {int(word == 'yes')} of 1" in " ".join(text.split())


def test_seeds_of_the_tables_and_short_trainings_are_not_listed(tmp_path):
    short = cost.of(OURS[0]).but(seed=7)
    text = again.section(store_of(tmp_path, REPORTED | {short: 0.0}))
    assert "Inside" not in text
    assert "--seed 7" in text


def test_one_reported_seed_gives_no_interval(tmp_path):
    text = again.section(store_of(tmp_path, {OURS[0]: 0.5, OURS[7]: 0.5}))
    assert text.splitlines()[-1].endswith("| 50.0 | 50.0 | - | - |")


def test_nothing_to_compare_with_is_left_out(tmp_path):
    assert again.further(store_of(tmp_path, {OURS[7]: 0.5}))
    assert "Inside" not in again.section(store_of(tmp_path, {OURS[7]: 0.5}))


def test_the_interval_holds_a_further_value_as_often_as_it_says():
    """19,000 of 20,000 expected; six standard deviations are 185."""
    values = np.random.default_rng(0).normal(size=(20_000, 4))
    bounds = [again.interval(list(row[:3])) for row in values]
    inside = sum(low <= row[3] <= high for (low, high), row in zip(bounds, values, strict=True))
    assert abs(inside - 19_000) < 185
