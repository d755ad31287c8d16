"""The page says what the values say, and is a whole Markdown page whatever they hold."""

from reldp.reporting.certificate import Certificate
from reldp.reporting.certificate_text import certificate_text, table
from tests.reporting.example import PLAN, ledger

VALUES = Certificate.from_ledger(PLAN, ledger()).values


def test_every_number_that_decides_is_on_the_page():
    page = certificate_text(VALUES)
    for name, value in VALUES["plan"].items():
        assert f"| {name} | {value} |" in page
    assert VALUES["plan_hash"] in page
    assert VALUES["ledger"]["head"] in page
    assert "ab" * 32 in page
    for line in [*VALUES["assumptions"], *VALUES["not_promised"]]:
        assert f"- {line}" in page


def test_what_was_dropped_stands_under_its_warning():
    page = certificate_text(VALUES)
    warning = page.index("**not private**, cut this before publishing")
    assert page.index("dropped: self_relations") > warning
    quiet = {**VALUES, "data": {k: v for k, v in VALUES["data"].items() if k != "not_private"}}
    assert "before publishing" not in certificate_text(quiet)


def test_bars_and_lines_cannot_break_a_table():
    assert "a shop \\| its till" in certificate_text(VALUES)
    assert table([("x", "two\nlines"), ("y", ["a", "b"]), ("z", None)])[2:] == [
        "| x | two lines |",
        "| y | a, b |",
        "| z |  |",
    ]


def test_audits_are_listed_one_by_one():
    assert "None yet." in certificate_text(VALUES)
    audits = [{"lower_bound": 0.25, "settings": {"canaries": 10}}, {"lower_bound": 0.5}]
    page = certificate_text({**VALUES, "audits": audits})
    assert "| lower_bound | 0.25 |" in page
    assert "| settings.canaries | 10 |" in page
    assert "| lower_bound | 0.5 |" in page
