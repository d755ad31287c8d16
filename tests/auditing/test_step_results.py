import json

from reldp.auditing.checks import Check
from reldp.auditing.results import Bound
from reldp.auditing.step_results import StepAudit

CONSISTENT = Bound(
    delta=0.3, claimed=2.0, epsilon=1.5, direction="removal", method="counting", score="projection",
    design="zero elsewhere", case="several relations",
)  # fmt: skip
BROKEN = Bound(
    delta=0.3, claimed=1.0, epsilon=1.5, direction="removal", method="counting", score="projection",
    design="zero elsewhere", case="one other relation",
)  # fmt: skip
FAILED = Check(name="noise deviation", expected="2", seen="1.4", p_value=1e-9, miss=1e-3)
PASSED = Check(name="mean batch size", expected="64", seen="63.9", p_value=0.4, miss=1e-3)


def audit_of(bounds, checks):
    return StepAudit(
        bounds=tuple(bounds), checks=tuple(checks), trials=1000, confidence=0.99, seconds=1.0,
        settings={"noise": "secure"}, plan={"delta": 0.1}, plan_hash="abc",
    )  # fmt: skip


def test_a_kept_claim_says_how_much_was_tried():
    audit = audit_of([CONSISTENT], [PASSED])
    assert not audit.refuted
    assert audit.verdict == (
        "Consistent: the training step kept its claim in 1 cases and 1 checks of noise, batches and clipping "
        "(99 % confidence, 1,000 trials)."
    )


def test_a_broken_bound_and_a_failed_check_are_both_named():
    audit = audit_of([CONSISTENT, BROKEN], [PASSED, FAILED])
    assert audit.refuted
    assert (
        "in the case 'one other relation' epsilon is at least 1.5 at delta 0.3, the claim is 1"
        in audit.verdict
    )
    assert "noise deviation: 1.4, expected 2 (p = 1e-09)" in audit.verdict
    assert "several relations" not in audit.verdict


def test_each_alone_refutes():
    assert audit_of([BROKEN], []).refuted
    assert audit_of([], [FAILED]).refuted


def test_records_and_dictionaries_are_json():
    audit = audit_of([CONSISTENT], [PASSED, FAILED])
    assert json.loads(json.dumps(audit.to_record()))["kind"] == "training step"
    values = json.loads(json.dumps(audit.to_dict()))
    assert values["bounds"][0]["case"] == "several relations"
    assert [check["refuted"] for check in values["checks"]] == [False, True]
