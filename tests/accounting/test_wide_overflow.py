"""Corollary B of theory.md 2.4: batches that cannot be drawn, charged without e^epsilon; with controls."""

import math

import numpy as np
from scipy.stats import binom

from reldp.accounting.discretization import hockey_stick
from reldp.accounting.dominating import dominating_pair
from reldp.accounting.events import CoupledStep
from reldp.accounting.overflow import log_wide_overflow
from reldp.errors import PlanError
from tests.accounting.test_lemmas import (
    anchored,
    divergences,
    enumerated,
    random_sizes,
    with_dummies,
)


def test_corollary_b_covers_the_same_graphs_without_a_factor_of_epsilon():
    """The accountant's own pairs, also at large epsilons, where Theorem B's charge is above 1."""
    at = np.array([0.0, 0.5, 3.0, 6.0])
    smaller = 0
    for bounds, largest, _, true in enumerated(seed=9, count=40, epsilons=at):
        try:
            step = CoupledStep(**bounds)
        except PlanError:
            continue
        trials = step.num_relations + step.max_degree
        charge = binom.sf(largest - step.max_degree - 1, trials, step.sample_rate)
        assert math.exp(log_wide_overflow(step)) >= charge * (1 - 1e-12)
        for analysis in ("anchored", "replacement"):
            bound = np.array(hockey_stick(dominating_pair(step, analysis, -200.0), at))
            assert (true <= bound + charge + 1e-6).all(), (bounds, analysis)
            smaller += bool((true > bound / 2 + charge + 1e-4).any())
    assert smaller > 10  # the control: the charge does not cover everything by itself


def test_the_top_of_the_restricted_pair_is_what_corollary_b_charges():
    """Insertion: the step with l + s <= L - K against the accountant's pair up to L, which keeps A^(+1) there."""
    rng = np.random.default_rng(8)
    at = np.array([0.0, 0.7, 3.0, 8.0])
    tried = uncharged = 0
    for _ in range(300):
        s = random_sizes(rng)
        top = s["largest"] - s["degree_bound"]
        if top < 1 or s["m_high"] <= s["largest"]:
            continue
        tried += 1
        sizes = (s["m_high"], s["n_low"], s["degree_bound"], s["k"], s["rate"])
        weights, chances = anchored(*sizes, s["largest"] + 1)
        pair = weights[: s["largest"] + 1], chances[: s["largest"] + 1]
        bound = divergences(pair, s["sigma"], at)[1]
        rest = (s["n"], s["degree"], s["k"], s["rate"], top)
        true = divergences(with_dummies(s["m"], s["m_high"] - s["m"], *rest), s["sigma"], at)[1]
        charge = binom.pmf(top, s["m_high"], s["rate"])
        assert (true <= bound + charge + 1e-9).all(), s
        uncharged += bool((true > bound + 1e-6).any())
    assert tried > 20
    assert uncharged > 3  # the control
