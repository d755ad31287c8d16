import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reldp.cli.main import main
from reldp.plan import PrivacyPlan

PAPER = {
    "num_entities": "1e6",
    "num_relations": "5000000",
    "max_degree": "5",
    "num_negatives": "4",
    "sample_rate": "1e-5",
    "num_steps": "100000",
    "noise_multiplier": "1",
    "delta": "2e-7",
}
SMALL = {
    **PAPER,
    "num_entities": "5000",
    "num_relations": "10000",
    "sample_rate": "0.002",
    "num_steps": "10",
    "delta": "1e-5",
    "accountant": "rdp",
}


def flags(values):
    return [part for k, v in values.items() for part in ("--" + k.replace("_", "-"), v)]


def run(capsys, command, values, *more):
    code = main([command, *flags(values), *more])
    out, err = capsys.readouterr()
    return code, out, err


def answer(capsys, **changes):
    values = {k: v for k, v in {**PAPER, **changes}.items() if v is not None}
    code, out, err = run(capsys, "account", values, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def refusal(capsys, command="account", drop=(), **changes):
    values = {k: v for k, v in {**SMALL, **changes}.items() if k not in drop}
    code, out, err = run(capsys, command, values)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("reldp: ")
    return err


# Ranges that independent programs gave for the paper's default setting.
@pytest.mark.parametrize(
    ("changes", "low", "high", "analysis", "status"),
    [
        ({"analysis": "anchored"}, 0.455, 0.465, "anchored", "proven"),
        ({"analysis": "replacement"}, 4.79, 5.06, "replacement", "proven"),
        ({"analysis": "replacement", "accountant": "rdp"}, 5.8, 6.05, "replacement", "proven"),
        # 0.7957 by dp-accounting's connect-the-dots at an interval of 3e-5; a coarse 1e-3 gives 0.850.
        ({"clipping": "pair", "noise_multiplier": "0.6"}, 0.79, 0.81, "replacement", "proven"),
        (
            {"clipping": "frequency", "noise_multiplier": "0.5", "accountant": "rdp"},
            6.3,
            6.5,
            "claimed",
            "claimed",
        ),
    ],
)
def test_the_papers_default_costs_what_it_should(capsys, changes, low, high, analysis, status):
    printed = answer(capsys, **changes)
    assert low <= printed["epsilon"] <= high
    assert (printed["analysis"], printed["status"]) == (analysis, status)
    assert printed["accountant"] == changes.get("accountant", "pld")


def test_the_answer_is_the_plans_own(capsys):
    printed = answer(capsys, **SMALL)
    plan = PrivacyPlan.from_dict(printed["plan"])
    assert printed["epsilon"] == plan.epsilon("rdp")
    assert printed["delta"] == plan.delta == 1e-5


def test_a_batch_size_is_a_rate(capsys):
    by_rate = answer(capsys, **SMALL)
    by_size = answer(capsys, **{**SMALL, "sample_rate": None, "expected_batch_size": "20"})
    assert by_rate["epsilon"] == by_size["epsilon"]


def test_units_and_pools_reach_the_plan(capsys):
    relation = answer(capsys, **{**SMALL, "unit": "relation"})
    public = answer(capsys, **{**SMALL, "negatives": "public", "pool_size": "9000"})
    plain = answer(capsys, **SMALL)
    assert relation["epsilon"] < public["epsilon"] < plain["epsilon"]
    assert public["plan"]["pool_size"] == 9000


def test_no_noise_is_infinite_and_valid_json(capsys):
    printed = answer(capsys, **{**SMALL, "noise_multiplier": "0"})
    assert printed["epsilon"] == "Infinity"
    assert float(printed["epsilon"]) == math.inf
    assert printed["guarantee"].startswith("Nothing is guaranteed")


def test_no_steps_cost_nothing(capsys):
    assert answer(capsys, **{**SMALL, "num_steps": "0"})["epsilon"] == 0


def test_people_get_a_table_and_a_sentence(capsys):
    code, out, err = run(capsys, "account", SMALL)
    assert (code, err) == (0, "")
    assert out.splitlines()[0].startswith("epsilon")
    assert "Proven: training is (" in out


def test_the_frequency_rule_is_never_shown_without_its_warning(capsys):
    _, out, _ = run(capsys, "account", {**SMALL, "clipping": "frequency"})
    assert "Claimed, false in the worst case" in out
    assert "Proven" not in out


def test_the_comparison_has_all_rules_and_accountants(capsys):
    values = {k: v for k, v in SMALL.items() if k != "accountant"}
    code, out, _ = run(capsys, "account", values, "--price-list", "--json")
    assert code == 0
    costs = json.loads(out)["comparison"]
    by_way = {(p["clipping"], p["analysis"], p["accountant"]): p["epsilon"] for p in costs}
    assert len(by_way) == 6
    assert by_way["tuple", "anchored", "pld"] < by_way["tuple", "replacement", "pld"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"noise_multiplier": "-1"}, ["--noise-multiplier must be", "0 or more", "-1.0"]),
        ({"noise_multiplier": "nan"}, ["--noise-multiplier must be", "finite"]),
        ({"delta": "0"}, ["--delta must be", "between 0 and 1", "Take it"]),
        ({"delta": "1.5"}, ["--delta must be", "between 0 and 1", "got 1.5"]),
        ({"num_negatives": "2000"}, ["--num-negatives", "must not exceed the pool", "use fewer"]),
        ({"clipping": "tupel"}, ["--clipping must be one of", "Did you mean tuple?"]),
        ({"expected_batch_size": "20"}, ["--sample-rate and --expected-batch-size", "Leave one"]),
        ({"num_entities": "many"}, ["--num-entities must be a whole number", "'many'"]),
        ({"sample_rate": "often"}, ["--sample-rate must be a number", "'often'"]),
        ({"sample_rate": "1.5"}, ["--sample-rate must be", "at most 1"]),
        ({"max_degree": "0"}, ["--max-degree must be", "from 1"]),
        ({"num_steps": "-5"}, ["--num-steps must be", "got -5"]),
        ({"max_degre": "5"}, ["--max-degre is not an option", "--max-degree"]),
        ({"accountant": "prv"}, ["--accountant must be one of pld, rdp"]),
        (
            {"clipping": "frequency", "analysis": "anchored"},
            ["--analysis anchored needs", "Use best"],
        ),
        ({"negatives": "public"}, ["--pool-size must be given"]),
        ({"pool_size": "70000"}, ["--pool-size must not be given"]),
        ({"target_epsilon": "3"}, ["--target-epsilon is not an option of reldp account"]),
    ],
)
def test_bad_input_is_one_line_with_flag_rule_and_fix(capsys, changes, words):
    err = refusal(capsys, **changes)
    for word in words:
        assert word in err


def test_missing_flags_are_one_line(capsys):
    assert "--delta must be given" in refusal(capsys, drop=["delta"])
    err = refusal(capsys, drop=list(SMALL))
    assert all(f"--{name}" in err for name in ("num-entities", "num-relations", "delta"))


VALUES = {
    "num_entities": ["0", "1", "7", "5000", "1e6", "1e13"],
    "num_relations": ["1", "10", "10000", "5e6", "1e12"],
    "max_degree": ["0", "1", "5", "60"],
    "num_negatives": ["0", "1", "4", "1e6"],
    "sample_rate": ["0", "1e-9", "1e-5", "0.02", "1", "2"],
    "num_steps": ["0", "1", "1000", "1e9"],
    "noise_multiplier": ["0", "0.05", "0.5", "1", "100", "-1", "inf"],
    "delta": ["1e-30", "1e-6", "0.5", "0", "1", "nan"],
    "clipping": ["tuple", "pair", "frequency", "Tuple"],
    "negatives": ["entities", "unprotected", "public"],
    "pool_size": [None, None, "3", "1e6"],
    "unit": ["entity", "relation"],
    "analysis": ["best", "anchored", "replacement"],
}


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()}))
def test_any_values_give_an_epsilon_or_one_line(capsys, values):
    capsys.readouterr()
    given = {k: v for k, v in values.items() if v is not None}
    code, out, err = run(capsys, "account", {**given, "accountant": "rdp"}, "--json")
    assert code in (0, 2)
    if code == 2:
        assert (out, err.count("\n")) == ("", 1)
    else:
        assert err == ""
        assert float(json.loads(out)["epsilon"]) >= 0


def test_the_comparison_has_its_earlier_name_as_a_hidden_alias(capsys):
    values = {k: v for k, v in SMALL.items() if k != "accountant"}
    _, table, _ = run(capsys, "account", values, "--compare", "--json")
    _, alias, _ = run(capsys, "account", values, "--price-list", "--json")
    assert alias == table
    assert main(["account", "--help"]) == 0
    page = capsys.readouterr().out
    assert "--compare" in page
    assert "--price-list" not in page
