"""``reldp theory`` shows the page that certificates cite, from a checkout and from an installed wheel."""

import json
import tomllib
from pathlib import Path

import pytest

from reldp.cli.main import main
from reldp.cli.theory import page_path, sections
from reldp.errors import InputError

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "theory.md"


def shown(capsys, *arguments):
    assert main(["theory", *arguments]) == 0
    return capsys.readouterr().out


def test_the_whole_page_is_printed_when_nobody_sits_at_a_terminal(capsys):
    assert shown(capsys).strip() == PAGE.read_text(encoding="utf-8").strip()


def test_one_section_is_printed_without_the_next(capsys):
    text = shown(capsys, "3.2")
    assert text.startswith("### 3.2 ")
    assert "Theorem A" in text
    assert "### 3.3" not in text


def test_a_section_holds_its_subsections(capsys):
    text = shown(capsys, "2")
    assert all(f"### 2.{part} " in text for part in (1, 2, 3, 4))
    assert "## 3. " not in text


def test_the_references_can_be_asked_for(capsys):
    assert "arXiv:2310.15526" in shown(capsys, "References")


def test_the_path_leads_to_the_page(capsys):
    assert Path(shown(capsys, "--path").strip()).read_bytes() == PAGE.read_bytes()


def test_json_is_one_object(capsys):
    printed = json.loads(shown(capsys, "2.2", "--json"))
    assert printed["section"] == "2.2"
    assert printed["text"].startswith("### 2.2 ")


@pytest.mark.parametrize("section", ["9.9", "3.2.1", " ", "\x1b[31m"])
def test_a_section_that_does_not_exist_is_one_line_with_those_that_do(capsys, section):
    assert main(["theory", section]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "\x1b" not in line
    assert "3.2" in line


def test_an_installed_package_uses_its_own_copy_and_a_checkout_its_docs(tmp_path):
    installed = tmp_path / "site-packages" / "reldp"
    (installed / "docs").mkdir(parents=True)
    (installed / "docs" / "theory.md").write_text("installed")
    assert page_path(installed).read_text() == "installed"
    checkout = tmp_path / "checkout"
    (checkout / "src" / "reldp").mkdir(parents=True)
    (checkout / "docs").mkdir()
    (checkout / "docs" / "theory.md").write_text("checkout")
    assert page_path(checkout / "src" / "reldp").read_text() == "checkout"


def test_a_broken_installation_says_so(tmp_path):
    with pytest.raises(InputError, match="Install reldp again"):
        page_path(tmp_path / "lib" / "reldp")


def test_the_wheel_carries_the_page_where_the_command_looks():
    build = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"]["force-include"] == {"docs/theory.md": "reldp/docs/theory.md"}
    assert "docs" in build["targets"]["sdist"]["include"]  # wheels are built from source archives


def test_sections_end_where_one_of_their_level_begins():
    page = "# T\n## 1. A\na\n### 1.1 B\nb\n### 1.2 C\nc\n## 2. D\nd\n## References\nr\n"
    printed = sections(page)
    assert list(printed) == ["1", "1.1", "1.2", "2", "references"]
    assert printed["1"] == "## 1. A\na\n### 1.1 B\nb\n### 1.2 C\nc\n"
    assert printed["1.2"] == "### 1.2 C\nc\n"
