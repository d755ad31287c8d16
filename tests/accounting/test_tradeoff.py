"""Bounds on attacks: never below the best attack that can be listed, close to it, and refuted where they are wrong."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from reldp.accounting import tradeoff
from reldp.accounting.dominating import dominating_pair
from reldp.accounting.events import CoupledStep
from reldp.accounting.overflow import overflow_charge
from reldp.accounting.pld import EpsilonSearch, PLDAccountant
from reldp.accounting.tradeoff import QUESTIONS, TradeOff, group_delta, trade_off
from reldp.errors import PlanError
from tests.accounting.conformance import small_step
from tests.accounting.test_exact_enumeration import Listing, Tiny

RATES = np.array([1e-4, 1e-3, 0.01, 0.1, 0.5])
SLACK = 1e-9  # rounding of the densities in the tests

GAUSSIAN = CoupledStep(
    num_relations=100,
    pool_size=100,
    max_degree=1,
    num_negatives=0,
    sample_rate=1.0,
    noise_multiplier=3.0,
)
# No batch of these graphs overflows. In the second, an entity other than u has six relations.
TINY = [
    Tiny(entities=7, others=4, degree=2, negatives=1, rate=0.3, sigma=0.7),
    Tiny(entities=7, others=5, degree=1, negatives=1, rate=0.2, sigma=0.5),
    Tiny(entities=7, others=2, degree=1, negatives=2, rate=0.5, sigma=1.0),
]


class FineSearch(EpsilonSearch):
    """A search that goes on until the interval is eight times smaller."""

    @property
    def settled(self):
        return self._done and self._levels >= self._first + 3

    @settled.setter
    def settled(self, value):
        self._first = getattr(self, "_first", None) or (self._levels if value else None)
        self._done = self._first is not None


def best_attack(nothing, something, rates):
    """Neyman and Pearson: the largest true-positive rates, by listed probabilities of all outputs."""
    order = np.argsort(-something / np.maximum(nothing, 1e-300), kind="stable")
    false = np.concatenate([[0.0], np.cumsum(nothing[order])])
    true = np.concatenate([[0.0], np.cumsum(something[order])])
    return np.interp(rates, false, true)


def laws_of_pair(event, analysis):
    """Probabilities of the outputs of the dominating pair, with and without the entity, on a fine grid."""
    pair = dominating_pair(event, analysis, -200.0)
    edges = np.linspace(-9.0, 9.0 + pair.sensitivities[-1] / pair.sigma, 6000)
    without = np.diff(ndtr(edges))
    shares = np.diff(ndtr(edges[:, None] - pair.sensitivities / pair.sigma), axis=0)  # (E, C)
    nodes = pair.node_weights[:, None]
    with_u = nodes * (np.exp(pair.log_weights) @ shares.T)
    return with_u.ravel(), (nodes * without).ravel()


def laws_of_graph(tiny, steps):
    """Probabilities of the outputs of some steps on a tiny graph and on its neighbor, gradients on one line."""
    listing = Listing(tiny)
    gradients = listing.by_class(1, 1, -1)
    laws = []
    for counts, chances in listing.sides:
        points, place = np.unique(np.rint(counts @ gradients * 2), axis=0, return_inverse=True)
        laws.append((points / 2, np.bincount(place.ravel(), chances)))
    grid, cell = listing._grid([points for points, _ in laws])
    step = 1 if steps == 1 else 4
    both = []
    for law in laws:
        density = listing._density(grid, *law).ravel()[::step] * cell * step
        once = density / density.sum()
        both.append(once if steps == 1 else np.outer(once, once).ravel())
    return both


def event_of(tiny, **changes):
    step = CoupledStep(
        num_relations=tiny.others,
        pool_size=tiny.entities,
        max_degree=tiny.degree,
        num_negatives=tiny.negatives,
        sample_rate=tiny.rate,
        noise_multiplier=tiny.sigma,
    )
    return replace(step, **changes)


@pytest.mark.parametrize("steps", [1, 40])
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_gaussian_mechanism_has_its_known_curve(steps, question):
    exact = ndtr(ndtri(RATES) + math.sqrt(steps) / 3.0)
    found = trade_off(GAUSSIAN * steps, "replacement").power(RATES, question)
    assert (found >= exact - SLACK).all()
    assert (found <= exact * 1.004 + 1e-5).all()


@pytest.mark.parametrize("analysis", ["anchored", "replacement"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"max_degree": 1, "noise_multiplier": 0.6},
        {"num_negatives": 0, "sample_rate": 0.2},
        {"pool_size": 400, "sample_rate": 0.03, "max_degree": 8},
    ],
)
def test_one_step_is_bounded_closely_by_its_dominating_pair(analysis, changes):
    event = small_step(**changes)
    with_u, without = laws_of_pair(event, analysis)
    curve = trade_off(event * 1, analysis)
    # The grid is made for rare large losses; absence has none, and one step shows its spacing most.
    for question, laws, loose in (
        ("presence", (without, with_u), 1.03),
        ("absence", (with_u, without), 1.3),
    ):
        exact = best_attack(*laws, RATES)
        found = curve.power(RATES, question)
        assert (found >= exact - 1e-7).all()
        assert (found <= exact * loose + 2e-5).all()


def test_a_finer_grid_changes_little_after_many_steps(monkeypatch):
    """The curves of runs: the spacing of the grid raises them by less than one percent."""
    event = small_step() * 60
    coarse = trade_off(event, "anchored")
    monkeypatch.setattr(tradeoff, "EpsilonSearch", FineSearch)
    fine = trade_off(event, "anchored")
    for question in QUESTIONS:
        assert (coarse.power(RATES, question) <= 1.01 * fine.power(RATES, question)).all()


@pytest.fixture(scope="module")
def listed():
    """Every batch and every draw of tiny graphs: best attacks by question, after one step and after two."""
    return {
        (place, steps): {
            "presence": best_attack(without, with_u, RATES),
            "absence": best_attack(with_u, without, RATES),
        }
        for place, tiny in enumerate(TINY)
        for steps in (1, 2)
        for with_u, without in [laws_of_graph(tiny, steps)]
    }


@pytest.mark.parametrize("analysis", ["anchored", "replacement"])
def test_no_attack_on_a_listed_graph_exceeds_the_bound(listed, analysis):
    for (place, steps), attacks in listed.items():
        curve = trade_off(event_of(TINY[place]) * steps, analysis)
        for question in QUESTIONS:
            assert (attacks[question] <= curve.power(RATES, question) + 1e-5).all()


def test_the_bound_is_nearly_reached_on_a_listed_graph(listed):
    shares = [
        attacks["presence"]
        / trade_off(event_of(TINY[p]) * steps, "anchored").power(RATES, "presence")
        for (p, steps), attacks in listed.items()
    ]
    assert np.max(shares) > 0.95
    assert np.min(np.max(shares, axis=1)) > 0.6


def test_control_the_curve_of_the_other_question_is_refuted(listed):
    """Removal and insertion differ: whoever confuses them promises too much."""
    refuted = [
        key
        for key, attacks in listed.items()
        for curve in [trade_off(event_of(TINY[key[0]]) * key[1], "anchored")]
        if (attacks["presence"] > curve.power(RATES, "absence") * 1.01 + 1e-5).any()
    ]
    assert refuted


def test_an_entity_with_few_relations_has_the_bound_of_its_own_degree(listed):
    """In the second graph the degree bound is six, and u has one relation."""
    tiny = TINY[1]
    degrees = np.bincount(np.array(tiny.relations).ravel())
    assert degrees[0] == tiny.degree == 1
    assert degrees.max() == 6
    own, bound = (trade_off(event_of(tiny, max_degree=d) * 2, "anchored") for d in (1, 6))
    for question in QUESTIONS:
        assert (listed[1, 2][question] <= own.power(RATES, question) + 1e-5).all()
        assert (own.power(RATES, question) < bound.power(RATES, question)).all()


def test_control_the_bound_of_a_smaller_degree_is_refuted(listed):
    curve = trade_off(event_of(TINY[0], max_degree=1) * 2, "anchored")
    assert (listed[0, 2]["presence"] > curve.power(RATES, "presence") * 1.02).any()


def test_a_group_gets_the_curve_applied_once_for_each_of_its_entities():
    """In the Gaussian mechanism, a group of c moves the sum c times as far, and the generic bound is exact."""
    curve = trade_off(GAUSSIAN * 1, "replacement")
    for size in (2, 5):
        exact = ndtr(ndtri(RATES) + size / 3.0)
        for question in QUESTIONS:
            found = curve.group_power(RATES, question, size)
            assert (found >= exact - SLACK).all()
            assert (found <= exact * 1.01 + 1e-4).all()
            assert group_delta(1.0, 1e-5, size) >= 1e-5 * math.exp(size - 1)


def test_control_a_group_that_is_one_smaller_is_refuted():
    curve = trade_off(GAUSSIAN * 1, "replacement")
    exact = ndtr(ndtri(RATES) + 5 / 3.0)
    assert (curve.group_power(RATES, "presence", 4) < exact).all()


def test_points_of_the_curve_are_those_of_the_accountant():
    event = small_step()
    curve = trade_off(event * 50, "anchored")
    for delta in (1e-2, 1e-3, 1e-4):
        epsilon = PLDAccountant(analysis="anchored").epsilon(event * 50, delta).epsilon
        worse = np.maximum(curve.removal, curve.insertion)
        assert np.interp(epsilon, curve.epsilons, worse) == pytest.approx(delta, rel=0.05)


def test_undrawable_batches_are_charged():
    event = small_step(pool_size=120)
    composition = event * 50
    charge = overflow_charge(composition, 1.0)
    assert charge > 1e-9
    curve = trade_off(composition, "anchored")
    assert (curve.removal >= [overflow_charge(composition, e) for e in curve.epsilons]).all()
    assert overflow_charge(small_step(num_negatives=0) * 50, 1.0) == 0


def test_a_release_before_the_steps_is_included():
    """Randomized response with epsilon 0.5, then one step: the best attack on both stays below the shifted curve."""
    curve = trade_off(GAUSSIAN * 1, "replacement")
    edges = np.linspace(-9.0, 9.5, 4000)
    without, with_u = (np.diff(ndtr(edges - at)) for at in (0.0, 1 / 3.0))
    yes = math.exp(0.5) / (1 + math.exp(0.5))
    joint = [np.outer([1 - p, p], law).ravel() for p, law in ((1 - yes, without), (yes, with_u))]
    exact = best_attack(*joint, RATES)
    assert (exact <= curve.shifted(0.5, 0.0).power(RATES, "presence") + SLACK).all()
    assert (exact > curve.power(RATES, "presence") * 1.05)[:4].all(), "control: without the release"
    more = curve.shifted(0.0, 1e-3)
    assert np.allclose(more.removal, np.minimum(curve.removal + 1e-3, 1))


def test_the_advantage_is_the_largest_distance_from_a_coin_flip():
    curve = trade_off(GAUSSIAN * 1, "replacement")
    exact = 2 * ndtr(1 / 6.0) - 1
    assert exact - SLACK <= curve.advantage() <= exact * 1.01
    rates = np.linspace(0, 1, 2001)
    shifted = curve.shifted(0.3, 1e-4)
    gaps = [(shifted.power(rates, q) - rates).max() for q in QUESTIONS]
    assert max(gaps) - 1e-9 <= shifted.advantage() < 1


def test_bounds_are_between_guessing_and_certainty_and_concave():
    curve = trade_off(small_step() * 100, "anchored")
    rates = np.linspace(0, 1, 501)
    for question in QUESTIONS:
        power = curve.power(rates, question)
        assert (power >= rates).all()
        assert (power <= 1).all()
        assert (np.diff(power, 2) <= 1e-12).all()


def test_without_noise_or_steps_there_is_no_curve():
    for composition in (small_step() * 0, small_step(noise_multiplier=0.0) * 3):
        with pytest.raises(PlanError, match="noisy steps"):
            trade_off(composition, "anchored")
    with pytest.raises(PlanError, match="question"):
        TradeOff(np.zeros(1), np.ones(1), np.ones(1)).power([0.1], "both")
