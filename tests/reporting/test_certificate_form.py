"""The form to sign: who, what, which data, epsilon and delta, assumptions, verification, ledger, and lines."""

from dataclasses import replace

import pytest

from reldp.reporting.certificate_form import certificate_form
from reldp.reporting.short_sentences import short_assumptions
from reldp.runs.certificate import Certificate
from reldp.runs.wording import shown
from tests.reporting.example import PLAN, certificate_of, ledger
from tests.reporting.html import parsed


@pytest.mark.parametrize("mode", ["private", "declared", "public"])
def test_the_form_has_what_is_signed(mode):
    certificate = certificate_of(mode)
    text = certificate_form(certificate, ["one", "two", "three"])
    parsed(text)
    values = certificate.values
    for needed in (
        f"{shown(certificate.epsilon)} and {shown(certificate.delta)}",
        values["ledger"]["head"],
        values["plan_hash"],
        values["data"]["commitment"],
        values["data"]["record"]["source"],
        "3 checks of reldp verify passed",
        "small-model",
        "Privacy officer",
        "signature",
        "date",
        *short_assumptions(values["assumptions"]),
    ):
        assert needed in text, needed
    assert "<svg" not in text


def test_a_run_without_a_guarantee_says_so():
    plan = replace(PLAN, noise_multiplier=0.0)
    text = certificate_form(Certificate.from_ledger(plan, ledger(plan)), [])
    assert "no guarantee" in text
    assert "guarantee warning" in text
    assert "Nothing is guaranteed" in text


def test_audits_are_counted():
    values = dict(certificate_of("public").values)
    audits = [{"refuted": True}, {"refuted": False}]
    assert "2, of which 1 refuted" in certificate_form(
        Certificate({**values, "audits": audits}), []
    )
