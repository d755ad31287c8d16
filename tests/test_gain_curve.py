"""What noise costs: measured ranges, falling with noise, never extrapolated; choices only where they were measured."""

import itertools
import json
import math
from dataclasses import replace
from importlib.resources import files

import pytest

from reldp import _gain_curve, _plan_suggestion
from reldp._gain_curve import Choice, Curve, GainTable, falling, gain_advice, gain_table
from reldp._plan_suggestion import DEFAULT, chosen_plan, suggest_settings
from reldp.graph import EntityGraph
from reldp.plan import PrivacyPlan

PLAN = PrivacyPlan(
    num_entities=10_000,
    num_relations=20_000,
    max_degree=5,
    num_negatives=4,
    expected_batch_size=100,
    num_steps=50,
    noise_multiplier=1.0,
    delta=1e-6,
)
FEW = {"max_degree": 5, "num_negatives": 4, "batch": 256, "passes": 2.5}
MANY = {"max_degree": 5, "num_negatives": 8, "batch": 256, "passes": 2.5}


def curve(shares, *, train="a", test="b", choice=FEW, noises=(0.001, 0.01, 0.1)):
    points = [
        {"noise": noise, "share": share, "low": share - 0.1, "high": share + 0.1}
        for noise, share in zip(noises, shares, strict=True)
    ]
    return {"train": train, "test": test, "encoder": "x", "choice": choice, "points": points}


def table(*curves, choices=()):
    return GainTable.from_json(
        {
            "curves": curves,
            "choices": list(choices),
            "selection": ["a", "b"],
            "without_gain": [],
        }
    )


@pytest.mark.parametrize("values", [[3, 2, 1], [1, 2, 3], [5, 1, 4, 4, 0, 2], [1]])
def test_the_nearest_falling_sequence_falls_and_is_the_nearest(values):
    made = falling(values)
    assert made == sorted(made, reverse=True)
    assert sum(made) == pytest.approx(sum(values))
    best = sum((a - b) ** 2 for a, b in zip(made, values, strict=True))
    steps = [x / 2 for x in range(11)]
    for other in itertools.combinations_with_replacement(steps[::-1], min(len(values), 4)):
        tried = [*other, *made[len(other) :]]
        if tried == sorted(tried, reverse=True):
            assert sum((a - b) ** 2 for a, b in zip(tried, values, strict=True)) >= best - 1e-9


def test_points_are_joined_in_the_logarithm_of_the_noise_and_end_where_measurements_do():
    made = Curve.from_json(curve([0.8, 0.4, 0.0]))
    assert made.at(0.01).share == 0.4
    assert made.at(math.sqrt(0.001 * 0.01)).share == pytest.approx(0.6)
    assert made.at(0.0009).share == 0.8  # a little less noise
    assert made.at(0.0007) is None
    assert made.at(0.11) is None


def test_advice_is_the_range_over_curves_and_never_rises_with_noise():
    made = table(curve([0.8, 0.4, 0.0]), curve([0.9, 0.7, 0.3], test="c"))
    advice = made.advice(0.01)
    assert (advice.low, advice.high) == (pytest.approx(0.3), pytest.approx(0.8))
    assert advice.num_curves == 2
    assert "kept about 30-80 % of the gain in our experiments" in advice.words(4.0)
    noises = [0.001 * 1.3**i for i in range(17)]
    ranges = [made.advice(noise) for noise in noises]
    for first, second in itertools.pairwise(ranges):
        assert second.low <= first.low + 1e-12
        assert second.high <= first.high + 1e-12


def test_plans_alike_count_alone_where_there_are_some():
    made = table(curve([0.8, 0.4, 0.0]), curve([0.9, 0.7, 0.3], choice=MANY, noises=(1, 2, 3)))
    alike = made.advice(0.01, max_degree=5, num_negatives=4)
    assert (alike.low, alike.num_curves) == (pytest.approx(0.3), 1)
    assert made.advice(2.0, max_degree=5, num_negatives=4).high == pytest.approx(0.8)


def test_noise_of_tuples_of_relations_is_compared_with_such_tuples():
    entities, relations = curve([0.8, 0.4, 0.0]), {**FEW, "negatives": "relations"}
    made = table(entities, curve([0.9, 0.7, 0.3], choice=relations))
    shares = [made.advice(0.01, negatives=pool).low for pool in ("entities", "relations")]
    assert shares == pytest.approx([0.3, 0.6])
    alone = table(entities).advice(0.01, negatives="relations")
    assert alone.low == pytest.approx(0.3)  # nothing else was measured


def test_beyond_the_measured_noise_nothing_is_extrapolated():
    made = table(curve([0.8, 0.4, 0.2]))
    beyond = made.advice(0.5)
    assert beyond.is_beyond
    assert (beyond.low, beyond.high) == (pytest.approx(0.1), pytest.approx(0.3))
    assert beyond.measured_noise == 0.1
    assert "too small for epsilon 1" in beyond.words(1.0)
    assert "more than in any of our experiments" in beyond.words(1.0)
    assert "where 10-30 % of the gain was kept). Expect less. At such" in made.advice(0.15).words(
        1.0
    )
    below = made.advice(0.0001)
    assert (below.low, below.high) == (pytest.approx(0.7), pytest.approx(0.9))
    assert "less than in our experiments: graphs with 0.001 kept about 70-90 %" in below.words(4)
    assert not below.is_useless


def test_a_graph_that_keeps_next_to_nothing_is_too_small():
    made = table(curve([0.8, 0.1, 0.0]))
    assert "kept about 0-15 % of the gain" in made.advice(0.05).words(1.0)
    assert made.advice(0.05).words(1.0).endswith("this graph is too small for epsilon 1.")
    assert not made.advice(0.005).is_useless


def test_the_bundled_table_is_what_the_committed_rows_say_and_has_its_source():
    values = json.loads(files("reldp").joinpath("_gain_curve.json").read_text())
    assert values["command"] == "python -m benchmarks.gain_curve"
    made = gain_table()
    assert made.curves
    for each in made.curves:
        assert all(p.low <= p.share <= p.high and p.noise > 0 for p in each.points)


def test_graphs_without_a_gain_are_counted():
    made = replace(table(curve([0.8, 0.4, 0.0])), without_gain=("c to d", "e to f"))
    assert "on 2 of 3 pairs of graphs it was too small to be kept" in made.caveat


def test_a_plan_says_what_its_noise_costs():
    assert PLAN.expected_gain() == gain_advice(PLAN).words(PLAN.epsilon())
    assert "the noise per expected batch is 0.01" in PLAN.expected_gain()


def test_noise_is_that_of_the_clipped_mean():
    assert gain_advice(PLAN).noise == pytest.approx(0.01)
    assert gain_advice(replace(PLAN, clip_norm=0.5)).noise == pytest.approx(0.005)


@pytest.fixture
def calls(monkeypatch):
    """Plans that would be made for a graph of 100,000 relations, and a table that prefers more negatives."""
    made = table(curve([0.5, 0.4, 0.0]), curve([0.9, 0.8, 0.0], choice=MANY), choices=[FEW, MANY])
    for module in (_gain_curve, _plan_suggestion):
        monkeypatch.setattr(module, "gain_table", lambda: made)
    monkeypatch.setattr(
        PrivacyPlan, "calibrate", lambda self, target: replace(self, noise_multiplier=2 / target)
    )
    seen = []

    def make(settings):
        seen.append(settings)
        return replace(PLAN, num_relations=100_000, sample_rate=None, **settings)

    return make, seen


def choose(make, target=4.0, **settings):
    return chosen_plan(make, settings, 5, 100_000, target)


def test_another_configuration_is_chosen_where_it_was_measured_to_keep_more(calls):
    make, _ = calls
    plan = choose(make)
    assert plan.num_negatives == 8
    assert plan.noise_multiplier == 0.5
    assert choose(make) == plan  # reproducible
    assert choose(make, num_negatives=4).num_negatives == 4  # what is given stays
    given = {"num_negatives": 2, "num_steps": 10, "expected_batch_size": 50.0}
    assert choose(make, **given).num_steps == 10


def test_without_a_target_or_a_measurement_the_default_is_used(calls, monkeypatch):
    make, seen = calls
    assert choose(make, target=None).num_negatives == DEFAULT.num_negatives
    assert len(seen) == 1
    for changed in (
        table(curve([0.9, 0.8, 0.0], choice=MANY, train="z"), choices=[MANY]),
        table(curve([0.9, 0.8, 0.0], choice={**MANY, "max_degree": 2}), choices=[MANY]),
        # Within the interval of the default.
        table(curve([0.5, 0.5, 0.5]), curve([0.55] * 3, choice=MANY), choices=[FEW, MANY]),
    ):
        for module in (_gain_curve, _plan_suggestion):
            monkeypatch.setattr(module, "gain_table", lambda table=changed: table)
        assert choose(make).num_negatives == DEFAULT.num_negatives


def test_what_was_measured_is_preferred_to_a_default_that_was_not(calls, monkeypatch):
    make, _ = calls
    few = {**MANY, "num_negatives": 2}
    both = [curve([0.3] * 3, choice=few), curve([0.25] * 3, choice=MANY)]
    for module in (_gain_curve, _plan_suggestion):
        monkeypatch.setattr(module, "gain_table", lambda: table(*both, choices=[MANY, few]))
    assert choose(make).num_negatives == 2


def test_the_choice_follows_from_bounds_and_target_alone():
    """Two graphs within the same declared bounds get the same plan."""
    plans = []
    for count in (400, 500):
        ring = [(i, (i + 1) % count) for i in range(count)]
        graph = EntityGraph.from_lists(list(range(count)), ring, text=["x"] * count)
        plans.append(
            PrivacyPlan.for_graph(
                graph.promise_degrees(2),
                sizes="declared",
                min_entities=300,
                max_relations=600,
                target_epsilon=8.0,
                delta=1e-4,
            )
        )
    assert plans[0] == plans[1]


def test_a_configuration_scales_with_the_graph():
    choice = Choice(max_degree=3, num_negatives=8, batch=1024, passes=1.0)
    large = suggest_settings(3, 1_000_000, choice)
    assert (large.num_negatives, large.expected_batch_size, large.num_steps) == (8, 1024, 980)
    assert suggest_settings(3, 20_000, choice).expected_batch_size == 64
    assert suggest_settings(3, 20_000, replace(choice, batch_share=0.02)).expected_batch_size == 256
    assert suggest_settings(5, 400_000) == suggest_settings(5, 400_000, DEFAULT)


def test_much_noise_asks_for_a_smaller_learning_rate_and_little_noise_does_not():
    made = table(curve([0.8, 0.5, 0.2]))
    assert "0.0003 did not" in made.advice(0.051).words(4.0)
    assert "learning rate" not in made.advice(0.049).words(4.0)
    assert "learning rate" not in made.advice(5.0).words(4.0), "a graph that is too small"
