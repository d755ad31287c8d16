"""Each sentence appears exactly where it is true."""

from dataclasses import replace

import pytest

from reldp.errors import LedgerError
from reldp.reporting.certificate_form import certificate_form
from reldp.runs.certificate import Certificate
from reldp.runs.wording import adjacency, assumptions, shown
from tests.reporting.example import GRAPH, PLAN, certificate_of, ledger, sized_plan


def certificate(plan=PLAN, **settings):
    return Certificate.from_ledger(plan, ledger(plan, **settings))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.45771, "0.4578"),
        (4.0, "4"),
        (3.99999, "4"),
        (12.3456, "12.35"),
        (0.0, "0"),
        (1e-5, "1e-05"),
    ],
)
def test_epsilon_is_never_rounded_down(value, text):
    assert shown(value) == text
    assert float(shown(value)) >= value


def test_capped_and_promised_are_told_apart():
    capped = adjacency(PLAN, GRAPH)
    promised = adjacency(PLAN, {**GRAPH, "degree_bound": "promised"})
    assert "at most 5 relations" in capped
    assert "after capping" in capped
    assert "after capping" not in promised
    assert "beyond the bound of 5 per entity" in capped
    assert "in the graph after degree capping (not the raw graph)" in certificate().summary
    assert any("in the raw graph" in line for line in certificate().values["not_guaranteed"])
    raw = certificate(graph={"degree_bound": "promised"})
    assert raw.summary.endswith("with all of its at most 5 relations, in the training graph.")
    assert not any("raw graph" in line for line in raw.values["not_guaranteed"])


def test_a_holdout_is_told_with_what_it_does_not_cover():
    held_out = certificate(graph={"holdout": {"share": 0.2, "seed": 3}}).values
    (said,) = [line for line in held_out["assumptions"] if "were held out" in line]
    assert said.startswith("About 20 % of all entities were held out")
    assert "public seed 3" in said
    assert any("evaluations on held-out entities" in line for line in held_out["not_guaranteed"])
    for name in ("assumptions", "not_guaranteed"):
        assert not any("held" in line for line in certificate().values[name])


def test_relations_of_a_capped_graph_are_compared_after_capping():
    plan = replace(PLAN, unit="relation")
    assert "after capping" in adjacency(plan, GRAPH)
    assert "after capping" not in adjacency(plan, {**GRAPH, "degree_bound": "promised"})


def test_a_public_pool_is_an_assumption():
    plan = replace(PLAN, negatives="public", pool_size=9_000)
    start = {"graph": GRAPH, "noise": {"source": "secure"}, "training": {}}
    assert any("public pool of 9,000" in line for line in assumptions(plan, start))
    assert not any("public pool" in line for line in assumptions(PLAN, start))


@pytest.mark.parametrize(
    ("encoder", "name"),
    [
        ({"kind": "module", "module": "shop.Net"}, "shop.Net"),
        ({"kind": "gated", "class": "shop.GatedEncoder"}, "shop.GatedEncoder"),
    ],
)
def test_code_that_is_not_part_of_reldp_is_an_assumption(encoder, name):
    start = {"graph": GRAPH, "noise": {"source": "secure"}, "training": {}}
    said = [s for s in assumptions(PLAN, {**start, "encoder": encoder}) if "encoder's code" in s]
    assert len(said) == 1
    assert f"{name}, is not part of reldp" in said[0]
    text = {"kind": "text", "base_model": "a model"}
    assert not any("encoder's code" in s for s in assumptions(PLAN, {**start, "encoder": text}))


def test_a_protected_part_is_named_without_its_share():
    some = certificate(graph={"all_protected": False})
    assert "one protected entity" in some.values["guarantee"]["adjacency"]
    assert "any one protected entity with" in some.summary
    assert "%" not in some.summary
    assert "beyond the bound of 5 per protected entity" in some.values["guarantee"]["adjacency"]
    assert any("not marked as protected" in line for line in some.values["not_guaranteed"])
    assert not any("not marked" in line for line in certificate().values["not_guaranteed"])


def test_private_sizes_name_their_bounds_and_what_they_cost():
    said = certificate_of("private").values
    sentence = said["guarantee"]["sizes"]
    assert "not public" in sentence
    assert "at least 5,000 entities and at most 8,000 relations" in sentence
    assert "epsilon 0.04 and delta 2e-09, which are included" in sentence
    assert not any("are public, although" in line for line in said["assumptions"])
    assert any(
        "the target epsilon was fixed before these bounds were released" in line
        for line in said["assumptions"]
    )
    public = certificate_of("public").values["assumptions"]
    assert not any("noisy bounds" in line for line in public)


def test_declared_sizes_are_a_condition_on_both_neighbors():
    said = certificate_of("declared").values
    bounds = "at least 5,000 entities and at most 8,000 relations"
    assert bounds in said["guarantee"]["adjacency"]
    declared = [line for line in said["assumptions"] if "declared" in line]
    assert len(declared) == 1
    assert bounds in declared[0]
    assert "only neighbors that both meet these bounds" in declared[0]
    assert "reveals that the graph meets them" in declared[0]
    assert bounds not in certificate_of("private").values["guarantee"]["adjacency"]


def test_public_sizes_are_an_assumption():
    said = certificate_of("public").values["assumptions"]
    assert said[0].startswith("The exact numbers of entities (5,000) and relations (8,000)")


def test_the_number_of_unprotected_entities_is_said_not_to_be_hidden_and_why():
    plan = replace(PLAN, negatives="unprotected", pool_size=4000)
    said = certificate(plan, graph={"all_protected": False}).values["assumptions"]
    assert any("unprotected entities, at least 4,000 of them" in line for line in said)
    assert not any("unprotected entities" in line for line in certificate().values["assumptions"])


def test_relations_alone_are_a_weaker_promise():
    weak = certificate(replace(PLAN, unit="relation"))
    assert "one relation more" in weak.values["guarantee"]["adjacency"]
    assert "any one relation of the graph" in weak.summary
    assert any("Privacy of entities" in line for line in weak.values["not_guaranteed"])


def test_fast_noise_is_an_assumption_and_says_what_it_gives_up():
    said = certificate(noise="fast").values["assumptions"]
    assert any("instead of a cryptographic stream" in x and "not exactly" in x for x in said)
    assert not any("Philox" in x for x in certificate().values["assumptions"])


def test_locality_in_floating_point_is_said_to_be_checked_and_not_proven():
    assert any(
        "checked to the bit on public random rows" in x for x in certificate().values["assumptions"]
    )


def test_the_false_claim_is_called_false():
    said = certificate(replace(PLAN, clipping="frequency"))
    assert any("Do not rely on it" in line for line in said.values["assumptions"])
    assert said.summary.startswith("Claimed, and known to be false")
    assert certificate().summary.startswith("Proven")


def test_no_noise_promises_nothing():
    bare = certificate(replace(PLAN, noise_multiplier=0.0))
    assert bare.values["not_guaranteed"] == ["Privacy of any kind: no noise was added."]
    assert bare.values["assumptions"] == []
    assert "No privacy" in bare.summary


def test_further_runs_and_chosen_settings_are_not_counted_and_said_so():
    assert any("each trial run adds" in x for x in certificate().values["not_guaranteed"])
    assert any("without looking" in x for x in certificate().values["assumptions"])


def test_the_runs_of_a_search_are_counted_and_others_are_not():
    (said,) = [
        x
        for x in certificate(search={"runs": 3, "candidates": 2}).values["not_guaranteed"]
        if "trial" in x
    ]
    assert "outside of the search, whose runs are all included: each trial run adds" in said
    assert not any("search" in line for line in certificate().values["not_guaranteed"])


def test_a_bound_of_one_relation_is_in_the_singular():
    graph = {**GRAPH, "all_protected": True}
    for unit, words in (
        ("entity", "more than the other, with its at most one relation;"),
        ("owner", "with all of its entities and their at most one relation;"),
    ):
        assert words in adjacency(replace(PLAN, max_degree=1, unit=unit), graph)
    for count, words in (
        (1, "1 other relation; every endpoint of this"),
        (2, "2 other relations; "),
    ):
        plan = replace(
            PLAN, negatives="relations", pool_size=4000, max_degree=1, num_negatives=count
        )
        start = {"graph": GRAPH, "noise": {"source": "secure"}, "training": {}}
        assert any(words in line for line in assumptions(plan, start))


@pytest.mark.parametrize(
    "words", ["other entities' relations", "Groups", "without noise", "pretraining data"]
)
def test_guarantees_that_readers_may_expect_are_denied(words):
    assert any(words in line for line in certificate().values["not_guaranteed"])


@pytest.mark.parametrize(
    ("delta", "expected"),
    [(1e-5, "1e-05"), (1 / 30_000, "3.334e-05"), (0.1 / 82_115, "1.218e-06"), (1e-6, "1e-06")],
)
def test_a_delta_is_never_shown_smaller_than_it_is(delta, expected):
    assert shown(delta) == expected
    assert float(shown(delta)) >= delta * (1 - 1e-12)


@pytest.mark.parametrize("value", [5e-324, 1e-310, 1e-300, 1e-290])
def test_the_smallest_numbers_are_shown_and_not_as_less(value):
    assert float(shown(value)) >= value


def test_noise_that_is_too_small_promises_nothing():
    said = certificate(replace(PLAN, noise_multiplier=1e-6)).summary
    assert (
        said
        == "No privacy: epsilon is infinite, because the noise or the pool of negatives is too small."
    )


def test_the_list_of_types_is_an_assumption():
    plan = replace(PLAN, num_relation_types=7)
    declared = certificate(plan, graph={"relation_types": "declared"})
    taken = certificate(plan, graph={"relation_types": "from the data"})
    assert any(
        "7 types. The list of types was declared" in x for x in declared.values["assumptions"]
    )
    assert any("taken from the data and is assumed" in x for x in taken.values["assumptions"])
    assert not any("types" in line for line in certificate().values["assumptions"])
    for wrong, graph in ((plan, {}), (PLAN, {"relation_types": "declared"})):
        with pytest.raises(LedgerError, match=r"start\.graph\.relation_types must be"):
            certificate(wrong, graph=graph)


def test_owners_are_named_as_the_unit():
    plan = replace(PLAN, unit="owner")
    made = certificate(plan, graph={"all_protected": False})
    words = "one protected owner more than the other, with all of its entities and all of their at most 5"
    assert words in made.values["guarantee"]["adjacency"]
    assert "bound of 5 per protected owner" in made.values["guarantee"]["adjacency"]
    assert "any one protected owner with all of its entities and all of their" in made.summary
    assert "owners" in made.values["guarantee"]["sizes"]
    assumed = " ".join(made.values["assumptions"])
    assert "without replacement among owners, each represented by one of its entities" in assumed
    assert "depend on its owner alone" in assumed
    refused = " ".join(made.values["not_guaranteed"])
    assert "owners that act together" in refused
    assert "Privacy of owners that were not marked" in refused
    assert "| owners | " in made.to_markdown()
    for line in (*certificate().values["assumptions"], *certificate().values["not_guaranteed"]):
        assert "owner " not in line


def test_relations_as_the_unit_have_groups_of_relations():
    weak = certificate(replace(PLAN, unit="relation"))
    (groups,) = [line for line in weak.values["not_guaranteed"] if line.startswith("Groups")]
    assert "relations of one entity or of one person" in groups
    assert "entities that act" not in groups
    assert "| protected | single relations, and not entities |" in weak.to_markdown()
    assert any("removing one relation changes" in line for line in weak.values["assumptions"])
    whole = certificate(PLAN)
    assert any("removing one entity changes" in line for line in whole.values["assumptions"])
    assert "| protected | every entity |" in whole.to_markdown()


def test_a_part_of_the_steps_has_one_condition_and_not_two():
    plan = sized_plan("private")
    start = {"graph": GRAPH, "noise": {"source": "secure"}, "training": {}}
    whole = assumptions(plan, start)
    part = assumptions(plan, start, is_part=True)
    assert any("the target epsilon was fixed before" in line for line in whole)
    assert not any("the target epsilon was fixed before" in line for line in part)
    assert sum("epsilon of a part of the steps follows" in line for line in part) == 1
    assert assumptions(PLAN, start) == assumptions(PLAN, start, is_part=True)


def test_a_delta_of_one_over_the_entities_is_called_what_it_is():
    large = replace(PLAN, delta=1 / PLAN.num_entities)
    words = "publishing one of them outright would be allowed"
    assert any(words in line for line in certificate(large).values["not_guaranteed"])
    below = replace(PLAN, delta=0.99 / PLAN.num_entities)
    assert not any(words in line for line in certificate(below).values["not_guaranteed"])
    for plan, is_said in ((large, True), (below, False)):
        page = certificate_form(certificate(plan), [])
        assert ("publishing one entity outright would be allowed" in page) == is_said
