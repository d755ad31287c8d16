"""Every mistake in the training step is refuted at 99 % confidence, and the right step is not.

A right step may be refuted in at most 1 % of audits; seeds are fixed, so the outcome is too.
"""

import pytest

from tests.auditing.mistakes.step import MISTAKES, SMALL, StepMistake

AUDITED = sorted({(m.cases, m.trials, m.addresses) for m in MISTAKES}, key=str)


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.name for mistake in MISTAKES])
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
