"""What every accountant must satisfy (theory.md 4): a suite that each accountant's tests inherit."""

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reldp.accounting import CoupledStep
from reldp.errors import PlanError, UnsupportedEvent
from reldp.plan import PrivacyPlan
from tests.accounting.oracles import Simulation

# Few examples, each of them slow; no database, so that every run tries the same ones and one test may be inherited
# by several classes.
FEW = settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.differing_executors],
)

PLAN = {
    "num_entities": 1500,
    "num_relations": 2000,
    "max_degree": 3,
    "sample_rate": 0.01,
    "noise_multiplier": 1.0,
    "num_steps": 20,
    "delta": 1e-5,
}


def small_step(**changes):
    """A step on a small graph in which negatives matter."""
    usual = {
        "num_relations": 2000,
        "pool_size": 1500,
        "max_degree": 3,
        "num_negatives": 3,
        "sample_rate": 0.01,
        "noise_multiplier": 1.0,
    }
    return CoupledStep(**{**usual, **changes})


def simple_step(**changes):
    """One relation per entity and no negatives: the Poisson-subsampled Gaussian."""
    return small_step(max_degree=1, num_negatives=0, drawn_negatives=0, **changes)


def tiny_step(**changes):
    """A step small enough for the oracles to list every batch size."""
    usual = {
        "num_relations": 12,
        "pool_size": 40,
        "max_degree": 2,
        "num_negatives": 3,
        "sample_rate": 0.1,
        "noise_multiplier": 0.6,
    }
    return CoupledStep(**{**usual, **changes})


class AccountantConformance:
    """Inherit, name the accountant, and every reduction and monotonicity is tested."""

    accountant = None  # the class
    settles = 0.0  # relative error upwards that the accountant's own search may leave

    def epsilon(self, composition, delta=1e-5, **options):
        return self.accountant(**options).epsilon(composition, delta).epsilon

    def gaussian(self, sigma, num_steps, delta):
        """The accountant's exact answer for the plain Gaussian mechanism."""
        raise NotImplementedError

    # Reductions.

    @pytest.mark.parametrize("analysis", ["best", "anchored", "replacement"])
    @pytest.mark.parametrize(("sigma", "steps", "delta"), [(2.0, 1, 1e-5), (5.0, 30, 1e-8)])
    def test_rate_one_and_one_relation_is_the_plain_gaussian(self, analysis, sigma, steps, delta):
        event = simple_step(sample_rate=1.0, noise_multiplier=sigma)
        found = self.epsilon(event * steps, delta, analysis=analysis)
        exact = self.gaussian(sigma, steps, delta)
        assert exact * (1 - 1e-9) <= found <= exact * (1 + self.settles)

    @pytest.mark.parametrize("rate", [1.0, 0.9999])
    def test_many_certain_steps_cost_at_least_their_mean_loss(self, rate):
        step = small_step(
            max_degree=15, sample_rate=rate, pool_size=10**8, noise_multiplier=6.6, num_negatives=2
        )
        smallest = 20_000 * (15 / 6.6) ** 2 / 2  # twenty thousand times the divergence of i = 15
        found = self.epsilon(step * 20_000, 1e-9)
        assert smallest * 0.999 < found < smallest * 1.1

    def test_no_noise_costs_infinity(self):
        assert self.epsilon(small_step(noise_multiplier=0.0) * 1) == math.inf
        mixed = small_step() * 3 + small_step(noise_multiplier=0.0) * 1
        assert self.epsilon(mixed) == math.inf

    def test_no_steps_cost_nothing(self):
        assert self.epsilon(small_step() * 0) == 0.0
        assert self.epsilon(small_step(noise_multiplier=0.0) * 0) == 0.0

    def test_without_negatives_both_analyses_agree(self):
        event = small_step(num_negatives=0, drawn_negatives=3, pool_shrinks=False)
        found = [self.epsilon(event * 50, analysis=a) for a in ("anchored", "replacement")]
        assert found[0] == pytest.approx(found[1], rel=1e-12)

    def test_pairs_of_one_negative_are_tuples(self):
        # The events come from two clipping rules, each of which states its own sensitivities.
        for k, equal in ((1, True), (3, False)):
            settings = {**PLAN, "num_negatives": k, "analysis": "replacement"}
            pair, whole = (
                self.epsilon(PrivacyPlan(**settings, clipping=rule).event * 20)
                for rule in ("pair", "tuple")
            )
            assert (pair == whole) is equal
            assert pair <= whole

    @pytest.mark.parametrize("analysis", ["anchored", "replacement"])
    def test_only_the_share_of_the_pool_that_is_drawn_matters(self, analysis):
        # theory.md 3.1 and 3.2 depend on k and n through k / n alone, where no batch overflows.
        once = small_step(num_negatives=2, drawn_negatives=2, pool_size=2000)
        twice = small_step(num_negatives=4, drawn_negatives=4, pool_size=4000)
        more = small_step(num_negatives=4, drawn_negatives=4, pool_size=2000)
        usual = self.epsilon(once * 50, analysis=analysis)
        assert self.epsilon(twice * 50, analysis=analysis) == pytest.approx(usual, rel=1e-6)
        assert self.epsilon(more * 50, analysis=analysis) > usual * 1.001

    @pytest.mark.parametrize("step", [small_step(), small_step(negative_replacement=2 / 3)])
    def test_best_is_the_smaller_analysis(self, step):
        each = {a: self.epsilon(step * 100, analysis=a) for a in ("anchored", "replacement")}
        best = self.accountant().epsilon(step * 100, 1e-5)
        assert best.epsilon <= min(each.values()) * (1 + 1e-12)
        assert best.analysis == min(each, key=each.get)

    def test_equal_steps_merge(self):
        step = small_step()
        assert self.epsilon(step * 30 + step * 40) == self.epsilon(step * 70)

    def test_steps_of_different_noise_and_rate_cost_between_their_extremes(self):
        cheap, dear = small_step(sample_rate=0.005, noise_multiplier=1.5), small_step()
        found = self.epsilon(cheap * 40 + dear * 40)
        assert self.epsilon(cheap * 80) < found < self.epsilon(dear * 80)
        assert found > self.epsilon(dear * 40) * (1 - self.settles)

    # Monotonicity, on factors large enough to stand out from what the search leaves.

    @FEW
    @given(
        sigma=st.floats(0.4, 5.0),
        degree=st.integers(1, 20),
        steps=st.integers(1, 500),
        factor=st.floats(1.3, 3.0),
    )
    def test_epsilon_grows_with_steps_degree_and_less_noise(self, sigma, degree, steps, factor):
        step = small_step(noise_multiplier=sigma, max_degree=degree)
        usual = self.epsilon(step * steps) * (1 - self.settles)
        assert self.epsilon(step * math.ceil(factor * steps)) >= usual
        assert self.epsilon(replace(step, max_degree=math.ceil(factor * degree)) * steps) >= usual
        assert self.epsilon(replace(step, noise_multiplier=sigma / factor) * steps) >= usual

    @FEW
    @given(negatives=st.integers(0, 5), sigma=st.floats(0.5, 3.0), delta=st.floats(1e-12, 1e-3))
    def test_epsilon_of_tuples_grows_with_negatives_and_falls_with_delta(
        self, negatives, sigma, delta
    ):
        step = small_step(num_negatives=negatives, noise_multiplier=sigma)
        more = replace(step, num_negatives=negatives + 2)
        usual = self.epsilon(step * 50, delta) * (1 - self.settles)
        assert self.epsilon(more * 50, delta) >= usual
        assert self.epsilon(step * 50, delta / 10) >= usual

    @FEW
    @given(rate=st.floats(1e-4, 0.05), factor=st.floats(1.5, 4.0))
    def test_epsilon_grows_with_the_sample_rate(self, rate, factor):
        step = small_step(sample_rate=rate)
        more = replace(step, sample_rate=rate * factor)
        assert self.epsilon(more * 50) >= self.epsilon(step * 50) * (1 - self.settles)

    # Simulation: the truth may not exceed what the accountant promises.

    @pytest.mark.parametrize("analysis", ["anchored", "replacement"])
    def test_no_simulated_run_exceeds_the_price(self, analysis):
        # False alarm below 4e-7: two directions, one-sided, 1e-7 each.
        delta = 0.05
        found = self.epsilon(tiny_step() * 8, delta, analysis=analysis)
        low, _ = Simulation(tiny_step(), analysis, 8, runs=150_000, seed=3).delta(found)
        assert low <= delta

    # Refusals.

    @pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, math.nan])
    def test_delta_outside_its_range_is_refused(self, delta):
        with pytest.raises(PlanError, match="`delta` must be a number strictly between 0 and 1"):
            self.epsilon(small_step() * 1, delta)

    @pytest.mark.parametrize("event", [None, 3, small_step(), "gaussian"])
    def test_what_is_no_composition_has_no_price(self, event):
        with pytest.raises(UnsupportedEvent, match="accountants take a Composition"):
            self.epsilon(event)

    def test_an_unknown_analysis_is_refused(self):
        with pytest.raises(
            PlanError, match="`analysis` must be one of best, replacement, anchored"
        ):
            self.epsilon(small_step() * 1, analysis="hopeful")

    def test_anchored_is_refused_where_its_theorem_does_not_hold(self):
        for step in (
            small_step(sample_rate=1.0, pool_size=10_000),
            small_step(negative_removal=None),
        ):
            with pytest.raises(PlanError, match="needs a local clipping rule and a sample rate"):
                self.epsilon(step * 1, analysis="anchored")

    def test_batches_that_cannot_be_drawn_are_refused(self):
        with pytest.raises(PlanError, match="cannot be drawn would take too large a part"):
            self.epsilon(small_step(pool_size=80) * 100)
