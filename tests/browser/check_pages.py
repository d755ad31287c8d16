"""The pages that reldp writes, in headless Chromium: run by scripts/test-browser, which installs it."""

import re

import pytest

from reldp.accounting.tradeoff import QUESTIONS
from reldp.reporting.page import percent
from reldp.reporting.privacy_curves import RATES
from reldp.reporting.report import curves_of
from reldp.runs.wording import shown
from tests.browser.conftest import HOME
from tests.browser.pages import SECRETS, write_pages

PAGES = ("report", "public", "form", "long-form", "graph")
PHONE = {"width": 375, "height": 800}
OPEN_ALL = "document.querySelectorAll('details').forEach(part => part.open = true)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def certificate(folder):
    return write_pages(folder)


@pytest.fixture
def view(browser, folder, certificate):
    """Open a page in a context of its own; whatever goes wrong on it is in `.problems`."""
    contexts = []

    def opened(name, **settings):
        context = browser.new_context(**settings)
        contexts.append(context)
        page = context.new_page()
        page.problems = []
        page.on("console", lambda message: page.problems.append(message.text))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("request", lambda request: page.problems.append(request.url))
        page.goto((folder / f"{name}.html").as_uri())
        assert page.problems.pop(0).endswith(f"{name}.html")  # the page itself is requested
        return page

    yield opened
    for context in contexts:
        context.close()


def rows(page, name):
    """Texts of a table's cells, without its header."""
    script = (
        "table => [...table.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.innerText))"
    )
    return page.locator(f"#{name}").evaluate(script)


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_logged_and_nothing_is_loaded(view, name):
    page = view(name)
    page.evaluate(OPEN_ALL)
    page.mouse.move(200, 400)
    assert page.problems == []


def test_control_a_page_that_loads_something_is_noticed(view, folder):
    text = (
        (folder / "report.html").read_text().replace("</main>", '<img alt="" src="x.png"></main>')
    )
    (folder / "loading.html").write_text(text)
    page = view("loading")
    page.wait_for_timeout(100)
    assert any("x.png" in problem for problem in page.problems)


def test_numbers_on_the_page_are_those_of_the_accountant(view, certificate):
    page, curves = view("report"), curves_of(certificate)
    assert rows(page, "reading-points") == [
        [percent(rate), *(percent(curves.power(rate, question)) for question in QUESTIONS)]
        for rate in RATES
    ]
    by_degree = [[str(d), shown(e)] for d, e in curves.by_degree]
    assert [row[:2] for row in rows(page, "epsilon-by-degree")] == by_degree
    assert rows(page, "epsilon-by-delta") == [[shown(d), shown(e)] for d, e in curves.by_delta]
    assert rows(page, "epsilon-by-steps") == [[str(n), shown(e)] for n, e in curves.by_steps]
    first, second = page.locator("dl.figures dd").all_inner_texts()[:2]
    assert [first, second] == [shown(certificate.epsilon), shown(certificate.delta)]


def test_charts_are_drawn_where_the_numbers_are(view, certificate):
    page, curves = view("report"), curves_of(certificate)
    chart = page.locator("section[aria-labelledby=attacker] svg")
    box = chart.bounding_box()
    scale = box["width"] / 560
    for rate, dot in zip(RATES, chart.locator("circle").all(), strict=True):
        at = dot.bounding_box()
        power = 1 - (at["y"] + at["height"] / 2 - box["y"] - 30 * scale) / (254 * scale)
        assert power == pytest.approx(curves.worst(rate), abs=0.004)


def test_the_pointer_reads_the_curve(view, certificate):
    page, curves = view("report"), curves_of(certificate)
    chart = page.locator("section[aria-labelledby=attacker] svg")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    at = box["x"] + (58 + 0.5 * (560 - 58 - 18)) * box["width"] / 560  # 1 % false positives
    page.mouse.move(at, box["y"] + box["height"] / 2)
    words = page.locator("figure .reading").first.inner_text()
    assert words == f"{percent(0.01)} false: at most {percent(curves.worst(0.01))} true"
    page.mouse.move(1, 1)
    assert page.locator("figure .reading").first.is_hidden()


def test_sensitive_parts_are_folded_until_they_are_opened(view):
    page = view("report")
    table = page.get_by_role("cell", name="61.1 [60.0, 63.0]", include_hidden=True)
    assert not table.is_visible()
    page.get_by_text("Evaluation on secret-graph").first.click()
    assert table.is_visible()
    page.get_by_role("button", name="Open all details").click()
    assert page.locator("details:not([open])").count() == 0
    page.get_by_role("button", name="Close all details").click()
    assert page.locator("details[open]").count() == 0


def test_everything_is_readable_without_a_script_and_by_keyboard(view):
    page = view("report", java_script_enabled=False)
    for words in (
        "What could an attacker do?",
        "Epsilon by delta, after all steps",
        "Not guaranteed",
    ):
        assert page.get_by_text(words).first.is_visible()
    assert page.locator("svg").first.is_visible()
    summary = page.locator("summary").first
    summary.focus()
    page.keyboard.press("Enter")
    assert page.get_by_role("cell", name="61.1 [60.0, 63.0]", include_hidden=True).is_visible()


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_does_not_scroll_sideways(view, name):
    page = view(name, viewport=PHONE)
    page.evaluate(OPEN_ALL)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    wide = "[...document.querySelectorAll('main *:not(svg *)')].filter(e => e.getBoundingClientRect().right > 376)"
    assert page.evaluate(f"{wide}.map(e => e.outerHTML.slice(0, 80))") == []


def test_a_public_page_has_none_of_the_sensitive_values(view):
    shown_by = {}
    for name in ("report", "public"):
        page = view(name)
        page.evaluate(OPEN_ALL)
        text = page.content() + page.locator("body").inner_text()
        drawn = page.evaluate(
            "[...document.querySelectorAll('*')].flatMap(e => Object.values(e.dataset)).join()"
        )
        shown_by[name] = text + drawn
    evaluation = ("secret-graph", "58.4 [57.0", "61.1 [60.0", "+2.8", "mean loss of a tuple")
    assert [words for words in evaluation if words in shown_by["public"]] == []
    assert [words for words in evaluation if words not in shown_by["report"]] == []  # control
    assert [words for words in SECRETS if words in shown_by["public"]] == []


@pytest.mark.parametrize("name", ["form", "long-form"])
@pytest.mark.parametrize("size", ["A4", "Letter"])
def test_the_form_prints_on_one_page(view, name, size):
    assert pages_of(view(name).pdf(format=size)) == 1


def test_the_report_prints_on_white_and_without_navigation(view):
    page = view("report", color_scheme="dark")
    assert 3 <= pages_of(page.pdf(format="A4")) <= 7
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()


def pages_of(pdf):
    """Number of pages of a document that Chromium printed."""
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_barrier(view, name, scheme):
    page = view(name, color_scheme=scheme, bypass_csp=True)
    page.evaluate(OPEN_ALL)
    page.add_script_tag(path=HOME / "axe.min.js")
    assert barriers(page) == []


def test_control_axe_finds_what_is_wrong(view):
    page = view("report", bypass_csp=True)
    page.add_script_tag(path=HOME / "axe.min.js")
    page.evaluate(
        "document.querySelectorAll('svg').forEach(e => e.removeAttribute('aria-label'));"
        "document.querySelector('h2').style.color = '#eee'"
    )
    assert {"svg-img-alt", "color-contrast"} <= set(barriers(page))


def barriers(page):
    return page.evaluate("axe.run().then(result => result.violations.map(one => one.id))")
