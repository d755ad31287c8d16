"""A certificate follows from plan and ledger, and from nothing else."""

import math
from dataclasses import replace

import pytest

from reldp.errors import LedgerError, VerificationError
from reldp.plan import PrivacyPlan
from reldp.runs.certificate import Certificate
from reldp.runs.ledger import LedgerRecord
from tests.reporting.example import PLAN, START, ledger


def test_epsilon_is_priced_from_the_counted_steps():
    made = Certificate.from_ledger(PLAN, ledger(counted=50))
    assert made.epsilon == pytest.approx(PLAN.epsilon(num_steps=50))
    assert made.epsilon < PLAN.epsilon()
    assert made.values["guarantee"]["epsilon"]["rdp"] == pytest.approx(PLAN.epsilon("rdp", 50))
    assert made.delta == PLAN.delta
    assert made.values["steps"]["counted"] == 50


def test_everything_the_issue_lists_is_in_it():
    values = Certificate.from_ledger(PLAN, ledger()).values
    assert set(values) == {
        "format",
        "date",
        "guarantee",
        "plan",
        "plan_hash",
        "steps",
        "noise",
        "key",
        "data",
        "encoder",
        "training",
        "model",
        "ledger",
        "assumptions",
        "not_guaranteed",
        "versions",
        "audits",
    }
    assert values["guarantee"]["status"] == "proven"
    assert values["guarantee"]["analysis"] == "anchored"


def test_it_is_a_pure_function_and_survives_json():
    made = Certificate.from_ledger(PLAN, ledger())
    assert Certificate.from_ledger(PLAN, ledger()) == made
    assert Certificate.from_json(made.to_json()) == made
    assert Certificate.from_json(made.to_json()).to_markdown() == made.to_markdown()


def test_without_noise_epsilon_is_infinite_and_json_stays_valid():
    plan = replace(PLAN, noise_multiplier=0.0)
    made = Certificate.from_ledger(plan, ledger(plan))
    assert math.isinf(made.epsilon)
    assert made.status == "none"
    assert '"Infinity"' in made.to_json()
    assert math.isinf(Certificate.from_json(made.to_json()).epsilon)


def test_the_frequency_rule_is_only_ever_claimed():
    plan = replace(PLAN, clipping="frequency")
    made = Certificate.from_ledger(plan, ledger(plan))
    assert made.status == "claimed"
    assert made.values["guarantee"]["analysis"] == "claimed"
    assert "known to be false in the worst case" in made.summary


def test_a_run_that_is_not_over_or_had_another_plan_gets_none():
    whole = ledger()
    with pytest.raises(LedgerError, match="complete"):
        Certificate.from_ledger(PLAN, LedgerRecord.check(whole.entries[:-1], whole.head))
    with pytest.raises(LedgerError, match="another"):
        Certificate.from_ledger(replace(PLAN, delta=1e-7), whole)


MADE = Certificate.from_ledger(PLAN, ledger()).to_json()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be JSON"),
        ("[]", "format 2, got none"),
        ('{"format": 3}', "format 2, got 3"),
        ('{"format": 2.0}', r"format 2, got 2\.0"),
        ('{"format": 1}', r"reldp 0\.3 and earlier"),
        ('{"format": 2}', "certificate.json: date must be there"),
        ("not json", "must be JSON"),
        (MADE + " ", "other bytes"),
        (MADE.replace('"delta": 1e-06', '"delta": 0.000001'), "other bytes"),
        (MADE.replace('"delta": 1e-06', '"delta": 1e999'), "range of a double"),
        (MADE.replace('"delta": 1e-06', '"delta": NaN'), "NaN"),
        (MADE.replace('"delta": 1e-06', '"delta": true'), "guarantee.delta must be"),
        (MADE.replace('"counted": 100', '"counted": 100.0'), "steps.counted must be"),
        (MADE.replace('"counted": 100', '"counted": ' + "9" * 5000), "64 bits"),
        (MADE.replace('"counted": 100', '"counted": ' + "[" * 5000), "levels"),
        (MADE.replace('"2025-01-02"', '"2025-13-02"'), "date must be a date"),
        (MADE.replace('"2025-01-02"', '"\\ud800"'), "UTF-8"),
    ],
)
def test_what_is_no_certificate_is_refused(text, words):
    with pytest.raises(VerificationError, match=words):
        Certificate.from_json(text)


@pytest.mark.parametrize(
    "more",
    [
        {"num_entities": 5000},
        {"sensitive": {"drops": {"self_relations": 2}}},
        {"record": {**START["graph"]["record"], "notes": ["5,000 rows."]}},
    ],
)
def test_a_ledger_that_counts_something_of_the_graph_gets_no_certificate(more):
    with pytest.raises(LedgerError, match=r"start\.graph.* must have known parts only"):
        Certificate.from_ledger(PLAN, ledger(graph=more))


def test_it_names_the_plan_it_priced():
    values = Certificate.from_ledger(PLAN, ledger()).values
    plan = dict(values["plan"])
    assert plan.pop("expected_batch_size") == pytest.approx(32)
    assert PrivacyPlan.from_dict(plan).hash == values["plan_hash"] == START["plan_hash"]


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"num_steps": 10**6}, "start.num_steps must be 100 under"),
        ({"num_steps": 100.0}, "known kind"),
        ({"graph": {**START["graph"], "max_degree": 1}}, "start.graph.max_degree must be 5 under"),
        ({"noise": {"source": "none", "description": ""}}, "start.noise.source must be secure or"),
        ({"training": {"clip": False}}, "start.training.clip must be True under"),
        ({"format": 2.0}, "known kind"),
    ],
)
def test_a_ledger_that_contradicts_its_plan_gets_none(changes, place):
    """A certificate said "at most 1 relations" above an epsilon for 5, if the ledger said so."""
    first, *others = ledger().entries
    with pytest.raises(LedgerError, match=place):
        Certificate.from_ledger(PLAN, LedgerRecord.check([first | changes, *others], "f" * 64))


def test_a_run_whose_key_was_kept_gets_none():
    *others, last = ledger().entries
    kept = LedgerRecord.check([*others, last | {"key": "kept"}], "f" * 64)
    with pytest.raises(LedgerError, match="key must be one of destroyed"):
        Certificate.from_ledger(PLAN, kept)


def test_a_run_without_clipping_says_so():
    plan = replace(PLAN, noise_multiplier=0.0)
    first, *others = ledger(plan).entries
    for clip, words in ((True, plan.clipping.summary), (False, "none")):
        record = LedgerRecord.check([first | {"training": {"clip": clip}}, *others], "f" * 64)
        assert Certificate.from_ledger(plan, record).values["guarantee"]["clipping"] == words
