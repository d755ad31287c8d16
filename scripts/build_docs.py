"""Build the documentation site: collect the pages, generate the reference, and run the site generator strictly.

    python scripts/build_docs.py -o site

Pages of `docs/` are taken as they are. Generated beside them: the reference of all public names (by mkdocstrings, from
docstrings), the reference of all commands (from click), one page for every example and notebook. Links that leave
`docs/` are rewritten to those pages. The build fails on any warning, such as a link to a page or heading that does not
exist. Nothing is loaded from a network, neither by the build nor by the pages.

>>> relative_link("examples/custom_loop.md", "docs/training.md")
'../examples/custom_loop.md'
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from reference_pages import command_page, python_pages

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
NOTEBOOKS = REPOSITORY / "examples" / "notebooks"
EXAMPLES = REPOSITORY / "examples"
_BUTTON = re.compile(r"^(\[[^]]+\]\([^)]+\))$", flags=re.MULTILINE)  # a link alone on its line
_LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")


def relative_link(target: str, page: str) -> str:
    """Return a link from one page to another, both relative to the same folder."""
    return PurePosixPath(os.path.relpath(target, PurePosixPath(page).parent)).as_posix()


def place_of(path: str) -> str:
    """Return the page, or the file, that stands for a file of the repository on the site.

    >>> place_of("examples/custom_loop.py"), place_of("docs/graphs.md"), place_of("README.md")
    ('examples/custom_loop.md', 'graphs.md', 'index.md')
    """
    if path == "README.md":
        return "index.md"
    if path in PROJECT_PAGES:
        return path.lower()
    if path in ("examples", "examples/notebooks"):
        return f"{path.rpartition('/')[2]}/index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.startswith("examples/notebooks/"):
        return path.removeprefix("examples/").replace(".ipynb", ".md")
    if path.endswith(".py"):
        return f"{path.removesuffix('.py')}.md"
    return f"files/{path}"


class Collection:
    """The folder in which the pages of the site are collected."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, place: str, text: str) -> None:
        """Write a page."""
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def add_page(self, source: Path) -> None:
        """Add a page of the repository, with its links rewritten."""
        name = source.relative_to(REPOSITORY).as_posix()
        place = place_of(name)

        def rewritten(match: re.Match[str]) -> str:
            target, anchor = match.group(1), match.group(2) or ""
            if re.match(r"\w+:", target):
                return match.group()
            path = Path(os.path.normpath(source.parent / target)).relative_to(REPOSITORY).as_posix()
            return f"]({relative_link(self._provide(path), place)}{anchor})"

        text = _LINK.sub(rewritten, source.read_text(encoding="utf-8"))
        self.add(place, _BUTTON.sub(r"\1{ .md-button }", text))

    def _provide(self, path: str) -> str:
        """Return the place of a file that a page links to; add it if no other step does."""
        place, source = place_of(path), REPOSITORY / path
        if place.startswith("files/"):
            (self.folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, self.folder / place)
        elif path.endswith(".py"):
            self.add(place, code_page(source))
        return place


def docstring_of(code: str) -> str:
    """Return the docstring of a module, without its examples.

    >>> docstring_of('"' * 3 + "Count slowly. >>> 1" + '"' * 3)
    'Count slowly. >>> 1'
    """
    match = re.search(r'^"""(.*?)"""', code, flags=re.DOTALL | re.MULTILINE)
    return match.group(1).partition("\n>>> ")[0].strip() if match else ""


def code_page(source: Path) -> str:
    """Return a page that shows a Python file."""
    code = source.read_text(encoding="utf-8")
    return f"# {source.name}\n\n{docstring_of(code)}\n\n```python\n{code}```\n"


def notebook_page(source: Path) -> str:
    """Return a page with the cells of a notebook, which is stored without outputs."""
    parts = []
    for cell in json.loads(source.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    note = f"*This page is the notebook `examples/notebooks/{source.name}`, without outputs.*"
    return "\n\n".join([parts[0], note, *parts[1:]]) + "\n"


def title_of(page: str) -> str:
    """Return the title of a page."""
    return page.partition("\n")[0].removeprefix("# ")


def listed(pages: dict[str, str]) -> Iterator[str]:
    """Lines of a list of pages with the first sentence after the title of each."""
    for place, page in pages.items():
        first = page.split("\n\n")[1].replace("\n", " ")
        yield f"* [{title_of(page)}]({PurePosixPath(place).name}): {first}"


def collect(folder: Path) -> None:
    """Write all pages of the site into a folder."""
    collection = Collection(folder)
    for source in sorted((REPOSITORY / "docs").rglob("*")):
        if not source.is_file() or source.name == "README.md":
            continue
        if source.suffix == ".md":
            collection.add_page(source)
        else:
            target = folder / source.relative_to(REPOSITORY / "docs")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    for name in PROJECT_PAGES:
        collection.add_page(REPOSITORY / name)
    groups = {
        "examples": {f"examples/{p.stem}.md": code_page(p) for p in sorted(EXAMPLES.glob("*.py"))},
        "notebooks": {
            f"notebooks/{p.stem}.md": notebook_page(p) for p in sorted(NOTEBOOKS.glob("*.ipynb"))
        },
    }
    for name, pages in groups.items():
        head = f"# {name.capitalize()}\n\nFiles of the folder `{place_words(name)}`:\n\n"
        collection.add(f"{name}/index.md", head + "\n".join(listed(pages)) + "\n")
        for place, page in pages.items():
            collection.add(place, page)
    for place, page in {**python_pages(), "reference/commands.md": command_page()}.items():
        collection.add(place, page)


def place_words(name: str) -> str:
    """Return the folder of the repository that a group of pages shows."""
    return "examples" if name == "examples" else f"examples/{name}"


def build(output: Path) -> int:
    """Build the site into a folder, which is replaced; return the exit code of the generator."""
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        shutil.copy(REPOSITORY / "zensical.toml", work)
        collect(work / "docs")
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
        # Docstrings are read from the first folder, and the extension that formats them from the second.
        path = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY / "scripts")])
        environment = {**os.environ, "PYTHONPATH": path, "NO_COLOR": "1"}
        code = subprocess.run(command, cwd=work, env=environment, check=False).returncode
        if code == 0:
            shutil.rmtree(output, ignore_errors=True)
            shutil.copytree(work / "site", output)
    return code


def main() -> int:
    """Build the site where the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=REPOSITORY / "site")
    return build(parser.parse_args().output)


if __name__ == "__main__":
    sys.exit(main())
