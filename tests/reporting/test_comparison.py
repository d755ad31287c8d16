"""A certificate agrees to the byte, but for the last digits of epsilon."""

import json
from dataclasses import replace

import pytest

from reldp.errors import VerificationError
from reldp.reporting.comparison import agreed_certificate
from reldp.runs.certificate import Certificate
from tests.reporting.example import PLAN, ledger, sized_plan

MADE = Certificate.from_ledger(PLAN, ledger())
EPSILON = MADE.values["guarantee"]["epsilon"]


def written(values):
    return (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()


def test_the_same_bytes_agree():
    assert agreed_certificate(MADE.to_json().encode(), MADE) == MADE


@pytest.mark.parametrize("name", ["pld", "rdp"])
@pytest.mark.parametrize(
    ("factor", "same"), [(1 + 9e-7, True), (1 - 9e-7, True), (1 + 2e-6, False), (1 - 2e-6, False)]
)
def test_epsilon_may_differ_by_a_millionth(name, factor, same):
    stated = MADE.with_epsilon(**{**EPSILON, name: EPSILON[name] * factor})
    if same:
        assert agreed_certificate(stated.to_json().encode(), MADE) == stated
    else:
        with pytest.raises(VerificationError, match=f"guarantee.epsilon.{name} is"):
            agreed_certificate(stated.to_json().encode(), MADE)


@pytest.mark.parametrize(("factor", "same"), [(1 + 9e-7, True), (1 - 2e-6, False)])
def test_epsilon_of_all_planned_steps_is_compared_as_well(factor, same):
    plan = sized_plan("private")
    made = Certificate.from_ledger(plan, ledger(plan, counted=60, version="0.9.0"))
    epsilon = made.values["guarantee"]["epsilon"]
    stated = made.with_epsilon(
        **{**epsilon, "planned_steps": epsilon["planned_steps"] * factor}
    ).to_json()
    if same:
        assert agreed_certificate(stated.encode(), made).to_json() == stated
    else:
        with pytest.raises(VerificationError, match=r"guarantee\.epsilon\.planned_steps is"):
            agreed_certificate(stated.encode(), made)
    less = made.with_epsilon(**{n: epsilon[n] for n in ("pld", "rdp")}).to_json()
    with pytest.raises(VerificationError, match=r"epsilon\.planned_steps is missing"):
        agreed_certificate(less.encode(), made)


def test_an_infinite_epsilon_is_that_word_only():
    plan = replace(PLAN, noise_multiplier=0.0)
    made = Certificate.from_ledger(plan, ledger(plan))
    assert agreed_certificate(made.to_json().encode(), made) == made
    stated = made.with_epsilon(pld=1e300, rdp="Infinity")
    with pytest.raises(VerificationError):
        agreed_certificate(stated.to_json().encode(), made)


def test_no_other_number_may_differ():
    plan = {**MADE.values["plan"], "noise_multiplier": 1.0 + 1e-12}
    with pytest.raises(VerificationError, match=r"plan\.noise_multiplier is 1\.000000000001"):
        agreed_certificate(written({**MADE.values, "plan": plan}), MADE)


def test_another_order_is_another_file():
    values = dict(reversed(MADE.values.items()))
    with pytest.raises(VerificationError, match="another order"):
        agreed_certificate(written(values), MADE)


def test_many_differences_are_counted():
    values = {**MADE.values, "training": {f"setting{i}": i for i in range(30)}}
    with pytest.raises(VerificationError, match="and 24 more"):
        agreed_certificate(written(values), MADE)
