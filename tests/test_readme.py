"""Everything the README says that a program can check."""

import json
import re
import shlex
from pathlib import Path

import pytest

import reldp
from reldp.cli.main import main

REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
PYTHON = [code for language, code in BLOCKS if language == "python"]
SHELL = [line for language, text in BLOCKS if language == "sh" for line in text.splitlines()]
COMMANDS = [line for line in SHELL if line.startswith("reldp ")]


ACCOUNTING = (REPOSITORY / "docs" / "accounting.md").read_text()


def rows_below(header):
    """Cells of the table of accounting.md whose header line starts with some words, without bold."""
    lines = ACCOUNTING.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(header))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip(" *") for cell in line.strip("|").split("|")])
    return rows


def test_there_is_code_to_run():
    assert len(PYTHON) == 1
    assert [line.split()[1] for line in COMMANDS] == ["train", "verify"]


def test_the_landing_page_and_the_first_run_have_the_same_lines():
    for name in ("index.md", "first-run.md"):
        text = (REPOSITORY / "docs" / name).read_text()
        assert f"```python\n{PYTHON[0]}```" in text
    lines = [line for line in PYTHON[0].splitlines() if line.strip()]
    assert len(lines) == 1 + 12  # and the import


def numbers(text):
    """Percentages of a text, without their sign."""
    return re.findall(r"(\d+\.\d) %", text)


def test_numbers_about_quality_are_those_of_the_benchmarks():
    block = README.partition("<!-- begin numbers -->\n")[2].partition("<!-- end numbers -->")[0]
    rest = README.replace(block, "")
    assert len(numbers(block)) >= 3
    assert numbers(rest) == [], "numbers stand in one block, which is replaced with the benchmarks"
    benchmarks = (REPOSITORY / "docs" / "benchmarks.md").read_text()
    assert [number for number in numbers(block) if number not in benchmarks] == []


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder where the names in the README are small: folders win over bundled names and the hub.

    The code runs as it stands; only what it reads is a small graph and a tiny BERT.
    """
    from reldp.graph import EntityGraph
    from tests.encoders.tiny import write_model

    monkeypatch.chdir(tmp_path)
    write_model("bert", tmp_path / "sentence-transformers" / "all-MiniLM-L6-v2")
    for name, size in (("wordnet-nouns", 3000), ("wordnet-verbs", 600)):
        text = [f"the {i % 7} cat sees {i % 5} dog" for i in range(size)]
        ring = [(i, (i + 1) % size) for i in range(size)]
        EntityGraph.from_lists(list(range(size)), ring, text=text).write(tmp_path / name)
    return tmp_path


# A graph of a few thousand entities is too small for good private training, which the trainer says.
@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
def test_the_training_example_runs(workplace, capsys):
    exec(compile(PYTHON[0], "README.md", "exec"), {"__name__": "readme"})
    printed = capsys.readouterr().out
    before, summary, after = printed.splitlines()
    assert "mrr" in before
    assert summary.startswith("Proven, under the assumptions of the certificate: (")
    assert "mrr" in after
    assert (workplace / "python-run" / "certificate.json").exists()


def test_the_pricing_example_prints_what_it_says(capsys):
    (code,) = re.findall(r"^```python\n(.*?)^```$", ACCOUNTING, flags=re.MULTILINE | re.DOTALL)
    exec(compile(code, "accounting.md", "exec"), {"__name__": "page"})
    first, second = capsys.readouterr().out.splitlines()
    noise, epsilon = map(float, first.split())
    assert round(noise, 2) == float(re.search(r"# ([\d.]+) and at most", code).group(1))
    assert epsilon <= float(re.search(r"and at most ([\d.]+)", code).group(1))
    assert second == "proven anchored"


# A graph of a few thousand entities is too small for good private training, which the trainer says.
@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
def test_the_training_command_runs(workplace, capsys):
    (line,) = [line for line in COMMANDS if line.startswith("reldp train ")]
    small = ["--num-steps", "2", "--expected-batch-size", "8", "--num-negatives", "2", "--json"]
    assert main([*shlex.split(line)[1:], *small, "-o", "run"]) == 0
    assert json.loads(capsys.readouterr().out)
    certificate = json.loads((workplace / "run" / "certificate.json").read_text())
    assert main(["verify", "run"]) == 0
    assert certificate["guarantee"]["epsilon"]["pld"] <= 4


def test_the_table_of_rules_is_the_demos():
    from reldp.reporting.rule_comparison import compare_rules, paper_plan

    found = {(p.clipping, p.analysis, p.accountant): p for p in compare_rules(paper_plan())}
    rows = rows_below("| [clipping](#clipping-rules) | analysis")
    assert len(rows) >= 4
    for clipping, analysis, accountant, epsilon, status in rows:
        price = found[clipping, analysis, accountant]
        # Rounded up to two decimals, and not by more.
        assert price.epsilon <= float(epsilon) < price.epsilon + 0.0101
        assert status.startswith(price.status)


def test_the_privacy_officers_page_explains_every_json_key(capsys):
    text = ACCOUNTING
    command = re.search(
        r"^(reldp account .*--json)$", text.replace("\\\n", " "), re.MULTILINE
    ).group(1)
    assert main(shlex.split(command)[1:]) == 0
    answer = json.loads(capsys.readouterr().out)
    explained = text.partition("## Reading the output")[2]
    for key in answer:
        assert key == "delta" or f"`{key}`" in explained


def test_the_other_pages_are_there_and_agree_on_the_version():
    changes = (REPOSITORY / "CHANGELOG.md").read_text()
    citation = (REPOSITORY / "CITATION.cff").read_text()
    assert "### Privacy" in changes
    assert f"## [{reldp.__version__}]" in changes
    assert f"version: {reldp.__version__}\n" in citation
