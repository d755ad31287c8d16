import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reldp.accounting.discretization import hockey_stick
from reldp.accounting.dominating import MAX_COMPONENTS, dominating_pair
from tests.accounting.conformance import simple_step, small_step, tiny_step
from tests.accounting.oracles import batch_sizes, components, hockey_sticks

EXACT = settings(max_examples=25, deadline=None, derandomize=True)


def masses(pair):
    return np.exp(pair.log_weights).sum(axis=1)


@pytest.mark.parametrize("analysis", ["anchored", "replacement"])
def test_small_steps_list_every_batch_size_as_theory_says(analysis):
    step = tiny_step()
    pair = dominating_pair(step, analysis, -500.0)
    chances = [float(chance) for _, chance in batch_sizes(step)]
    np.testing.assert_allclose(pair.node_weights, chances, rtol=1e-12)
    for size in range(13):
        parts = components(step, analysis, size)
        for column, sensitivity in enumerate(pair.sensitivities):
            exact = float(sum(w for w, s in parts if float(s) == sensitivity))
            found = math.exp(pair.log_weights[size, column])
            assert found == pytest.approx(exact, rel=1e-12, abs=1e-300)


def test_the_anchored_mass_is_rho_and_averages_to_one():
    step = tiny_step()
    pair = dominating_pair(step, "anchored", -500.0)
    rho = 1 - (3 / 40) * (np.arange(13) - 0.1 * 12) / 0.9
    np.testing.assert_allclose(masses(pair), rho, rtol=1e-13)
    np.testing.assert_allclose(pair.excess, rho - 1, atol=1e-15)
    assert pair.node_weights @ masses(pair) == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("analysis", ["anchored", "replacement"])
@pytest.mark.parametrize("spacing", [0.125, 0.5, 1.0])
def test_spreading_batch_sizes_onto_nodes_only_raises_divergences(analysis, spacing):
    # Expected batch 400 of a pool of 2500: the spread of l matters and is far from one node.
    step = small_step(num_relations=20_000, sample_rate=0.02, pool_size=2500, noise_multiplier=3.0)
    epsilons = np.array([0.0, 0.05, 0.3, 1.0])
    exact = hockey_stick(dominating_pair(step, analysis, -60.0, node_spacing=1e-3), epsilons)
    found = hockey_stick(dominating_pair(step, analysis, -60.0, node_spacing=spacing), epsilons)
    for side in (0, 1):
        assert (found[side] >= exact[side] * (1 - 1e-12)).all()
        assert (found[side] <= exact[side] * (1 + 0.05 * spacing) + 1e-15).all()


def test_nodes_keep_the_mean_of_l():
    step = small_step(num_relations=10**9, sample_rate=1e-4, pool_size=10**7)
    pair = dominating_pair(step, "anchored", -60.0)
    assert len(pair.node_weights) < 150
    assert pair.node_weights @ pair.excess == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("cut", [-3.0, -8.0])
@pytest.mark.parametrize("analysis", ["anchored", "replacement"])
def test_cut_tails_of_i_and_l_are_counted_upwards(cut, analysis):
    # A cut as coarse as this moves whole percents of probability; the divergence may only rise.
    step = tiny_step(max_degree=6, sample_rate=0.3)
    with mp.workdps(20):
        exact = [float(side) for side in hockey_sticks(step, analysis, 0.3)]
    found = hockey_stick(dominating_pair(step, analysis, cut), np.array([0.3]))
    assert found[0][0] >= exact[0] * (1 - 1e-12)
    assert found[1][0] >= exact[1] * (1 - 1e-12)


@EXACT
@given(degree=st.integers(300, 10_000), rate=st.floats(0.05, 1.0))
def test_many_relations_are_grouped_upwards(degree, rate):
    step = replace(simple_step(sample_rate=rate), max_degree=degree)
    pair = dominating_pair(step, "replacement", -60.0)
    assert len(pair.sensitivities) <= MAX_COMPONENTS + 1
    mean = float(np.exp(pair.log_weights[0]) @ pair.sensitivities)
    assert degree * rate * (1 - 1e-9) <= mean <= degree * rate + degree / MAX_COMPONENTS + 1
    assert masses(pair)[0] == pytest.approx(1.0, abs=1e-12)


def test_mass_below_the_window_of_i_never_thickens_the_other_side():
    step = replace(simple_step(sample_rate=0.5), max_degree=1000)
    pair = dominating_pair(step, "replacement", -40.0)
    assert masses(pair)[0] == pytest.approx(1.0, abs=1e-12)
    smallest = int(pair.sensitivities[1])
    group = [math.comb(1000, i) * 0.5**1000 for i in range(smallest - 3, smallest + 1)]
    assert math.exp(pair.log_weights[0, 1]) <= sum(group) * (1 + 1e-9)
    assert pair.tail_log_weights[0] == -40.0


def test_a_pool_that_one_batch_could_fill_has_no_empty_node():
    step = small_step(num_relations=100, pool_size=400, num_negatives=4, sample_rate=0.1)
    pair = dominating_pair(step, "anchored", -80.0)
    assert np.isfinite(pair.log_weights).any(axis=1).all()


def test_the_rarest_rate_still_has_a_component():
    pair = dominating_pair(simple_step(sample_rate=1e-15), "anchored", -26.0)
    assert pair.sensitivities.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("size", [0, 5, 12])
def test_the_frequency_claim_moves_by_one_with_probability_gamma_l(size):
    step = tiny_step(claimed_constant=True)
    pair = dominating_pair(step, "replacement", -500.0)
    moved = 1 - 0.9**2 * (1 - 3 * size / 40)
    assert pair.sensitivities.tolist() == [0.0, 1.0]
    assert math.exp(pair.log_weights[size, 1]) == pytest.approx(moved, rel=1e-12)


@EXACT
@given(
    n=st.integers(8, 30), m=st.integers(1, 7), rate=st.floats(0.01, 0.9), degree=st.integers(1, 3)
)
def test_the_largest_m_and_degree_dominate(n, m, rate, degree):
    """theory.md 3: m_0 = m, d = K and the public n are the worst case."""
    step = tiny_step(
        num_relations=m, pool_size=n, num_negatives=1, max_degree=degree, sample_rate=rate
    )
    epsilons = np.array([-1.0, 0.0, 0.2, 1.0, 3.0])
    others = [
        replace(step, pool_size=n + 1),
        *([replace(step, num_relations=m - 1)] if m > 1 else []),
        *([replace(step, max_degree=degree - 1)] if degree > 1 else []),
    ]
    for analysis in ("anchored", "replacement"):
        worst = hockey_stick(dominating_pair(step, analysis, -300.0), epsilons)
        for other in others:
            less = hockey_stick(dominating_pair(other, analysis, -300.0), epsilons)
            for side in (0, 1):
                assert (less[side] <= worst[side] + 1e-12).all()
