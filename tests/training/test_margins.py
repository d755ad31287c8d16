"""Margins follow from public settings, and grow with what makes sums less exact."""

import math

import numpy as np
import pytest

from reldp.training.margins import MAX_SUM, max_batch_units, threshold_margin
from tests.training.small import small_parts


def plan_of(**changes):
    return small_parts(**changes)[2]


@pytest.mark.parametrize(("size", "units"), [(20.0, 8 * 120), (0.5, 8 * 100.5)])
def test_no_batch_has_so_many_units(size, units):
    """P[Poisson(b) > 8 (b + 100)] is below e^-500 by the Chernoff bound."""
    plan = plan_of(expected_batch_size=size)
    assert max_batch_units(plan) == math.ceil(units)
    tuples = max_batch_units(plan)
    assert tuples * (math.log(tuples / size) - 1) + size > 500
    pairs = plan_of(expected_batch_size=size, clipping="pair")
    assert max_batch_units(pairs) == math.ceil(3 * units)


def test_exact_sums_need_no_margin():
    assert threshold_margin(plan_of(), max_positions=10**6, num_inexact=0) == 0.0


def test_the_margin_pays_for_both_neighbors_rounding_on_the_grid_alone():
    plan = plan_of()
    found = threshold_margin(plan, max_positions=0, num_inexact=10**6)
    assert found >= 2 * 0.5 * 2.0**-30 * plan.noise_multiplier * 1000


def test_the_margin_grows_with_positions_elements_noise_and_pairs():
    def margin(positions=100, elements=10**4, **changes):
        return threshold_margin(plan_of(**changes), max_positions=positions, num_inexact=elements)

    assert margin() < margin(positions=1000)
    assert margin() < margin(elements=10**6)
    assert margin() < margin(noise_multiplier=8.0)
    assert margin() < margin(clipping="pair")  # one entity may move the sum by 2/k only
    assert margin(elements=10**8, positions=10**5) < 1e-3


def test_sums_up_to_the_limit_are_exact_on_the_grid():
    grid = 2.0**-30
    largest = np.float64(8 * MAX_SUM)  # three bits more
    assert (largest - grid) + grid == largest != largest - grid
    assert largest + grid == largest  # the control: beyond, grid steps are lost
