from dataclasses import replace

from reldp.auditing.results import Bound, MechanismAudit
from reldp.auditing.suite import AuditResults
from reldp.cli.audit_tables import print_audits
from tests.auditing.test_step_results import BROKEN, CONSISTENT, FAILED, PASSED, audit_of


def mechanism():
    bound = Bound(
        delta=0.05, claimed=1.45, epsilon=1.3, direction="removal", method="gaussian",
        score="total", design="zero elsewhere",
    )  # fmt: skip
    return MechanismAudit(
        bounds=(bound,), num_steps=1, trials=2000, confidence=0.99, seconds=1.0,
        plan={"delta": 0.05}, plan_hash="abc",
    )  # fmt: skip


def test_every_case_has_its_tightest_bound_and_every_check_a_row(capsys):
    loose = replace(CONSISTENT, delta=0.1, epsilon=0.5)
    step = audit_of([loose, CONSISTENT, BROKEN], [PASSED, FAILED])
    print_audits(AuditResults(mechanism=mechanism(), step=step), None)
    out = capsys.readouterr().out
    assert out.count("several relations") == 1
    assert ">= 1.5" in out
    assert ">= 0.5" not in out
    assert "mean batch size" in out
    assert "noise deviation" in out
    assert "REFUTED" in out
    assert "the audit shows epsilon >= 1.3" in " ".join(out.split())


def test_a_plan_without_a_step_to_audit_has_one_table(capsys):
    print_audits(AuditResults(mechanism=mechanism()), "picture.png")
    out = capsys.readouterr().out
    assert "training step" not in out
    assert "The figure is in picture.png." in out
