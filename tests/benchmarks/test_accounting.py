import numpy as np
import pytest

from benchmarks import accounting
from reldp.plan import PrivacyPlan

SMALL = accounting.Setting(
    plan=PrivacyPlan(
        num_entities=1000,
        num_relations=1000,
        max_degree=2,
        num_negatives=2,
        sample_rate=0.01,
        num_steps=10,
        noise_multiplier=2.0,
        delta=1e-4,
    ),
    target_epsilon=1.0,
    interval=0.05,
)


def test_both_constructions_are_of_the_same_mixture():
    from reldp.accounting.discretization import hockey_stick

    mixture = accounting.one_mixture(SMALL.plan)
    generic = accounting.generic(mixture, interval=0.05)
    for epsilon in (0.1, 0.2, 0.4):  # multiples of the interval, where both are exact
        exact = max(float(side[0]) for side in hockey_stick(mixture, np.array([epsilon])))
        assert generic.get_delta_for_epsilon(epsilon) == pytest.approx(exact, rel=1e-6)


def test_the_comparison_is_timed_at_one_interval():
    available = accounting.beside_generic(SMALL, repeats=1)
    assert available["interval"] == SMALL.interval
    theirs, ours, half = available["generic_seconds"], available["ours_seconds"], 0.0005
    low, high = (theirs - half) / (ours + half), (theirs + half) / max(ours - half, 1e-9)
    assert low - 0.05 <= available["generic_to_ours"] <= high + 0.05  # what rounding allows


def test_a_limit_that_is_missed_in_one_setting_is_not_reached():
    fast = {what: {"seconds": 0.1} for what in accounting.LIMITS}
    rows = {
        "the paper's default, noise 1": {**fast, "construction": {"generic_to_ours": 5.0}},
        "small noise 0.3": {**fast, "construction": {"generic_to_ours": 30.0}},
    }
    starts = {"import_reldp": 0.01, "reldp_account": 1.0}
    assert all(accounting.reached(rows, starts).values())
    rows["small noise 0.3"]["pld epsilon"] = {"seconds": 2.5}
    missed = [what for what, holds in accounting.reached(rows, starts).items() if not holds]
    assert missed == ["pld epsilon under 2 s"]
    slow = {"import_reldp": 0.01, "reldp_account": 4.0}
    assert len([h for h in accounting.reached(rows, slow).values() if not h]) == 2


def test_the_four_settings_are_plans():
    available = accounting.settings()
    assert list(available)[1] == "small noise 0.3"
    assert available["K = 50, noise 1"].plan.max_degree == 50
    assert available["n = 5,000, rate 0.02, noise 1"].plan.num_entities == 5000
