"""Parts of pages: escaped text, headers of tables, folded parts, and shares that are rounded up."""

import pytest

from reldp.reporting.page import (
    facts,
    figure,
    folded,
    key_figures,
    numbers,
    page,
    paragraph,
    percent,
    section,
    sentences,
)
from reldp.reporting.style import SCRIPT, STYLE
from tests.reporting.html import parsed


def test_a_page_has_landmarks_a_title_and_a_navigation():
    whole = parsed(page("A < B", "about", [paragraph("text")], contents=[("one", "One")]))
    assert whole.count("main") == whole.count("header") == whole.count("nav") == 1
    assert whole.text_of("title") == whole.text_of("h1") == "A < B"
    assert ("href", "#one") in whole.attributes
    assert ("lang", "en") in whole.attributes
    assert "nav" not in parsed(page("A", "b", [])).tags


def test_texts_are_escaped_everywhere():
    bad = "<b>&"
    parts = [
        paragraph(bad),
        sentences([bad]),
        facts(bad, [(bad, bad)]),
        numbers(bad, [bad, bad], [(bad, bad)]),
        figure("", bad),
        folded(bad),
        key_figures([(bad, bad)]),
        section("name", bad),
    ]
    for part in parts:
        assert "<b>" not in part
        assert "&lt;b&gt;&amp;" in part


def test_tables_have_headers_for_rows_and_columns_and_stress_one_row():
    table = numbers("c", ["delta", "epsilon"], [("1e-5", "4"), ("1e-6", "5")], stressed="1e-6")
    assert table.count('scope="col"') == 2
    assert table.count('scope="row"') == 2
    assert table.index('class="own"') > table.index("1e-5")
    assert table.count('class="own"') == 1
    assert 'scope="row"' in facts("c", [("name", 1)])
    assert "<code>" + "ab" * 32 + "</code>" in facts("c", [("hash", "ab" * 32)])


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "0"),
        (0.0001, "0.01"),
        (0.00011, "0.02"),
        (0.01, "1"),
        (0.0479, "4.8"),
        (0.25, "25"),
        (0.25001, "25.1"),
        (0.999999, "100"),
        (1.0, "100"),
    ],
)
def test_shares_are_rounded_up_and_never_down(share, words):
    assert percent(share) == f"{words}\u00a0%"
    assert float(words) >= 100 * share


def test_nothing_is_no_list_and_a_figure_may_have_no_caption():
    assert sentences([]) == ""
    assert figure("<svg></svg>") == "<figure><svg></svg></figure>"


def test_style_and_script_are_in_the_page():
    whole = page("A", "b", [])
    assert STYLE in whole
    assert SCRIPT in whole
