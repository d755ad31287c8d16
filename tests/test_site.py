"""The documentation site: its strict build, its links, what it loads, and that the generated reference is complete."""

import ast
import doctest
import importlib.util
import os
import re
import subprocess
import sys
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import reldp

REPOSITORY = Path(__file__).parents[1]
SCRIPTS = REPOSITORY / "scripts"
EXTERNAL = re.compile(r"(?:https?:)?//")
LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors that it has."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.links, self.loaded, self.anchors, self.classes = set(), set(), set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        self.classes |= set((values.get("class") or "").split())
        if tag == "a" and values.get("href"):
            self.links.add(values["href"])
        # Links between pages (next, previous) load nothing.
        if (
            tag in LOADING
            and values.get(LOADING[tag])
            and values.get("rel") not in ("next", "prev")
        ):
            self.loaded.add(values[LOADING[tag]])


class Site:
    """All pages of a built site."""

    def __init__(self, folder):
        self.folder = folder

    @cached_property
    def pages(self):
        return {path: Page(path) for path in sorted(self.folder.rglob("*.html"))}

    def target(self, page, link):
        """The file that a link leads to, and the anchor."""
        path, _, anchor = link.partition("#")
        path = unquote(path.partition("?")[0])
        file = Path(os.path.normpath(page.path.parent / path)) if path else page.path
        return (file / "index.html" if file.is_dir() else file), unquote(anchor)

    def broken(self):
        """(page, link) of every link, and of everything that is loaded, that leads nowhere on the site."""
        missing = []
        for page in self.pages.values():
            if page.path.name == "404.html":  # shown by a server, from any place
                continue
            for link in page.links | page.loaded:
                if re.match(r"[a-z]+:", link) or link.startswith("//"):
                    continue
                file, anchor = self.target(page, link)
                known = file in self.pages and anchor in self.pages[file].anchors
                if not file.is_file() or (anchor and not known):
                    missing.append((page.path.name, link))
        return missing

    def reached(self):
        """Pages that can be reached from the landing page."""
        found, waiting = set(), [self.folder / "index.html"]
        while waiting:
            path = waiting.pop()
            if path in found or path not in self.pages:
                continue
            found.add(path)
            page = self.pages[path]
            links = [x for x in page.links if not re.match(r"[a-z]+:", x)]
            waiting += [self.target(page, link)[0] for link in links]
        return found


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, str(SCRIPTS / "build_docs.py"), "-o", str(folder)]
    path = os.pathsep.join([str(REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr
    return Site(folder)


def test_links_and_anchors_lead_somewhere(site):
    assert len(site.pages) > 50
    assert site.broken() == []


def test_every_page_can_be_reached(site):
    assert set(site.pages) - site.reached() == {site.folder / "404.html"}


def test_nothing_is_loaded_from_elsewhere(site):
    outside = {x for page in site.pages.values() for x in page.loaded if EXTERNAL.match(x)}
    assert outside == set()
    styles = [p for p in site.folder.rglob("*.css") if "stylesheets" not in p.parts]
    assert len(styles) == 2
    for style in styles:
        for url in re.findall(r"url\(([^)]+\.woff2)\)", style.read_text(encoding="utf-8")):
            assert (style.parent / url).is_file(), url


def test_control_a_broken_link_an_anchor_and_a_foreign_script_are_seen(tmp_path):
    (tmp_path / "index.html").write_text(
        '<h1 id="here"></h1><a href="gone.html">x</a><a href="#there">y</a><a href="#here">z</a>'
        '<script src="https://example.com/x.js"></script>'
    )
    small = Site(tmp_path)
    assert sorted(small.broken()) == [("index.html", "#there"), ("index.html", "gone.html")]
    assert any(EXTERNAL.match(x) for x in small.pages[tmp_path / "index.html"].loaded)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[x](gone.md)", "page does not exist"),
        ("[x](index.md#gone)", "anchor does not exist"),
        ("::: reldp.errors.Gone", "Gone"),
    ],
)
def test_control_the_build_is_strict(tmp_path, text, problem):
    config = (REPOSITORY / "zensical.toml").read_text(encoding="utf-8")
    small = re.sub(r"nav = \[\n.*?\n\]\n", "", config, flags=re.DOTALL)
    (tmp_path / "zensical.toml").write_text(small)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Small\n\n{text}\n")
    path = os.pathsep.join([str(REPOSITORY / "src"), str(SCRIPTS)])
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert problem in done.stdout + done.stderr


def all_of(path):
    """`__all__` of a module, or None."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return None


def test_every_public_name_is_in_the_reference(site):
    source = REPOSITORY / "src" / "reldp"
    anchors = {
        a for path, page in site.pages.items() for a in page.anchors if "reference" in path.parts
    }
    packages = [
        *source.glob("*/__init__.py"),
        *source.glob("*/*/__init__.py"),
        source / "errors.py",
    ]
    names = set()
    for path in packages:
        module = ".".join(path.relative_to(source.parent).with_suffix("").parts)
        names |= {f"{module.removesuffix('.__init__')}.{name}" for name in all_of(path) or ()}
    assert len(names) > 80
    recipes = {name for name in names if name.startswith("reldp.graph.recipes")}
    assert names - recipes - anchors == set()
    (index,) = [p for p in site.pages if p.name == "reldp.html"]
    text = index.read_text(encoding="utf-8")
    assert [name for name in reldp.__all__ if f"reldp.{name}" not in text] == []


def test_every_command_and_option_is_in_the_reference(site):
    import click

    from reldp.cli.main import COMMANDS

    text = (site.folder / "reference" / "commands.html").read_text(encoding="utf-8")
    count = 0
    for name in COMMANDS:
        command = importlib.import_module(f"reldp.cli.{name}").command
        parts = {
            name: command,
            **{f"{name} {n}": c for n, c in getattr(command, "commands", {}).items()},
        }
        for words, part in parts.items():
            assert f'id="reldp-{words.replace(" ", "-")}"' in text
            shown = [p for p in part.params if isinstance(p, click.Option) and not p.hidden]
            missing = [p.opts for p in shown if not any(spelling in text for spelling in p.opts)]
            assert missing == []
            count += len(shown)
    assert count > 150


def test_formulas_are_marked_for_rendering(site):
    theory = site.pages[site.folder / "theory.html"]
    assert "arithmatex" in theory.classes
    text = theory.path.read_text(encoding="utf-8")
    assert text.count('class="arithmatex"') > 500
    assert "assets/katex/katex.min.js" in text


def test_search_has_an_index_that_pages_opened_from_a_folder_can_read(site):
    text = (site.folder / "search.js").read_text(encoding="utf-8")
    assert "frequency" in text
    assert "PrivacyPlan" in text


@pytest.mark.parametrize("name", ["build_docs", "reference_pages", "doctest_blocks"])
def test_examples_of_the_scripts_are_true(name, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    module = importlib.import_module(name)
    result = doctest.testmod(module)
    assert result.attempted
    assert result.failed == 0
