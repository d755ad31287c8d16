import json
import math
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reldp._validate import PROOFS
from reldp.accounting import CoupledStep, renyi_epsilon
from reldp.errors import PlanError, UnreachableTarget
from reldp.graph import EntityGraph
from reldp.plan import PrivacyPlan

FIELDS = {
    "num_entities": 10_000,
    "num_relations": 20_000,
    "max_degree": 5,
    "num_negatives": 4,
    "expected_batch_size": 32,
    "num_steps": 500,
    "noise_multiplier": 0.8,
    "delta": 1e-5,
}


def make(**changes):
    return PrivacyPlan(**{**FIELDS, **changes})


def without(*names, **changes):
    return PrivacyPlan(**{k: v for k, v in {**FIELDS, **changes}.items() if k not in names})


def test_a_plan_is_frozen():
    with pytest.raises(FrozenInstanceError):
        make().noise_multiplier = 0.1


def test_a_plan_takes_names_only():
    with pytest.raises(TypeError):
        PrivacyPlan(10_000)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_entities", 0),
        ("num_entities", 1e4),
        ("num_entities", True),
        ("num_relations", -5),
        ("num_relations", "20000"),
        ("max_degree", 0),
        ("max_degree", 2.5),
        ("num_negatives", -1),
        ("num_steps", -1),
        ("num_steps", 1.0),
        ("expected_batch_size", 0),
        ("expected_batch_size", 20_001),
        ("expected_batch_size", "many"),
        ("expected_batch_size", math.nan),
        ("noise_multiplier", -0.1),
        ("noise_multiplier", math.inf),
        ("noise_multiplier", math.nan),
        ("noise_multiplier", "1"),
        ("noise_multiplier", 1e-200),  # its square is 0: the Renyi accountant found epsilon 0
        ("noise_multiplier", 1e10),
        ("delta", 0.0),
        ("delta", 1.0),
        ("delta", 2),
        ("delta", None),
        ("clip_norm", 0.0),
        ("clip_norm", math.inf),
        ("clipping", "tupel"),
        ("clipping", None),
        ("negatives", "all"),
        ("unit", "edge"),
        ("analysis", "worst"),
        ("pool_size", 10**9),
        ("pool_size", 9_999),
        ("pool_size", 0),
    ],
)
def test_a_bad_value_is_refused_by_name(name, value):
    with pytest.raises(PlanError, match=f"`{name}`") as caught:
        make(**{name: value})
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("value", [0.0, -0.1, 1.1, math.nan, "a", [1]])
def test_a_bad_rate_is_refused_by_name(value):
    with pytest.raises(PlanError, match="`sample_rate`"):
        without("expected_batch_size", sample_rate=value)


def test_a_rate_or_a_batch_size_is_needed_and_not_two_that_differ():
    with pytest.raises(PlanError, match="`sample_rate` or `expected_batch_size` must be given"):
        without("expected_batch_size")
    with pytest.raises(PlanError, match="must not both be given unless they agree"):
        make(sample_rate=0.002)
    assert make(sample_rate=0.0016) == make()


def test_more_negatives_than_entities_are_refused():
    with pytest.raises(PlanError, match="`num_negatives` times the expected batch size"):
        make(expected_batch_size=3000)


@pytest.mark.parametrize("negatives", ["unprotected", "public"])
def test_other_pools_state_their_size(negatives):
    with pytest.raises(
        PlanError, match=f"`pool_size` must be given when negatives are {negatives}"
    ):
        make(negatives=negatives)
    assert make(negatives=negatives, pool_size=700).event.pool_size == 700


def test_unprotected_entities_are_entities():
    with pytest.raises(PlanError, match="`pool_size` must be at most num_entities"):
        make(negatives="unprotected", pool_size=10_001)
    assert make(negatives="public", pool_size=10_001).pool_size == 10_001


def test_pairs_need_a_negative_and_anchored_a_local_rule():
    with pytest.raises(PlanError, match="`num_negatives` must be at least 1 for the pair rule"):
        make(clipping="pair", num_negatives=0)
    with pytest.raises(PlanError, match="`analysis` anchored needs a local clipping rule"):
        make(clipping="frequency", analysis="anchored")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"max_degree": 5, "num_negatives": 4, "negative_replacement": 2.0}),
        ({"clipping": "pair"}, {"negative_replacement": 0.5, "negative_removal": 1.0}),
        ({"clipping": "frequency"}, {"claimed_constant": True, "negative_removal": None}),
        ({"unit": "relation"}, {"max_degree": 1, "num_negatives": 0, "pool_shrinks": False}),
        (
            {"negatives": "public", "pool_size": 800},
            {"num_negatives": 0, "drawn_negatives": 4, "pool_size": 800, "pool_shrinks": False},
        ),
    ],
)
def test_the_event_follows_from_rule_unit_and_pool(changes, expected):
    event = make(**changes).event
    assert isinstance(event, CoupledStep)
    assert {name: getattr(event, name) for name in expected} == expected


def test_status_and_rule():
    assert (make().status, make(clipping="frequency").status) == ("proven", "claimed")
    assert make().clipping.name == "tuple"


@pytest.mark.parametrize("rule", ["tuple", "pair", "frequency"])
def test_without_noise_the_status_is_none_under_every_rule(rule):
    plan = make(clipping=rule, noise_multiplier=0.0)
    assert (plan.status, plan.epsilon()) == ("none", math.inf)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_the_analysis_of_a_rule_that_none_covers_is_claimed(accountant):
    assert make(clipping="frequency").privacy_cost(accountant).analysis == "claimed"
    assert make(clipping="tuple").privacy_cost(accountant).analysis in PROOFS


def test_clip_norm_never_changes_epsilon():
    assert make(clip_norm=0.01).epsilon() == make(clip_norm=100.0).epsilon()
    assert make(clip_norm=0.01).epsilon("rdp") == make().epsilon("rdp")


def test_a_relation_is_cheaper_to_protect_than_an_entity():
    assert make(unit="relation").epsilon() < make(negatives="public", pool_size=5000).epsilon()
    assert make(negatives="public", pool_size=5000).epsilon() < make().epsilon()


def test_epsilon_of_fewer_steps_and_the_names_of_accountants():
    plan = make()
    assert plan.epsilon(num_steps=0) == 0.0
    assert plan.epsilon(num_steps=100) < plan.epsilon() < plan.epsilon("rdp")
    assert plan.privacy_cost().accountant == "pld"
    with pytest.raises(PlanError, match="`accountant` must be one of pld, rdp"):
        plan.epsilon("moments")
    with pytest.raises(PlanError, match="`num_steps`"):
        plan.epsilon(num_steps=-1)


def test_no_noise_is_infinite():
    assert make(noise_multiplier=0.0).epsilon() == math.inf
    assert make(noise_multiplier=0).epsilon("rdp") == math.inf


def test_rdp_is_the_smaller_analysis_at_every_order():
    plan, orders = make(clipping="pair"), [1.5, 3.0, 20.0]
    each = [renyi_epsilon(plan.event, name, orders) for name in ("anchored", "replacement")]
    np.testing.assert_array_equal(plan.rdp(orders), np.min(each, axis=0))
    with pytest.raises(PlanError, match="`orders` must be finite numbers above 1"):
        plan.rdp([1.0])


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_calibration_is_on_the_safe_side(accountant):
    plan = make().calibrate(3.0, accountant)
    assert plan.epsilon(accountant) <= 3.0
    assert replace(plan, noise_multiplier=plan.noise_multiplier / 1.01).epsilon(accountant) > 3.0
    assert replace(plan, noise_multiplier=0.8) == make()


def test_extension_finds_the_last_step_within_the_target():
    plan = make(num_steps=10)
    longer = plan.extend(2.0)
    assert longer.epsilon() <= 2.0
    assert longer.epsilon(num_steps=longer.num_steps + 1) > 2.0
    with pytest.raises(UnreachableTarget, match="exceeded by a single step"):
        make(noise_multiplier=0.05).extend(0.1)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"clipping": "pair", "analysis": "replacement"},
        {"negatives": "public", "pool_size": 77_777, "clip_norm": 0.1},
        {"unit": "relation", "delta": 1e-30, "noise_multiplier": 1 / 3},
    ],
)
def test_json_round_trip(changes):
    plan = make(**changes)
    back = PrivacyPlan.from_json(plan.to_json())
    assert back == plan
    assert back.hash == plan.hash


@settings(max_examples=100, deadline=None, derandomize=True)
@given(size=st.floats(1e-3, 2000.0), m=st.integers(20_000, 10**9))
def test_any_batch_size_survives_the_round_trip(size, m):
    plan = make(expected_batch_size=size, num_relations=m)
    back = PrivacyPlan.from_json(plan.to_json())
    assert back == plan
    assert back.expected_batch_size == pytest.approx(size, rel=1e-13)
    assert replace(plan, num_steps=1).sample_rate == plan.sample_rate


def test_whole_batch_sizes_stay_whole():
    assert make(num_relations=671_130).expected_batch_size == 32.0


PINNED = "4b24d01bda7dbbaba6e63f19d8a29f1748ddd2998045c0cb80b8e247ebcfd9e7"


def test_the_hash_is_pinned():
    assert make().hash == PINNED


def test_equal_plans_have_equal_hashes_and_others_do_not():
    assert make(clip_norm=1).hash == make(clip_norm=1.0).hash
    others = [
        make(delta=1.0000001e-5),
        make(num_steps=501),
        make(clipping="pair"),
        make(analysis="anchored"),
        make(clip_norm=2.0),
        make(unit="relation"),
    ]
    assert len({make().hash, *(other.hash for other in others)}) == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"delta": 1e-6, "delta": 1e-3}', "each name once, got 'delta' twice"),
        ('{"delta": NaN}', "got NaN"),
        ('{"num_steps": ' + "9" * 5000 + "}", "64 bits"),
        ("[" * 100_000, "levels"),
        (b"\xff", "UTF-8"),
        ("{", "a plan must be JSON"),
        ("[1]", "`plan` must be a JSON object, got 'list'"),
        ('{"num_entitys": 3}', "`num_entitys` must be a field of PrivacyPlan"),
        ('{"num_entities": 3}', "a plan lacks a field"),
    ],
)
def test_a_damaged_plan_is_refused(text, message):
    with pytest.raises(PlanError, match=message):
        PrivacyPlan.from_json(text)


def test_the_json_holds_every_field_but_the_divisor():
    names = {field.name for field in fields(PrivacyPlan)} - {"expected_batch_size"}
    assert set(json.loads(make(num_relation_types=3).to_json())) == names
    assert set(json.loads(make().to_json())) == names - {"num_relation_types"}


@pytest.fixture(scope="module")
def capped():
    rng = np.random.default_rng(0)
    relations = {(int(a), int(b)) for a, b in rng.integers(0, 300, (500, 2)) if a < b}
    graph = EntityGraph.from_lists(
        list(range(300)),
        sorted(relations),
        text=[f"entity {i}" for i in range(300)],
        protected=[i < 200 for i in range(300)],
    )
    return graph.cap_degrees(max_degree=4, seed=1)


SMALL = {"sizes": "public", "num_negatives": 1, "expected_batch_size": 4, "num_steps": 20}


def test_a_plan_for_a_graph_has_its_sizes(capped):
    plan = PrivacyPlan.for_graph(capped, noise_multiplier=1.0, **SMALL)
    assert (plan.num_entities, plan.num_relations) == (300, capped.num_relations)
    assert (plan.max_degree, plan.pool_size) == (4, 300)
    assert plan.delta == pytest.approx(0.1 / 300)


def test_a_plan_for_a_graph_is_calibrated_to_its_target(capped):
    plan = PrivacyPlan.for_graph(capped, target_epsilon=4.0, **SMALL)
    assert 3.9 < plan.epsilon() <= 4.0
    with pytest.raises(PlanError, match="`noise_multiplier` must not be given with a target"):
        PrivacyPlan.for_graph(capped, target_epsilon=4.0, noise_multiplier=1.0, **SMALL)


def test_integers_of_numpy_make_the_plan_of_python_integers(capped):
    numbers = {name: np.int64(v) for name, v in SMALL.items() if isinstance(v, int)}
    plan = PrivacyPlan.for_graph(capped, sizes="public", **numbers)
    assert plan == PrivacyPlan.for_graph(capped, **SMALL)
    assert PrivacyPlan.from_json(plan.to_json()) == plan
    assert plan.epsilon(num_steps=np.int32(5)) == plan.epsilon(num_steps=5)
    direct = make(**{name: np.int64(v) for name, v in FIELDS.items() if isinstance(v, int)})
    assert (direct.hash, type(direct.pool_size)) == (make().hash, int)
    bounds = {"sizes": "declared", "min_entities": 100, "max_relations": 1000}
    declared = PrivacyPlan.for_graph(capped, **SMALL | bounds)
    numbers = {name: np.int64(v) for name, v in bounds.items() if isinstance(v, int)}
    assert PrivacyPlan.for_graph(capped, **SMALL | bounds | numbers).hash == declared.hash


def test_the_reason_of_a_refused_number_of_steps_fits_the_number(capped):
    with pytest.raises(PlanError, match=r"got 100000001\. A run of more steps would take months"):
        PrivacyPlan.for_graph(capped, **SMALL | {"num_steps": 10**8 + 1})
    for steps in (True, np.True_, np.float64(6), -1, "6"):
        with pytest.raises(PlanError, match="`num_steps` must be an integer") as refused:
            PrivacyPlan.for_graph(capped, **SMALL | {"num_steps": steps})
        assert "months" not in str(refused.value)


def test_no_noise_multiplier_beside_a_target_is_none_given(capped):
    target = PrivacyPlan.for_graph(capped, target_epsilon=4.0, **SMALL)
    assert (
        PrivacyPlan.for_graph(capped, target_epsilon=4.0, noise_multiplier=None, **SMALL) == target
    )
    with pytest.raises(PlanError, match="`noise_multiplier` must be a finite number"):
        PrivacyPlan.for_graph(capped, noise_multiplier=None, **SMALL)


def test_pools_of_a_graph(capped):
    plan = PrivacyPlan.for_graph(capped, negatives="unprotected", **SMALL)
    assert plan.pool_size == 100
    public = PrivacyPlan.for_graph(capped, negatives="public", pool_size=50, **SMALL)
    assert public.pool_size == 50
    with pytest.raises(PlanError, match="`pool_size` must be given"):
        PrivacyPlan.for_graph(capped, negatives="public", **SMALL)


def test_a_misspelled_setting_is_refused(capped):
    with pytest.raises(PlanError, match="`num_negative` must be a field"):
        PrivacyPlan.for_graph(capped, num_negative=1, expected_batch_size=4, num_steps=20)


@pytest.mark.parametrize("name", ["num_entities", "max_degree", "sizes_epsilon", "sizes_delta"])
def test_what_follows_from_the_graph_is_not_a_setting(capped, name):
    with pytest.raises(PlanError, match=f"`{name}` must not be given"):
        PrivacyPlan.for_graph(capped, **SMALL, **{name: 1})


def test_a_graph_that_is_too_small_for_private_sizes_is_refused(capped):
    with pytest.raises(PlanError, match="`sizes` must not be private for this graph"):
        PrivacyPlan.for_graph(capped, num_negatives=1, expected_batch_size=4, num_steps=20)


@pytest.mark.parametrize("rate", [5e-324, 1e-100, 1e-16])
def test_rates_beyond_the_accountants_range_are_refused(rate):
    """Epsilon ended as a division by zero."""
    with pytest.raises(PlanError, match="`sample_rate` must be from 1e-15 to 1"):
        without("expected_batch_size", sample_rate=rate)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_the_ends_of_the_range_of_noise_have_a_price(accountant):
    assert make(noise_multiplier=1e-12, num_steps=5).epsilon(accountant) > 1e6
    assert make(noise_multiplier=1e9, num_steps=5).epsilon(accountant) < 0.01
