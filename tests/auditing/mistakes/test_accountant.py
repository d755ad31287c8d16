"""(o) An accountant that drops the tail of the batch size is caught by bracketing it from below.

The bracket is independent of the accountant: one step's divergence, summed over every batch size and integrated on a
fine grid. A claim whose delta, computed that way, exceeds the stated one is false.
"""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

from reldp.plan import PrivacyPlan

# Small graphs with a delta at which rare large batches matter.
SETTINGS = [
    {"num_entities": 400, "num_relations": 60, "sample_rate": 0.05, "noise_multiplier": 0.5},
    {"num_entities": 900, "num_relations": 90, "sample_rate": 0.03, "noise_multiplier": 0.6},
    {"num_entities": 600, "num_relations": 40, "sample_rate": 0.1, "noise_multiplier": 0.7},
]
DELTA = 1e-6


def plan_of(settings):
    return PrivacyPlan(
        **settings, max_degree=1, num_negatives=4, num_steps=1, delta=DELTA, analysis="replacement"
    )


def profile(plan, epsilon, largest=None):
    """Removal divergence of theory.md 3.1 over batch sizes 0 .. largest, by quadrature."""
    sizes = np.arange((largest or plan.num_relations) + 1)
    chance = binom.pmf(sizes, plan.num_relations, plan.sample_rate)[:, None]
    negative = np.minimum(plan.num_negatives * sizes / plan.num_entities, 1.0)[:, None]
    sigma = plan.noise_multiplier
    x = np.linspace(-10 * sigma, 3 + 10 * sigma, 8001)[None, :]
    density = np.zeros((sizes.size, x.size))
    for i in (0, 1):
        probability = binom.pmf(i, 1, plan.sample_rate)
        density += probability * (1 - negative) * norm.pdf(x, i, sigma)
        density += probability * negative * norm.pdf(x, i + 2, sigma)
    excess = np.maximum(density - np.exp(epsilon) * norm.pdf(x, 0, sigma), 0.0)
    return float((chance * excess).sum() * (x[0, 1] - x[0, 0]))


def without_tail(plan):
    """The mistake: batch sizes beyond two standard deviations are left out, their mass forgotten."""
    mean = plan.expected_batch_size
    largest = round(mean + 2 * np.sqrt(mean * (1 - plan.sample_rate)))
    return brentq(lambda e: profile(plan, e, largest) - plan.delta, 0.0, 60.0)


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_bracket_catches_a_dropped_tail(settings):
    plan = plan_of(settings)
    assert profile(plan, without_tail(plan)) > 1.01 * plan.delta


@pytest.mark.parametrize("settings", SETTINGS)
def test_our_accountant_stays_above_the_bracket_and_close_to_it(settings):
    plan = plan_of(settings)
    claimed = plan.epsilon()
    assert profile(plan, claimed) <= plan.delta * (1 + 1e-6)
    assert profile(plan, claimed - max(0.01 * claimed, 1e-3)) > plan.delta
