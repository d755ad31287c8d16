"""docs/data.md: the commands about products and papers run as written, on small files of the published forms."""

import gzip
import re
import shlex
from pathlib import Path

import pytest
from benchmarks.experiments.paper_models import MODELS
from benchmarks.experiments.paper_suite import DIRECTIONS

from reldp.cli.main import main
from tests.graph.recipes.records import PAPERS, PRODUCTS_2014, write_2014, write_lines

PAGE = (Path(__file__).parents[1] / "docs" / "data.md").read_text()
COMMANDS = re.findall(r"^reldp (prepare (?:amazon|mag) .+)$", PAGE, flags=re.MULTILINE)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    bikes = [line.replace("'also_bought'", "'also_viewed'") for line in PRODUCTS_2014[:2]]
    (tmp_path / "metadata.json.gz").write_bytes(gzip.compress("\n".join(bikes).encode()))
    for name in ("Sports_and_Outdoors", "Clothing_Shoes_and_Jewelry"):
        write_2014(tmp_path / f"meta_{name}.json.gz")
    write_2014(tmp_path / "meta.json")
    write_lines(tmp_path / "papers.jsonl.gz", *PAPERS)
    return tmp_path


def test_the_commands_make_the_graphs_that_the_suite_reads(files, capsys):
    assert len(COMMANDS) == 5
    for command in COMMANDS:
        assert main(shlex.split(command)) == 0
    assert capsys.readouterr().err == ""
    assert {path.name for path in files.iterdir() if path.is_dir()} == {
        *(direction.train for direction in DIRECTIONS), "bikes",
    }  # fmt: skip


def test_what_inspect_shows_is_on_the_page(files, capsys):
    block = PAGE.partition("\n$ reldp ")[2].partition("\n...\n```")[0]
    prepare, inspect, shown = re.split(r"\n\$ reldp |\n", block, maxsplit=2)
    assert main(shlex.split(prepare)) == 0
    capsys.readouterr()
    assert main(shlex.split(inspect)) == 0
    printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    assert printed.startswith(shown)


def test_every_count_of_the_recipes_is_explained_on_the_page():
    source = Path(__file__).parents[1] / "src" / "reldp" / "graph" / "recipes"
    code = "".join(
        (source / f"{n}.py").read_text() for n in ("amazon", "mag", "gathering", "record_lines")
    )
    kinds = set(re.findall(r'drops\["(\w+)"\]|_count\("(\w+)"', code))
    names = {one or other for one, other in kinds}
    names |= {f"records_of_{kind}" for kind in re.findall(r'"(\w+_countries)"', code)}
    assert len(names) == 14
    assert [name for name in sorted(names) if f"`{name}`" not in PAGE] == []


def test_there_is_one_command_per_model():
    commands = re.findall(r"--suite paper .*--model (\S+)", PAGE)
    assert commands == list(MODELS)
    assert "**The full run has not been made here.**" in PAGE
