"""Every mistake in the training step is refuted at 99 % confidence, and the right step is not.

A right step may be refuted in at most 1 % of audits; seeds are fixed, so the outcome is too. Mistakes that fewer steps
show are audited with fewer than in `benchmarks/audit_power.py`, which measures how often each of them is refuted.
"""

from dataclasses import replace

import pytest

from tests.auditing.mistakes.step import MISTAKES, SMALL, StepMistake

FEWER = {
    "checks": {"addresses": 400},
    "many other relations": {"trials": 150},
    "sample rate": {"trials": 600},
}


def with_fewer_steps(mistake):
    """The mistake with as many steps as show it; what needs many addresses keeps them."""
    (case,) = mistake.cases
    return mistake if mistake.addresses else replace(mistake, **FEWER.get(case, {}))


AUDITS = [with_fewer_steps(mistake) for mistake in MISTAKES]
AUDITED = sorted({(m.cases, m.trials, m.addresses) for m in AUDITS}, key=str)


@pytest.mark.parametrize("mistake", AUDITS, ids=[mistake.name for mistake in MISTAKES])
def test_the_mistake_is_refuted(mistake):
    audit = mistake.audit(seed=1)
    assert audit.refuted, audit.verdict
    assert set(mistake.cases) >= {bound.case for bound in audit.bounds if bound.refuted}


@pytest.mark.parametrize(("cases", "trials", "addresses"), AUDITED)
def test_the_right_step_is_not(cases, trials, addresses):
    control = StepMistake(name="none", put_in=None, cases=cases, trials=trials, addresses=addresses)
    audit = control.audit(seed=1, wrong=False)
    assert not audit.refuted, audit.verdict
    assert audit.bounds or audit.checks


def test_the_gallery_is_of_a_plan_with_microbatches_of_several_units():
    assert SMALL.expected_batch_size > 8
