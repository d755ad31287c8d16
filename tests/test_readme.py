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
SHELL = [line for language, text in BLOCKS if language == "" for line in text.splitlines()]
COMMANDS = [line for line in SHELL if line.startswith("reldp ")]


def rows_below(header):
    """Cells of the table whose header line starts with some words, without bold."""
    lines = README.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(header))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip(" *") for cell in line.strip("|").split("|")])
    return rows


def test_there_is_code_to_run():
    assert PYTHON
    assert {"account", "calibrate", "train"} <= {line.split()[1] for line in COMMANDS}


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
    code = PYTHON[1]
    exec(compile(code, "README.md", "exec"), {"__name__": "readme", "reldp": reldp})
    first, second = capsys.readouterr().out.splitlines()
    noise, epsilon = map(float, first.split())
    assert round(noise, 2) == float(re.search(r"# ([\d.]+) and at most", code).group(1))
    assert epsilon <= float(re.search(r"and at most ([\d.]+)", code).group(1))
    assert second == "proven anchored"


def test_no_code_of_the_readme_is_left_out():
    assert len(PYTHON) == 2


# A graph of a few thousand entities is too small for good private training, which the trainer says.
@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
def test_the_training_command_runs(workplace, capsys):
    (line,) = [line for line in COMMANDS if line.startswith("reldp train ")]
    small = ["--num-steps", "2", "--expected-batch-size", "8", "--num-negatives", "2", "--json"]
    assert main([*shlex.split(line)[1:], *small, "-o", "run"]) == 0
    assert json.loads(capsys.readouterr().out)
    certificate = json.loads((workplace / "run" / "certificate.json").read_text())
    assert certificate["guarantee"]["epsilon"]["pld"] <= 4


@pytest.mark.parametrize("line", [line for line in COMMANDS if " train " not in line])
def test_the_commands_run(line, capsys):
    assert main(shlex.split(line)[1:]) == 0
    assert capsys.readouterr().out


def test_the_price_table_is_the_demos():
    from reldp.reporting.rule_comparison import compare_rules, paper_plan

    found = {(p.clipping, p.analysis, p.accountant): p for p in compare_rules(paper_plan())}
    rows = rows_below("| [clipping](docs/accounting.md#clipping-rules) | analysis")
    assert len(rows) >= 4
    for clipping, analysis, accountant, epsilon, status in rows:
        price = found[clipping, analysis, accountant]
        # Rounded up to two decimals, and not by more.
        assert price.epsilon <= float(epsilon) < price.epsilon + 0.0101
        assert status.startswith(price.status)


def test_the_privacy_officers_page_explains_every_json_key(capsys):
    text = (REPOSITORY / "docs" / "accounting.md").read_text()
    command = re.search(r"\$ (reldp account .*--json)", text.replace("\\\n", " ")).group(1)
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
