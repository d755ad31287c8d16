import json
import math
from dataclasses import replace

from reldp.auditing.results import Bound, MechanismAudit

BOUND = Bound(
    delta=0.01, claimed=2.0, epsilon=1.5, direction="removal", method="counting",
    score="likelihood ratio", design="zero elsewhere",
)  # fmt: skip
AUDIT = MechanismAudit(
    bounds=(BOUND,), num_steps=1, trials=1000, confidence=0.99, seconds=1.0, plan={}, plan_hash="ab"
)


def test_the_verdict_names_bound_claim_confidence_and_trials():
    assert AUDIT.verdict == (
        "Consistent: for one step at delta 0.01 the audit shows epsilon >= 1.5; the claim for one step is 2 "
        "(99 % confidence, 1,000 trials)."
    )


def test_one_bound_above_its_claim_refutes():
    worse = replace(AUDIT, bounds=(BOUND, replace(BOUND, delta=0.1, epsilon=2.1)))
    assert worse.refuted
    assert worse.tightest.delta == 0.1
    assert worse.verdict.startswith(
        "REFUTED: for one step at delta 0.1 the audit shows epsilon >= 2.1"
    )


def test_a_claim_of_zero_is_refuted_by_anything():
    assert replace(BOUND, claimed=0.0).share == math.inf
    assert replace(BOUND, claimed=0.0, epsilon=0.0).share == 0.0


def test_the_audit_is_plain_json():
    values = json.loads(json.dumps(AUDIT.to_dict()))
    assert values["kind"] == "mechanism"
    assert values["bounds"][0]["share"] == 0.75
    assert values["refuted"] is False


def test_the_record_for_a_certificate_is_short_and_says_the_same():
    record = AUDIT.to_record()
    assert record["verdict"] == AUDIT.verdict
    assert record["bound"] == {"delta": 0.01, "audited": 1.5, "claimed": 2.0}
    assert "bounds" not in record


def test_the_headline_is_at_the_plans_own_delta_unless_another_refutes():
    bounds = (replace(BOUND, delta=1e-6, epsilon=1.0), BOUND)
    audit = replace(AUDIT, bounds=bounds, plan={"delta": 1e-6})
    assert audit.headline.delta == 1e-6
    assert audit.tightest.delta == 0.01
    worse = replace(audit, bounds=(bounds[0], replace(BOUND, epsilon=3.0)))
    assert worse.headline.delta == 0.01
    silent = replace(audit, bounds=(replace(bounds[0], epsilon=0.0), BOUND))
    assert silent.headline.delta == 0.01
