"""The form to sign: who, what, which data, epsilon and delta, assumptions, verification, ledger, and lines."""

from dataclasses import replace
from html import unescape

import pytest

from reldp.reporting.certificate_form import certificate_form
from reldp.reporting.report import report_page
from reldp.reporting.short_sentences import short_assumptions
from reldp.runs.certificate import Certificate
from reldp.runs.wording import SEARCH_EPSILON, SEARCH_METHOD, SEARCH_STATUS, shown
from tests.reporting.example import PLAN, certificate_of, ledger, sized_plan
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


def test_the_form_names_what_is_not_guaranteed():
    made = Certificate.from_ledger(PLAN, ledger(PLAN, version="0.9.0"))
    text = unescape(certificate_form(made, []))
    assert "<h2>Not guaranteed</h2>" in text
    assert "other releases from the same data; values that are shown without noise" in text
    for sentence in made.values["not_guaranteed"]:
        name = sentence.partition(":")[0].rstrip(".")
        assert name in text or name[0].lower() + name[1:] in text
    bare = replace(PLAN, noise_multiplier=0.0)
    text = certificate_form(Certificate.from_ledger(bare, ledger(bare, version="0.9.0")), [])
    assert "Privacy of any kind." in text
    assert "Not guaranteed</h2>" not in certificate_form(certificate_of("public"), [])


SECRET = {"mean": 4.0, "distribution": "logarithmic", "candidates": 3}


@pytest.mark.parametrize("search", [SECRET, {"runs": 3, "candidates": 3}, None])
def test_all_pages_of_a_search_name_its_method_and_its_condition(search):
    plan = sized_plan("private")
    certificate = Certificate.from_ledger(plan, ledger(plan, search=search))
    assert Certificate.from_json(certificate.to_json()).values == certificate.values
    form = certificate_form(certificate, [])
    pages = [certificate.to_markdown(), form]
    if search is not None:  # the curves of a run take seconds
        pages.append(report_page(None, certificate, [], public=True))
    guarantee = certificate.values["guarantee"]
    is_drawn = search is SECRET
    assert (guarantee["status"], guarantee.get("method")) == (
        ("computed", SEARCH_METHOD) if is_drawn else ("proven", None)
    )
    for page in pages:
        assert (SEARCH_EPSILON in page) is is_drawn
        assert (SEARCH_STATUS in page) is is_drawn
        assert ("smaller of anchored and replacement" in page) is is_drawn
        assert ("holds given the" in page) is (search is not None)
        assert ("target epsilon was fixed before its sizes were released" in page) is (
            search is None and page is not pages[0]
        )
        assert "guarantee warning" not in page
    for page in (pages[0], *pages[2:]):
        assert ("privacy-loss distributions)" in page) is not is_drawn
        assert ("epsilon (Renyi" in page) is not is_drawn
    assert ("Proven" in certificate.summary) is not is_drawn


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
