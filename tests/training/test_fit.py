"""A plan is executed on a graph that it covers, and a refusal does not print exact sizes."""

from dataclasses import replace

import pytest
import torch

from reldp.clipping import TupleClipping
from reldp.errors import ConfigError, PlanError, RunError
from reldp.plan import PrivacyPlan
from reldp.processes import Processes
from reldp.training.fit import check_batch, check_device, check_fit
from tests.training.small import small_graph, small_plan

CAPPED = small_graph().promise_degrees(4)
BOUNDS = {"sizes": "declared", "min_entities": 250, "max_relations": 700}
MARKED = small_graph(protected=[i % 2 == 0 for i in range(300)]).promise_degrees(4)


def refusal(capped, plan, **settings):
    with pytest.raises(ConfigError) as caught:
        check_fit(capped, plan, **settings)
    return str(caught.value)


def test_public_sizes_are_exactly_the_graph_s():
    plan = small_plan(CAPPED)
    check_fit(CAPPED, plan)
    for name, wrong in (("num_entities", 299), ("num_relations", 601)):
        other = replace(plan, **{name: wrong}, pool_size=None, sample_rate=None)
        assert f"`{name}` of the plan must be the graph's {wrong + 1 - 2 * (wrong > 600)}" in (
            refusal(CAPPED, other)
        )


def test_a_graph_within_its_bounds_fits():
    check_fit(CAPPED, small_plan(CAPPED, **BOUNDS))
    exact = {**BOUNDS, "min_entities": 300, "max_relations": 600}
    check_fit(CAPPED, small_plan(CAPPED, **exact))


@pytest.mark.parametrize(
    ("name", "wrong", "words"),
    [("num_entities", 301, "lower bound"), ("num_relations", 599, "upper bound")],
)
def test_a_graph_outside_its_bounds_is_refused_without_exact_sizes(name, wrong, words):
    plan = small_plan(CAPPED, **BOUNDS)
    said = refusal(CAPPED, replace(plan, **{name: wrong, "pool_size": None, "sample_rate": None}))
    assert words in said
    assert "to nobody" in said
    assert not any(number in said for number in ("300", "301", "599", "600"))


def test_a_pool_of_unprotected_entities_is_exact_or_a_lower_bound():
    settings = {"negatives": "unprotected", "expected_batch_size": 8.0}
    public = small_plan(MARKED, **settings)
    assert public.pool_size == 150
    assert "`pool_size`" in refusal(MARKED, replace(public, pool_size=149))
    declared = small_plan(MARKED, **BOUNDS, **settings, pool_size=140)
    check_fit(MARKED, declared)
    assert "150" not in refusal(MARKED, replace(declared, pool_size=151))


def test_other_degrees_no_negatives_and_noise_without_clipping_are_refused():
    plan = small_plan(CAPPED)
    assert "`max_degree`" in refusal(small_graph().cap_degrees(3, seed=0), plan)
    assert "must be a CappedGraph" in refusal(CAPPED.graph, plan)
    assert "`num_negatives`" in refusal(CAPPED, replace(plan, num_negatives=0))
    assert "`clip`" in refusal(CAPPED, plan, clip=False)
    assert "`noise_multiplier`" in refusal(CAPPED, replace(plan, noise_multiplier=1e-9))


def test_a_rule_from_outside_is_refused_whatever_it_calls_itself():
    class Generous(TupleClipping):
        """Says that it is the tuple rule, and clips to twice the norm."""

        def _thresholds(self, positives, negatives, clip_norm):
            return 2 * super()._thresholds(positives, negatives, clip_norm)

    plan = replace(small_plan(CAPPED), clipping=Generous())
    assert plan.status == "claimed"
    assert "`clipping` must be one of" in refusal(CAPPED, plan)
    # On disk it must not be taken for the rule whose name it has.
    assert plan.hash != small_plan(CAPPED).hash
    with pytest.raises(PlanError, match="`clipping`"):
        PrivacyPlan.from_json(plan.to_json())


def test_the_number_of_types_is_the_graph_s():
    typed = small_graph(types=["likes"] * 600).with_types(["knows", "likes"]).promise_degrees(4)
    plan = small_plan(typed)
    assert plan.num_relation_types == 2
    check_fit(typed, plan)
    assert PrivacyPlan.from_json(plan.to_json()) == plan
    assert plan.hash != replace(plan, num_relation_types=0).hash == small_plan(CAPPED).hash
    for capped, other in ((CAPPED, plan), (typed, replace(plan, num_relation_types=3))):
        words = f"must be the graph's {len(capped.type_names)}, got {other.num_relation_types}"
        assert f"`num_relation_types` of the plan {words}" in refusal(capped, other)
    with pytest.raises(PlanError, match="`num_relation_types` must not be given"):
        small_plan(typed, num_relation_types=2)


OWNED = small_graph(owner=[i // 2 for i in range(300)]).promise_degrees(8)


def test_a_graph_with_owners_needs_a_plan_for_owners():
    plan = small_plan(OWNED)
    assert (plan.unit, plan.num_entities, plan.pool_size) == ("owner", 150, 150)
    check_fit(OWNED, plan)
    assert PrivacyPlan.from_json(plan.to_json()) == plan
    assert plan.epsilon() == replace(plan, unit="entity").epsilon()
    assert "`unit` of the plan must be owner" in refusal(OWNED, replace(plan, unit="entity"))
    assert "`unit` of the plan must be owner" in refusal(OWNED, replace(plan, unit="relation"))
    plain = small_graph().promise_degrees(8)
    assert "`unit` of the plan must be entity" in refusal(
        plain, replace(small_plan(plain), unit="owner")
    )
    for graph, unit, words in (
        (plain, "owner", "without owners"),
        (OWNED, "relation", "with owners"),
    ):
        with pytest.raises(PlanError, match=f"`unit` must be .* for a graph {words}"):
            small_plan(graph, unit=unit)


def test_bounds_on_sizes_are_about_owners():
    bounds = {"sizes": "declared", "max_relations": 700}
    check_fit(OWNED, small_plan(OWNED, **bounds, min_entities=150))
    with pytest.raises(PlanError, match="`min_entities` must be at most"):
        small_plan(OWNED, **bounds, min_entities=151)
    other = small_plan(OWNED, **bounds, min_entities=120)
    wider = replace(other, num_entities=151, pool_size=None)
    assert "must be a lower bound" in refusal(OWNED, wider)


def test_a_pool_of_unprotected_owners_counts_owners():
    flags = [i >= 60 for i in range(300)]
    marked = small_graph(owner=[i // 2 for i in range(300)], protected=flags).promise_degrees(8)
    plan = small_plan(marked, negatives="unprotected", expected_batch_size=2.0)
    assert plan.pool_size == 30
    check_fit(marked, plan)


def test_several_processes_take_a_gpu_each():
    with pytest.raises(ConfigError, match="`device` must be cpu or cuda with several processes"):
        check_device("cuda:0", Processes(1, 2))
    check_device("cpu", Processes(1, 2))


def test_more_processes_than_gpus_are_refused_by_number(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", "1")
    check_device("cuda", Processes(1, 4))
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(
        ConfigError, match="a GPU for each process of a machine, got 2 for process 2"
    ):
        check_device("cuda", Processes(2, 4))
    check_device("cpu", Processes(2, 4))


def test_a_batch_must_be_drawn_for_the_step_and_be_one_of_the_plan():
    check_batch((2, 0), (2, 0), 5, 2)
    for place, drawn, claimed, words in (
        ((2, 0), (1, 0), 0, "`batch` must be what `draw` returned for step 2"),
        ((2, 0), None, 0, "`batch` must be what `draw` returned for step 2"),
        ((5, 0), (5, 0), 0, "at most the plan's 5"),
        ((2, 1), (2, 1), 5, "at most the plan's 5"),
    ):
        with pytest.raises(RunError, match=words):
            check_batch(place, drawn, 5, claimed)


def test_a_pool_of_relations_may_be_as_large_as_the_graph_and_no_larger():
    capped = small_graph().cap_degrees(1, seed=0)
    m = capped.num_relations
    settings = {"negatives": "relations", "expected_batch_size": 2.0, "num_negatives": 2}
    bounds = {"sizes": "declared", "min_entities": 100, "max_relations": m + 5}
    exact = small_plan(capped, **settings, **bounds, pool_size=m)
    assert exact.pool_size == m
    check_fit(capped, exact)
    with pytest.raises(PlanError, match="`pool_size` must be at most the number of relations"):
        small_plan(capped, **settings, **bounds, pool_size=m + 1)
    assert "`pool_size`" in refusal(capped, replace(exact, pool_size=m + 1))
