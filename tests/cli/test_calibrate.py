import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reldp.cli.main import main
from reldp.plan import PrivacyPlan
from tests.cli.test_account import SMALL, flags, refusal


def values(drop=(), **changes):
    return {k: v for k, v in {**SMALL, **changes}.items() if k not in drop}


def answer(capsys, given):
    code = main(["calibrate", *flags(given), "--json"])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_the_least_noise_for_a_target(capsys, accountant):
    given = values(["noise_multiplier"], target_epsilon="2", accountant=accountant)
    printed = answer(capsys, given)
    assert printed["epsilon"] <= 2
    assert printed["solved_for"] == "noise_multiplier"
    plan = PrivacyPlan.from_dict(printed["plan"])
    assert plan.noise_multiplier == printed["noise_multiplier"]
    assert plan.epsilon(accountant) == printed["epsilon"]
    less = replace(plan, noise_multiplier=printed["noise_multiplier"] / 1.002)
    assert less.epsilon(accountant) > 2


def test_the_most_steps_for_a_target(capsys):
    printed = answer(capsys, values(["num_steps"], target_epsilon="1.2", accountant="pld"))
    plan = PrivacyPlan.from_dict(printed["plan"])
    assert printed["solved_for"] == "num_steps"
    assert printed["num_steps"] == plan.num_steps
    assert plan.epsilon() == printed["epsilon"] <= 1.2
    assert plan.epsilon(num_steps=plan.num_steps + 1) > 1.2


def test_noise_is_shown_rounded_up(capsys):
    given = values(["noise_multiplier"], target_epsilon="2", accountant="pld")
    noise = answer(capsys, given)["noise_multiplier"]
    assert main(["calibrate", *flags(given)]) == 0
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("noise"))
    assert noise <= float(line.split()[1]) <= noise * 1.00001


def test_the_frequency_rule_stays_a_claim(capsys):
    claimed = {"clipping": "frequency", "accountant": "pld"}
    printed = answer(capsys, values(["noise_multiplier"], target_epsilon="2", **claimed))
    assert (printed["analysis"], printed["status"]) == ("claimed", "claimed")


@pytest.mark.parametrize(
    ("drop", "changes", "words"),
    [
        (["noise_multiplier"], {}, ["--target-epsilon must be given", "typical"]),
        ([], {"target_epsilon": "2"}, ["--noise-multiplier and --num-steps exclude", "Leave out"]),
        (
            ["noise_multiplier", "num_steps"],
            {"target_epsilon": "2"},
            ["--noise-multiplier or --num-steps must be given"],
        ),
        (
            ["noise_multiplier"],
            {"target_epsilon": "0"},
            ["--target-epsilon must be", "at least 0.001"],
        ),
        (["noise_multiplier"], {"target_epsilon": "inf"}, ["--target-epsilon must be", "finite"]),
        (["noise_multiplier"], {"target_epsilon": "low"}, ["--target-epsilon must be a number"]),
        (["noise_multiplier", "delta"], {"target_epsilon": "2"}, ["--delta must be given"]),
        (
            ["num_steps"],
            {"target_epsilon": "0.01", "noise_multiplier": "1"},
            ["--target-epsilon 0.01 is exceeded by a single step", "more noise"],
        ),
    ],
)
def test_bad_input_is_one_line_with_flag_rule_and_fix(capsys, drop, changes, words):
    err = refusal(capsys, "calibrate", drop, **changes)
    for word in words:
        assert word in err


def test_an_unreachable_target_is_refused_with_the_reason(capsys):
    # Half of the pool is drawn as negatives in every step: the batch size alone tells.
    err = refusal(
        capsys,
        "calibrate",
        ["noise_multiplier"],
        target_epsilon="1e-3",
        num_steps="1000000",
        analysis="anchored",
    )
    assert "--target-epsilon" in err
    assert "cannot be reached" in err


CHOICES = {
    "target_epsilon": ["-1", "0", "1e-9", "0.5", "8", "1e9", "nan"],
    "noise_multiplier": [None, None, "1", "0"],
    "num_steps": [None, "0", "3", "1e5"],
    "num_negatives": ["0", "4", "1e6"],
    "clipping": ["tuple", "pair", "frequency"],
    "unit": ["relation"],  # the fastest to account for
}


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.fixed_dictionaries({name: st.sampled_from(printed) for name, printed in CHOICES.items()}))
def test_any_values_give_an_answer_or_one_line(capsys, changes):
    capsys.readouterr()
    given = {k: v for k, v in {**SMALL, **changes}.items() if v is not None}
    code = main(["calibrate", *flags(given), "--json"])
    out, err = capsys.readouterr()
    assert code in (0, 2)
    if code == 2:
        assert (out, err.count("\n")) == ("", 1)
    else:
        assert float(json.loads(out)["epsilon"]) <= float(changes["target_epsilon"])
