import math
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from reldp._validate import PROOFS
from reldp.accounting.events import Composition
from reldp.accounting.pld import PLDAccountant
from reldp.errors import PlanError, UnsupportedEvent
from tests.accounting.conformance import small_step


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_relations", 0),
        ("pool_size", 0),
        ("max_degree", 0),
        ("num_negatives", -1),
        ("sample_rate", 0.0),
        ("sample_rate", 1.5),
        ("sample_rate", math.nan),
        ("noise_multiplier", -0.1),
        ("noise_multiplier", math.nan),
        ("noise_multiplier", math.inf),
        ("negative_replacement", -1.0),
        ("negative_removal", -1.0),
        ("negative_removal", math.inf),
        ("drawn_negatives", 1),
    ],
)
def test_a_bad_field_is_named(name, value):
    with pytest.raises(PlanError, match=f"`{name}` must be"):
        small_step(**{name: value})


def test_more_negatives_than_the_pool_are_refused():
    with pytest.raises(PlanError, match="must not exceed the pool of negatives"):
        small_step(pool_size=59)


def test_events_are_frozen_and_equal_by_value():
    step = small_step()
    assert step == small_step()
    with pytest.raises(FrozenInstanceError):
        step.sample_rate = 0.5


def test_compositions_count_and_merge():
    step, other = small_step(), small_step(noise_multiplier=2.0)
    both = step * 3 + other * 2 + step * 4
    assert both.num_steps == 9
    assert dict(both.parts) == {step: 7, other: 2}
    assert (step * 0 + other * 2).running == ((other, 2),)


@pytest.mark.parametrize("count", [-1, 1.5, "3"])
def test_a_bad_count_is_refused(count):
    with pytest.raises(PlanError, match="`num_steps` must be an integer"):
        small_step() * count


def test_unknown_events_are_refused():
    with pytest.raises(UnsupportedEvent, match="without a proof has no epsilon"):
        Composition((("gaussian", 3),))


@pytest.mark.parametrize(
    ("changes", "available"),
    [
        ({}, PROOFS),
        ({"negative_removal": None}, ("replacement",)),
        ({"claimed_constant": True}, ("replacement",)),
        ({"sample_rate": 1.0, "pool_size": 10_000}, ("replacement",)),
        ({"sample_rate": 1.0, "num_negatives": 0}, PROOFS),
    ],
)
def test_analyses_follow_from_their_conditions(changes, available):
    assert small_step(**changes).available_analyses == available


def test_best_means_what_every_part_allows():
    free, bound = small_step(), small_step(negative_removal=None)
    assert (free * 1).analyses("best") == PROOFS
    assert (free * 1 + bound * 1).analyses("best") == ("replacement",)
    with pytest.raises(PlanError, match="`analysis` anchored needs a local clipping rule"):
        (free * 1 + bound * 1).analyses("anchored")


def test_slots_default_to_protected_negatives():
    assert small_step().slots_per_positive == 3
    assert replace(small_step(), num_negatives=0, drawn_negatives=3).slots_per_positive == 3


def test_numbers_of_numpy_become_those_of_python():
    """With 16 bits, epsilon came out smaller than it is."""
    given = {"sample_rate": np.float16(0.005), "noise_multiplier": np.float32(1.1)}
    event = small_step(**given, num_relations=np.int32(1000), pool_size=np.uint16(500))
    plain = small_step(
        sample_rate=float(given["sample_rate"]),
        noise_multiplier=float(given["noise_multiplier"]),
        num_relations=1000,
        pool_size=500,
    )
    assert event == plain
    assert {type(event.sample_rate), type(event.noise_multiplier)} == {float}
    assert {type(event.num_relations), type(event.pool_size)} == {int}
    assert PLDAccountant().epsilon(event * 10, 1e-5) == PLDAccountant().epsilon(plain * 10, 1e-5)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"max_degree": value} for value in (5.5, "5", None, True)),
        *({"noise_multiplier": value} for value in ("1", None, True, 1j, 10**400)),
        *({"drawn_negatives": 2.5}, {"num_relations": "10"}, {"negative_removal": "x"}),
    ],
)
def test_what_is_no_number_is_refused(wrong):
    with pytest.raises(PlanError, match=f"`{next(iter(wrong))}` must be a"):
        small_step(**wrong)
