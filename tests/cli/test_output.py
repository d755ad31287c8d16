import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reldp.accounting import PrivacyCost
from reldp.cli.output import (
    cost_fields,
    guarantee,
    print_comparison,
    print_cost,
    print_json,
    print_table,
    round_up,
    say,
    to_json,
)
from reldp.clipping import TupleClipping
from reldp.plan import PrivacyPlan
from reldp.reporting.rule_comparison import RuleCost


def make(**changes):
    settings = {
        "num_entities": 1000,
        "num_relations": 2000,
        "max_degree": 5,
        "num_negatives": 4,
        "sample_rate": 0.005,
        "num_steps": 10,
        "noise_multiplier": 1.0,
        "delta": 1e-4,
    }
    return PrivacyPlan(**{**settings, **changes})


COST = PrivacyCost(1.23456789, 1e-4, "pld", "anchored")


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_rounding_never_promises_less_epsilon_than_there_is(value):
    shown = float(round_up(value))
    assert value <= shown <= value * 1.0011


def test_rounding_keeps_what_needs_no_rounding():
    assert (round_up(0.5), round_up(0.0), round_up(math.inf)) == ("0.5", "0", "infinite")
    assert round_up(4.00001) == "4.001"


def test_json_is_valid_where_epsilon_is_infinite():
    text = to_json({"epsilon": math.inf, "rows": [{"epsilon": math.inf}, -math.inf], "n": 3})
    read = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert read == {"epsilon": "Infinity", "rows": [{"epsilon": "Infinity"}, "-Infinity"], "n": 3}
    assert float(read["epsilon"]) == math.inf


def test_an_epsilon_that_is_no_number_is_never_printed():
    with pytest.raises(ValueError):
        to_json({"epsilon": math.nan})


def test_json_is_one_object(capsys):
    print_json({"epsilon": 0.1})
    assert json.loads(capsys.readouterr().out) == {"epsilon": 0.1}


def test_the_fields_hold_the_whole_plan():
    plan = make()
    fields = cost_fields(plan, COST)
    assert fields["epsilon"] == COST.epsilon
    assert fields["delta"] == COST.delta
    assert (fields["accountant"], fields["clipping"]) == ("pld", "tuple")
    assert (fields["analysis"], fields["status"]) == ("anchored", "proven")
    assert PrivacyPlan.from_dict(fields["plan"]) == plan
    assert fields["plan_hash"] == plan.hash


def test_a_claim_is_called_a_claim():
    plan = make(clipping="frequency")
    fields = cost_fields(plan, plan.privacy_cost("rdp"))
    assert (fields["analysis"], fields["status"]) == ("claimed", "claimed")
    assert fields["guarantee"].startswith("Claimed, false in the worst case")
    assert "Do not promise" in fields["guarantee"]


def test_a_rule_from_outside_is_unproven_and_not_called_false():
    class Outside(TupleClipping):
        name = "outside"

    sentence = guarantee(make(clipping=Outside()), COST)
    assert sentence.startswith("Claimed, not proven: reldp has no proof")
    assert "false" not in sentence


def test_the_sentence_says_who_is_protected_and_rounds_up():
    sentence = guarantee(make(), COST)
    assert sentence.startswith("Proven: training is (1.235, 0.0001)-differentially private")
    assert "entity together with all its relations, at most 5," in sentence
    assert "weaker" in guarantee(make(unit="relation"), COST)


@pytest.mark.parametrize("rule", ["tuple", "frequency"])
def test_an_infinite_epsilon_guarantees_nothing(rule):
    sentence = guarantee(
        make(noise_multiplier=0.0, clipping=rule), PrivacyCost(math.inf, 1e-4, "pld", "anchored")
    )
    assert sentence.startswith("Nothing is guaranteed")


def test_without_noise_the_table_has_no_status_that_could_be_quoted(capsys):
    plan = make(noise_multiplier=0.0)
    print_cost(plan, plan.privacy_cost())
    out = capsys.readouterr().out
    assert "none: without noise nothing is guaranteed" in out
    assert "proven" not in out.lower()
    # The JSON has one of two words here (reldp account --json is a contract); epsilon is "Infinity".
    assert cost_fields(plan, plan.privacy_cost())["status"] == "proven"


@pytest.mark.parametrize("clipping", ["tuple", "pair", "frequency"])
@pytest.mark.parametrize("unit", ["entity", "relation"])
@pytest.mark.parametrize("negatives", ["entities", "unprotected", "public"])
def test_the_table_shows_every_kind_of_plan(capsys, clipping, unit, negatives):
    pool = None if negatives == "entities" else 500
    print_cost(make(clipping=clipping, unit=unit, negatives=negatives, pool_size=pool), COST)
    out = capsys.readouterr().out
    assert "1.235 at delta 0.0001" in out
    assert ("Claimed, false in the worst case" in out) == (clipping == "frequency")
    assert ("Proven" in out) == (clipping != "frequency")
    assert max(len(line) for line in out.splitlines()) <= 80


def test_the_comparison_marks_claims(capsys):
    rows = [
        RuleCost(
            clipping="frequency",
            analysis="claimed",
            accountant="rdp",
            status="claimed",
            noise_multiplier=0.5,
            epsilon=6.44001,
        ),
        RuleCost(
            clipping="tuple",
            analysis="anchored",
            accountant="pld",
            status="proven",
            noise_multiplier=1.0,
            epsilon=math.inf,
        ),
    ]
    print_comparison(make(), rows, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert "6.441" in lines[1]
    assert "false in the worst case" in lines[1]
    assert "infinite" in lines[2]
    assert "false" not in lines[2]
    print_comparison(make(), rows, as_json=True)
    read = json.loads(capsys.readouterr().out)
    assert [row["epsilon"] for row in read["comparison"]] == [6.44001, "Infinity"]
    assert read["setting"]["noise_per_tuple"] == 1.0
    assert "clipping" not in read["setting"]


def test_words_of_others_reach_no_terminal_as_control_characters(capsys, monkeypatch):
    from rich.table import Table

    monkeypatch.setenv("FORCE_COLOR", "1")
    table = Table.grid()
    table.add_row("a\x1b[2Jb", style="bold")
    print_table(table, "c\x9bd")
    say("e\x1bf\ng")
    printed = capsys.readouterr().out
    assert "\x1b[1m" in printed  # our own style
    assert "a [2J" in printed
    assert "c d" in printed
    assert "e f\ng" in printed


@pytest.mark.parametrize("columns", ["0", "000", "", "x"])
def test_a_screen_that_says_it_has_no_columns_gets_the_table_all_the_same(
    columns, monkeypatch, capsys
):
    monkeypatch.setenv("COLUMNS", columns)
    print_table(None, "some words")
    assert "some words" in capsys.readouterr().out
