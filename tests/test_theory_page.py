"""docs/theory.md: every citation of it resolves, and every test that it names exists."""

import ast
import re
from pathlib import Path

import pytest

from reldp.cli.theory import sections

REPOSITORY = Path(__file__).parents[1]
PAGE = (REPOSITORY / "docs" / "theory.md").read_text(encoding="utf-8")
SECTIONS = sections(PAGE)
CITING = ("src", "docs", "tests", "benchmarks", "examples", "scripts")
SUFFIXES = {".py", ".md", ".toml", ".json", ".sh"}

_NUMBER = r"\d+(?:\.\d+)*"
_CITATION = re.compile(
    rf"theory\.md[)`]?,? (?:sections? )?({_NUMBER}(?:(?:, and |, | and | to ){_NUMBER})*)"
)
_BY_COMMAND = re.compile(rf"reldp theory ({_NUMBER})")


def cited_in(text):
    """Numbers of all sections of theory.md that a text cites, also across lines of comments and strings."""
    # Ends of lines inside docstrings, comments and adjacent string literals.
    text = re.sub(r"""["']?\s*\n\s*(?:# |f?["'](?!["']))?""", " ", text)
    text = re.sub(r" +", " ", text)
    found = [re.findall(_NUMBER, numbers) for numbers in _CITATION.findall(text)]
    return [number for numbers in found for number in numbers] + _BY_COMMAND.findall(text)


def files():
    for folder in CITING:
        for path in sorted((REPOSITORY / folder).rglob("*")):
            if path.suffix in SUFFIXES and path != Path(__file__):
                yield path
    yield from sorted(REPOSITORY.glob("*.md"))


def unresolved(texts):
    """(name, section) of every citation of a section that the page does not have."""
    return [(name, s) for name, text in texts for s in cited_in(text) if s not in SECTIONS]


def test_every_cited_section_exists():
    texts = [(str(p.relative_to(REPOSITORY)), p.read_text(encoding="utf-8")) for p in files()]
    assert unresolved(texts) == []
    cited = [s for name, text in texts if name.startswith("src") for s in cited_in(text)]
    assert len(cited) >= 50, "the pattern of citations no longer finds them"
    assert {"1", "2", "2.1", "2.2", "2.3", "3", "3.1", "3.2", "3.3", "3.4", "6"} <= set(cited)


def test_citations_have_one_form():
    long_form = re.compile(r"theory\.md\s+(?:# )?sections?\s+(?:# )?\d")
    texts = [
        (str(p.relative_to(REPOSITORY)), p.read_text(encoding="utf-8"))
        for p in files()
        if p.relative_to(REPOSITORY).parts[0] in ("src", "docs")
    ]
    assert [name for name, text in texts if long_form.search(text)] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("as in theory.md 9.9.", ["9.9"]),
        ("(theory.md section 7)", ["7"]),
        ("theory.md sections 1, 2.7 and 3", ["1", "2.7", "3"]),
        ("theory.md 3.1 and 3.2 both", ["3.1", "3.2"]),
        ("theory.md sections 1 to 8", ["1", "8"]),
        ("    # see theory.md section\n    # 2.9 for why", ["2.9"]),
        ('"rests on a claim (theory.md "\n        "2.8). Do not"', ["2.8"]),
        ("[theory.md](theory.md) 4.4", ["4.4"]),
        ("theory.md section 5 says 0.47", ["5"]),
        ("theory.md section 1, step 5", ["1"]),
        ("try `reldp theory 3.9`", ["3.9"]),
    ],
)
def test_control_citations_are_recognized_however_they_are_written(text, expected):
    assert cited_in(text) == expected
    assert [s for _, s in unresolved([("control", text)])] == [
        s for s in expected if s not in SECTIONS
    ]


def test_section_numbers_are_those_that_certificates_cite():
    expected = [
        "1",
        "2",
        "2.1",
        "2.2",
        "2.3",
        "2.4",
        "2.5",
        "2.6",
        "3",
        "3.1",
        "3.2",
        "3.3",
        "3.4",
        "3.5",
        "3.6",
        "4",
        "5",
        "6",
    ]
    assert list(SECTIONS) == [*expected, "references"]


def defined_tests(path):
    """Names of the test functions of a file, those of its classes included."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {n.name for n in nodes if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")}


def missing_tests(text):
    """Every test file, or test in a file, that a text names and that does not exist."""
    missing = []
    for name in sorted(set(re.findall(r"`(tests/[\w/.:]+)`", text))):
        file, _, test = name.partition("::")
        path = REPOSITORY / file
        if not path.is_file() or (test and test not in defined_tests(path)):
            missing.append(name)
    return missing


def test_every_test_that_the_page_names_exists():
    assert len(set(re.findall(r"`(tests/[\w/.]+)", PAGE))) >= 15
    assert missing_tests(PAGE) == []


@pytest.mark.parametrize(
    "name",
    ["tests/test_nothing.py", "tests/test_plan.py::test_nothing", "tests/nowhere/x.py::test_y"],
)
def test_control_a_test_that_does_not_exist_is_missed(name):
    assert missing_tests(f"see `{name}`") == [name]


def test_every_result_names_a_test_that_tries_to_refute_it_and_a_control():
    results = re.findall(r"^> \*\*((?:Theorem|Lemma|Proposition) \w+)", PAGE, re.MULTILINE)
    assert len(results) == len(set(results)) >= 8
    rows = re.findall(r"^\| ([\w ]+) \| (`.+?`) \| (`.+?`) \|$", SECTIONS["4"], re.MULTILINE)
    table = {name: (tests, control) for name, tests, control in rows}
    assert set(results) <= set(table)
    for tests, control in table.values():
        assert "::test_" in tests
        assert "::test_" in control
        assert control not in tests


def test_every_section_with_a_proof_names_its_tests():
    proven = [n for n, text in SECTIONS.items() if n.count(".") and "*Proof" in text]
    assert proven == ["2.3", "2.4", "2.5", "2.6", "3.1", "3.2", "3.6"]
    lemmas = SECTIONS["3"].split("### 3.1")[0]
    for text in [lemmas, *(SECTIONS[number] for number in proven)]:
        assert text.count("*Tests.*") >= 1
        assert text.count(r"$\blacksquare$") == text.count("*Proof.*")


def test_links_and_references_of_the_page_resolve():
    links = re.findall(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)", PAGE)
    assert links
    assert all((REPOSITORY / "docs" / link).is_file() for link in links)
    references = set(re.findall(r"^(\d+)\. ", SECTIONS["references"], re.MULTILINE))
    cited = {n for group in re.findall(r"\[\[([\d, ]+)\]\]", PAGE) for n in group.split(", ")}
    assert cited == references


def test_formulas_are_closed_and_avoid_what_github_cannot_show():
    for paragraph in re.sub(r"`[^`]*`", "", PAGE).split("\n\n"):
        assert paragraph.count("$") % 2 == 0, paragraph
    formulas = re.findall(r"\$\$?([^$]+)\$\$?", PAGE)
    assert len(formulas) > 200
    for formula in formulas:
        assert formula.count("{") == formula.count("}"), formula
        assert len(re.findall(r"\\left\b", formula)) == len(re.findall(r"\\right\b", formula)), (
            formula
        )
    # Markdown eats a backslash before punctuation inside of formulas.
    assert [f for f in formulas if re.search(r"\\[^A-Za-z ]", f)] == []


def test_no_line_of_a_paragraph_turns_into_a_list_item():
    numbers = [int(n) for n in re.findall(r"^>? ?(\d+)\. ", PAGE, re.MULTILINE)]
    assert numbers == [*range(1, 6), *range(1, 19)]  # the steps of section 1, and the references
