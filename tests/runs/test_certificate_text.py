"""The page says what the values say, and is a whole Markdown page whatever they hold."""

from dataclasses import replace

from reldp.runs.certificate import Certificate
from reldp.runs.certificate_text import certificate_text, table
from tests.reporting.example import PLAN, certificate_of, ledger

VALUES = Certificate.from_ledger(PLAN, ledger()).values


def test_every_number_that_decides_is_on_the_page():
    page = certificate_text(VALUES)
    for name, value in VALUES["plan"].items():
        assert f"| {name} | {value} |" in page
    assert VALUES["plan_hash"] in page
    assert VALUES["ledger"]["head"] in page
    assert "ab" * 32 in page
    for line in [*VALUES["assumptions"], *VALUES["not_guaranteed"]]:
        assert f"- {line}" in page


def test_exact_sizes_are_on_the_page_only_where_they_are_public():
    assert "| entities | 5,000 |" in certificate_text(VALUES)
    for mode, kind in (("private", "noisy"), ("declared", "declared")):
        page = certificate_text(certificate_of(mode).values)
        assert f"| entities | at least 5,000 ({kind} bound) |" in page
        assert f"| relations used | at most 8,000 ({kind} bound) |" in page


def test_nothing_has_to_be_cut_before_publishing():
    page = certificate_text(VALUES)
    assert "before publishing" not in page
    assert "dropped" not in page.split("## Data")[1].split("## Model")[0]


def test_words_of_a_record_cannot_be_html_or_control_a_terminal():
    record = {"source": "<script>alert(1)</script> \x1b[2J a < b", "license": "MIT"}
    page = certificate_text({**VALUES, "data": {**VALUES["data"], "record": record}})
    assert "&lt;script>alert(1)&lt;/script>" in page
    assert "a < b" in page
    assert "\x1b" not in page
    assert "<script" not in page


def test_bars_and_lines_cannot_break_a_table():
    assert "a shop \\| its till" in certificate_text(VALUES)
    assert table([("x", "two\nlines"), ("y", ["a", "b"]), ("z", None)])[2:] == [
        "| x | two lines |",
        "| y | a, b |",
        "| z |  |",
    ]


def test_a_run_without_noise_names_no_analysis_and_no_assumption():
    plan = replace(PLAN, noise_multiplier=0.0)
    values = Certificate.from_ledger(plan, ledger(plan)).values
    assert values["guarantee"]["analysis"] == "none"
    page = certificate_text(values)
    assert "| analysis |" not in page.split("## Plan")[0]
    assert "## Assumptions\n\nNone: nothing is guaranteed.\n" in page
    assert "| analysis | anchored (the proof of theory.md 3.2) |" in certificate_text(VALUES)


def test_audits_are_listed_one_by_one():
    assert "None yet." in certificate_text(VALUES)
    audits = [
        {"kind": "mechanism", "bound": {"audited": 0.2}},
        {"lower_bound": 0.25, "settings": {"canaries": 10}},
        {"lower_bound": 0.5},
    ]
    page = certificate_text({**VALUES, "audits": audits})
    assert "| lower_bound | 0.25 |" in page
    assert "| settings.canaries | 10 |" in page
    assert "| kind | mechanism (sampling, clipping and noise" in page
    assert "| bound.audited (lower bound on epsilon of the steps composed) | 0.2 |" in page
    assert "| lower_bound | 0.5 |" in page
