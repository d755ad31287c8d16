"""The audit of the training step: what it runs, what it splits, what it refuses. Its power is in mistakes/."""

from dataclasses import replace

import numpy as np
import pytest

from reldp.auditing import audit_step
from reldp.auditing.real_step import StepSettings
from reldp.auditing.step_audit import default_workers
from reldp.errors import InputError
from reldp.plan import PrivacyPlan
from reldp.training.step import PrivateStep
from tests.auditing.remembered import remember_jobs

KEY = bytes(range(32))
QUICK = {"trials": 100, "addresses": 200, "key": KEY}


@pytest.fixture
def remembered(monkeypatch):
    """Steps that another test has run in the same way are not run again."""
    remember_jobs(monkeypatch)


def plan_of(**changes):
    settings = {
        "num_entities": 60, "num_relations": 30, "max_degree": 2, "num_negatives": 2,
        "sample_rate": 0.2, "num_steps": 20, "noise_multiplier": 1.0, "delta": 0.01,
    }  # fmt: skip
    return PrivacyPlan(**{**settings, **changes})


def test_a_whole_audit_runs_every_case_and_check_and_stands(remembered):
    done = []
    audit = audit_step(plan_of(), **QUICK, progress=lambda part, total: done.append((part, total)))
    assert not audit.refuted, audit.verdict
    assert {bound.case for bound in audit.bounds} == {
        "plan", "one other relation", "many other relations", "several relations",
        "sample rate", "negatives",
    }  # fmt: skip
    names = {check.name for check in audit.checks}
    assert {"noise deviation", "mean batch size", "clip norms that one tuple adds"} <= names
    assert {"noise of steps and branches", "noise of steps at every lag"} <= names
    assert sum(part for part, _ in done) == done[0][1]


def test_the_step_that_trains_is_the_one_that_runs(monkeypatch):
    seen = set()
    right = PrivateStep.run

    def watched(self, batch, step, branch):
        seen.add((step, branch))
        return right(self, batch, step, branch)

    monkeypatch.setattr(PrivateStep, "run", watched)
    audit_step(plan_of(), **QUICK, cases=["checks"])
    assert {(step, 0) for step in range(200)} | {(step, 1) for step in range(100)} <= seen


def test_noise_divided_by_four_inside_the_training_step_is_refuted(monkeypatch):
    # 0.3.0 certified this "Proven" and audited it "Consistent": its audit did not run the step.
    right = PrivateStep._draw_noise
    monkeypatch.setattr(PrivateStep, "_draw_noise", lambda *args: right(*args) / 4)
    audit = audit_step(plan_of(), **{**QUICK, "trials": 400}, cases=["checks", "several relations"])
    assert audit.refuted
    assert any(bound.refuted for bound in audit.bounds)
    assert any(check.refuted for check in audit.checks)


@pytest.mark.parametrize(
    "changes",
    [
        {"clipping": "pair"},
        {"negatives": "unprotected", "pool_size": 50},
        {"negatives": "public", "pool_size": 40},
        {"negatives": "relations", "pool_size": 30, "max_degree": 1, "num_negatives": 1},
        {"unit": "relation"},
        {"clip_norm": 1e-3},
    ],
    ids=["pair", "unprotected", "public", "relations", "relation", "clip norm"],
)
def test_other_rules_pools_and_units_are_audited_too(changes):
    audit = audit_step(plan_of(**changes, noise_multiplier=0.5), **QUICK, cases=["plan", "checks"])
    assert not audit.refuted, audit.verdict
    (clip,) = [check for check in audit.checks if check.name.startswith("clip norms")]
    assert float(clip.seen) > 0.5  # tuples do reach their clip norm


@pytest.mark.parametrize(
    "settings",
    [
        StepSettings(noise_generator="fast"),
        StepSettings(precision="bfloat16"),
        StepSettings(microbatch_units=2),
        StepSettings(microbatch_units=1),
    ],
    ids=["fast", "bfloat16", "two", "one"],
)
def test_the_runs_settings_are_those_of_the_audit(settings):
    audit = audit_step(
        plan_of(), **QUICK, settings=settings, cases=["checks", "many other relations"]
    )
    assert not audit.refuted, audit.verdict
    assert audit.settings["microbatch_units"] == settings.microbatch_units


def test_the_release_of_sizes_is_no_part_of_what_steps_are_compared_with(remembered):
    public = plan_of()
    private = replace(
        public, sizes="private", sizes_epsilon=0.5, sizes_delta=0.002, delta=public.delta + 0.002
    )
    one, other = (audit_step(plan, **QUICK, cases=["plan"]) for plan in (public, private))
    assert [b.delta for b in one.bounds] == pytest.approx([b.delta for b in other.bounds])
    assert [b.claimed for b in one.bounds] == pytest.approx([b.claimed for b in other.bounds])
    assert other.plan_hash == private.hash


def test_processes_change_nothing_but_the_time(remembered):
    one, two = (  # other processes remember nothing
        audit_step(plan_of(), **QUICK, cases=["one other relation", "checks"], workers=count)
        for count in (1, 2)
    )
    assert one.bounds == two.bounds
    assert one.checks == two.checks
    assert default_workers() >= 1


def test_another_key_gives_another_audit():
    audits = [
        audit_step(plan_of(), trials=100, addresses=50, key=bytes([k] * 32), cases=["checks"])
        for k in (1, 2)
    ]
    assert audits[0].checks != audits[1].checks


@pytest.mark.parametrize(
    ("plan", "arguments", "message"),
    [
        ({}, {"trials": 5}, "`trials` must be an integer from 100 to 100000000, got 5"),
        (
            {},
            {"confidence": 1.0},
            "`confidence` must be a finite number of at least 0.5 and below 1",
        ),
        ({"noise_multiplier": 0.0}, {}, "`noise_multiplier` must be above 0"),
        ({"num_negatives": 0}, {}, "`num_negatives` must be at least 1 to audit the training step"),
    ],
)
def test_impossible_audits_are_refused(plan, arguments, message):
    with pytest.raises(InputError, match=message):
        audit_step(plan_of(**plan), **arguments)


def test_outputs_are_in_clip_norms():
    audit = audit_step(plan_of(clip_norm=0.01), **QUICK, cases=["checks"])
    seen = {check.name: check.seen for check in audit.checks}
    assert float(seen["noise deviation"]) == pytest.approx(1.0, abs=0.15)
    assert np.isfinite(audit.seconds)
