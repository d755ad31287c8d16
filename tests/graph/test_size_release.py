from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from reldp.errors import GraphError, PlanError
from reldp.graph import EntityGraph
from reldp.graph.size_release import (
    BILLION,
    COARSE,
    Release,
    _fine_stage,
    draw_release,
    expected_epsilon,
    num_unprotected,
    release_target,
)

RELEASE = Release(
    entities=50_000,
    relations=90_000,
    unprotected=30_000,
    coarse_rate=10**6,
    entity_rate=2 * 10**7,
    relation_rate=2 * 10**7,
    failure=1e-9,
    max_degree=5,
)


def ring(size, unprotected=0, degree=2):
    graph = EntityGraph.from_lists(
        list(range(size)),
        [(i, (i + 1) % size) for i in range(size)],
        features=np.zeros((size, 1), dtype=np.float32),
        protected=[i >= unprotected for i in range(size)],
    )
    return graph.promise_degrees(degree)


def test_the_expected_cost_is_about_that_of_a_release():
    """The coarse stage moves the cost a little.

    At a target of 16 coarse numbers are off by an eighth with a chance below 40 exp(-20) in 20 draws,
    and the cost is off by less than a tenth then.
    """
    capped = ring(20_000)
    expected = expected_epsilon(capped, 16.0)
    for _ in range(20):
        drawn = draw_release(capped, Fraction(16), None).epsilon("entity")
        assert abs(drawn / expected - 1) < 0.1
    assert expected_epsilon(capped, 4.0) < expected
    assert expected_epsilon(ring(300), 16.0) > 1.1 * expected


def test_bounds_are_the_noisy_numbers_with_the_margins_of_the_theorem():
    assert RELEASE.bounds(40_000) == (50_000 - 1037, 90_000 + 5181, 30_000 - 1037)


def test_the_unprotected_bound_is_never_above_the_exact_number_or_the_entities():
    assert RELEASE.bounds(20_000)[2] == 20_000
    assert replace(RELEASE, unprotected=60_000).bounds(60_000)[2] == RELEASE.bounds(0)[0]
    assert replace(RELEASE, unprotected=-4).bounds(3)[2] == 0


def test_an_entity_pays_for_both_numbers_and_a_relation_for_its_part_of_one():
    assert RELEASE.epsilon("entity") == pytest.approx(2 * 0.021)
    assert replace(RELEASE, entity_rate=10**7).epsilon("entity") == pytest.approx(0.032)
    assert RELEASE.epsilon("relation") == pytest.approx(0.021 / 5)
    assert Fraction(RELEASE.epsilon("relation")) >= Fraction(21, 5000)
    assert RELEASE.delta == 2e-9


@pytest.mark.parametrize("changes", [{"entities": 2073}, {"relations": 10_361}, {"entities": -5}])
def test_noise_as_large_as_the_sizes_is_refused_by_the_noisy_numbers(changes):
    with pytest.raises(PlanError, match=r"`sizes` must not be private for this graph.*Declare"):
        replace(RELEASE, **changes).bounds(0)
    assert replace(RELEASE, entities=2074, relations=10_362).bounds(0) == (1037, 15_543, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"entities": 1.0},
        {"entities": True},
        {"relations": None},
        {"entity_rate": 0},
        {"relation_rate": 0},
        {"coarse_rate": -1},
        {"max_degree": 0},
        {"failure": 0.0},
        {"failure": 1},
        {"failure": float("nan")},
        {"more": 1},
    ],
)
def test_stored_values_are_read_strictly(changes):
    assert Release.parsed(RELEASE.values()) == RELEASE
    with pytest.raises(GraphError, match="complete releases"):
        Release.parsed({**RELEASE.values(), **changes})
    values = RELEASE.values()
    del values["failure"]
    with pytest.raises(GraphError, match="complete releases"):
        Release.parsed(values)


def test_the_coarse_stage_decides_the_fine_one():
    rate = Fraction(1, 1000)
    nouns = _fine_stage(82_115, 58_131, 5, rate, Fraction(1), None)
    assert nouns[0] / BILLION == pytest.approx(0.0122, abs=1e-4)
    assert nouns[1] / BILLION == pytest.approx(0.0324, abs=1e-4)
    assert nouns[2] == pytest.approx(0.005 * 0.1 / (82_115 + 10_000))
    assert _fine_stage(82_115, 58_131, 5, rate, Fraction(4), None)[1] == pytest.approx(2 * nouns[1])
    assert _fine_stage(10**8, 10**8, 5, rate, Fraction(1), None)[0] < 0.04 * nouns[0]
    assert _fine_stage(-500, -500, 5, Fraction(1, 50), Fraction(1), None)[:2] == (BILLION // 8,) * 2


def test_a_delta_that_was_chosen_before_makes_failures_rarer():
    arguments = (82_115, 58_131, 5, Fraction(1, 1000), Fraction(1))
    assert _fine_stage(*arguments, 1e-9)[2] == pytest.approx(0.005 * 1e-9, rel=1e-9, abs=0)
    assert _fine_stage(*arguments, 0.1) == _fine_stage(*arguments, None)


def test_a_release_is_near_the_sizes_and_differs_every_time():
    capped = ring(20_000, unprotected=500)
    found = [draw_release(capped, Fraction(8), None) for _ in range(5)]
    for release in found:
        assert release.coarse_rate == int(8 * COARSE * BILLION)
        # Each is off by more than 40 scales with probability below 1e-17.
        assert abs(release.entities - 20_000) * release.entity_rate < 40 * BILLION
        assert abs(release.relations - 20_000) * release.relation_rate < 80 * BILLION
        assert abs(release.unprotected - 500) * release.entity_rate < 40 * BILLION
    assert len({release.entities for release in found}) > 1


def test_noise_that_makes_up_for_the_difference_gives_neighbors_the_same_release(monkeypatch):
    """Whatever is released, rates included, is a function of noisy numbers: so the noise alone decides its cost."""

    def released(capped, noise):
        numbers = iter(noise)
        monkeypatch.setattr("reldp.graph.size_release.discrete_laplace", lambda rate: next(numbers))
        return draw_release(capped, Fraction(4), None)

    larger, smaller = ring(5_000), ring(4_998)  # two entities and two relations less
    for coarse_n, coarse_m, fine_n, fine_m in ((3, -80, 17, 0), (-400, 2_000, -1, 90)):
        one = released(larger, [coarse_n, coarse_m, fine_n, fine_m, 5])
        other = released(smaller, [coarse_n + 2, coarse_m + 2, fine_n + 2, fine_m + 2, 5])
        assert one == other


def test_noise_has_the_scale_of_the_rate_and_the_degree():
    """Mean absolute noise over its expectation; beyond 1 +- 0.2 with probability below 1e-9 for 1,000 draws."""
    capped = ring(2_000, degree=4)
    found = [draw_release(capped, Fraction(16), None) for _ in range(1_000)]
    entities = [abs(r.entities - 2_000) * r.entity_rate / BILLION for r in found]
    relations = [abs(r.relations - 2_000) * r.relation_rate / BILLION for r in found]
    assert 0.8 < np.mean(entities) < 1.2
    assert 0.8 < np.mean(relations) / 4 < 1.2


def test_unprotected_entities_are_counted():
    assert num_unprotected(ring(10, unprotected=3)) == 3


@pytest.mark.parametrize("target", [0, -1.0, float("nan"), float("inf"), True, "1"])
def test_a_target_must_be_a_positive_number(target):
    with pytest.raises(PlanError, match="`target_epsilon` must be a finite number above 0"):
        release_target(target)


def test_targets_are_exact_and_capped():
    assert release_target(None) == 1
    assert release_target(0.1) == Fraction(0.1)
    assert release_target(100) == 16
