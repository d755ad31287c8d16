"""The documentation site in headless Chromium, opened from its folder: run by scripts/test-browser."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGES = (
    "index",
    "choosing-epsilon",
    "theory",
    "reference/reldp.plan",
    "reference/commands",
    "benchmarks",
)
PHONE = {"width": 375, "height": 800}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs") / "site"
    path = os.pathsep.join([str(REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(REPOSITORY / "scripts" / "build_docs.py"), "-o", str(folder)]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True)
    return folder


@pytest.fixture
def view(browser, site):
    """Open a page; messages, errors and requests that leave the folder are in `.problems`."""
    contexts = []

    def opened(name, **settings):
        context = browser.new_context(**settings)
        contexts.append(context)
        page = context.new_page()
        page.problems = []
        page.on("console", lambda message: page.problems.append(message.text))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("requestfailed", lambda request: page.problems.append(request.url))

        def outside(request):
            if not request.url.startswith((site.as_uri(), "data:", "blob:", "about:")):
                page.problems.append(request.url)

        page.on("request", outside)
        page.goto((site / f"{name}.html").as_uri())
        page.wait_for_timeout(300)
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_logged_and_nothing_is_loaded_from_elsewhere(view, name):
    assert view(name).problems == []


def test_control_a_foreign_request_is_noticed(view, site):
    text = (site / "index.html").read_text()
    foreign = '<img alt="" src="https://example.com/x.png"></body>'
    (site / "foreign.html").write_text(text.replace("</body>", foreign))
    assert any("example.com" in problem for problem in view("foreign").problems)


@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_a_phone(view, name):
    page = view(name, viewport=PHONE)
    page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_search_finds_a_term_without_a_network(view):
    page = view("index")

    found = page.get_by_text("Glossary", exact=True).locator("visible=true")
    assert found.count() == 0
    page.keyboard.press("Control+k")
    page.keyboard.type("anchored analysis")
    found.first.wait_for(timeout=10_000)  # results are listed anew with every letter
    assert page.problems == []


def test_formulas_are_rendered(view):
    page = view("theory")
    total = page.locator(".arithmatex").count()
    assert total > 500
    assert page.locator(".arithmatex .katex").count() >= total
    assert page.locator(".katex-error").count() == 0
    font = page.evaluate("document.fonts.check('16px KaTeX_Main')")
    assert font, "the fonts of the site are loaded"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_figure_of_the_landing_page_is_shown(view, scheme):
    page = view("index", color_scheme=scheme)
    assert page.locator("article img").first.evaluate("image => image.naturalWidth") > 100
