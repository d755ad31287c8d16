"""Both accountants over the whole range that they promise, warnings being errors.

Noise 0.05 to 100, rate 1e-9 to 1, K to 10,000, m to 1e12, steps to 1e9, delta to 1e-30.
"""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reldp.accounting import CoupledStep, PLDAccountant, RenyiAccountant
from reldp.errors import PlanError
from tests.accounting.conformance import FEW

DEFAULT = {
    "num_relations": 5_000_000,
    "pool_size": 1_000_000,
    "max_degree": 5,
    "num_negatives": 4,
    "sample_rate": 1e-5,
    "noise_multiplier": 1.0,
}
CORNERS = [
    ({}, 1, 1e-30),
    ({}, 10**9, 2e-7),
    ({"noise_multiplier": 0.05}, 1000, 1e-5),
    ({"noise_multiplier": 100.0}, 10**6, 1e-30),
    ({"noise_multiplier": 100.0, "sample_rate": 1e-9, "num_relations": 10**12}, 10**9, 1e-5),
    ({"sample_rate": 1e-9, "num_relations": 1000, "pool_size": 20}, 10**6, 1e-10),
    ({"sample_rate": 1.0, "pool_size": 10**8}, 10, 1e-5),
    ({"sample_rate": 1.0, "pool_size": 10**8, "noise_multiplier": 0.05}, 3, 1e-30),
    ({"max_degree": 10_000, "noise_multiplier": 50.0}, 1000, 1e-6),
    ({"max_degree": 10_000, "noise_multiplier": 0.05, "sample_rate": 1e-9}, 100, 1e-12),
    ({"max_degree": 10_000, "sample_rate": 0.3, "pool_size": 10**8}, 5, 1e-5),
    ({"num_relations": 10**12, "sample_rate": 1e-8, "pool_size": 10**9}, 10**5, 1e-9),
    ({"num_negatives": 0, "max_degree": 1, "noise_multiplier": 0.05}, 10**4, 0.4),
    ({"negative_replacement": 0.5, "noise_multiplier": 0.3}, 10**5, 1e-20),
    ({"claimed_constant": True, "negative_removal": None, "noise_multiplier": 0.1}, 100, 1e-8),
]


@pytest.mark.parametrize(("changes", "steps", "delta"), CORNERS)
def test_every_corner_has_a_price(changes, steps, delta):
    step = CoupledStep(**{**DEFAULT, **changes})
    pld = PLDAccountant().epsilon(step * steps, delta).epsilon
    rdp = RenyiAccountant().epsilon(step * steps, delta).epsilon
    assert 0.0 <= pld < math.inf
    assert 0.0 <= rdp < math.inf
    # The grid of the larger prices leaves 0.3 %, where both differ by less.
    assert pld <= rdp * (1 + 3e-3) + 1e-3


def log_floats(low, high):
    return st.floats(math.log(low), math.log(high)).map(math.exp)


@FEW
@given(
    sigma=log_floats(0.05, 100.0),
    rate=log_floats(1e-9, 1.0),
    degree=log_floats(1.0, 1e4).map(int),
    m=log_floats(1.0, 1e9).map(int),
    room=log_floats(1.0, 1e4),
    negatives=st.sampled_from([0, 1, 4, 50]),
    steps=log_floats(1.0, 1e7).map(int),
    delta=log_floats(1e-30, 0.5),
)
def test_anything_in_range_is_priced_or_refused(
    sigma, rate, degree, m, room, negatives, steps, delta
):
    pool = max(1, math.ceil(max(1.0, rate * m * negatives) * room))
    step = CoupledStep(
        num_relations=m,
        pool_size=pool,
        max_degree=degree,
        num_negatives=negatives,
        sample_rate=rate,
        noise_multiplier=sigma,
    )
    for accountant in (PLDAccountant(), RenyiAccountant()):
        with contextlib.suppress(PlanError):  # pools that single batches may exceed
            assert accountant.epsilon(step * steps, delta).epsilon >= 0.0
