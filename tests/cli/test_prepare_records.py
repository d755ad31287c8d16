import gzip
import json

import pytest

from reldp.cli.main import main
from reldp.graph import EntityGraph
from tests.graph.recipes.records import PAPERS, write_2014, write_lines


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_2014(tmp_path / "meta.json.gz")
    write_lines(tmp_path / "papers.jsonl", *PAPERS)
    return tmp_path


def test_amazon_writes_a_graph_and_says_what_was_left_out(home, capsys):
    words = ["prepare", "amazon", "meta.json.gz", "--category", "sports", "-o", "new/amaz-sports"]
    assert main(words) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "4 entities, 3 relations" in printed
    assert "Amazon product metadata: Sports & Outdoors; also_buy" in printed
    assert "dropped 2 relations to absent ids" in printed
    assert "dropped 1 records without title" in printed
    assert EntityGraph.read(home / "new" / "amaz-sports").num_relations == 3
    assert sorted(path.name for path in home.iterdir()) == ["meta.json.gz", "new", "papers.jsonl"]


def test_amazon_takes_relations_words_and_a_license(home, capsys):
    words = [
        "prepare",
        "amazon",
        "meta.json.gz",
        "--relation",
        "also_viewed",
        "--relation",
        "bought_together",
    ]
    more = [
        "--max-words",
        "0",
        "--license",
        "by hand",
        "--temp-dir",
        str(home),
        "--json",
        "-o",
        "graph",
    ]
    assert main([*words, *more]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["num_relations"], printed["record"]["license"]) == (2, "by hand")
    assert "Brass Bell" in EntityGraph.read(home / "graph").text([0])


def test_mag_takes_countries_and_authors(home, capsys):
    common = ["prepare", "mag", "papers.jsonl", "--json"]
    for name, more, num_relations in (
        ("usa", ["--country", "USA"], 2), ("china", ["--country", "China", "--authors", "all"], 1), ("all", [], 6),
    ):  # fmt: skip
        assert main([*common, *more, "-o", name]) == 0
        assert json.loads(capsys.readouterr().out)["num_relations"] == num_relations


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["amazon", "-o", "new"], "META"),
        (["amazon", "nowhere.json", "-o", "new"], "nowhere.json must be a file, got none."),
        (["amazon", ".", "-o", "new"], "must be a file, got a folder"),
        (["amazon", "papers.jsonl", "-o", "new"], "papers.jsonl must hold one product per line"),
        (["amazon", "cut.json.gz", "-o", "new"], "must be a whole gzip file"),
        (["amazon", "meta.json.gz", "-o", "full"], "--output must be a new or empty folder"),
        (["amazon", "nowhere.json", "-o", "full"], "--output must be a new or empty folder"),  # before it is read
        (["amazon", "meta.json.gz", "--relation", "also_bougt", "-o", "new"], "Did you mean also_bought?"),
        (["amazon", "meta.json.gz", "--category", "Books", "-o", "new"], "--category must name a category"),
        (["amazon", "meta.json.gz", "--max-words", "-1", "-o", "new"], "--max-words"),
        (["amazon", "meta.json.gz", "--temp-dir", "nowhere", "-o", "new"], "--temp-dir must be a folder"),
        (["mag", "papers.jsonl", "--country", "Atlantis", "-o", "new"], "--country must name a country"),
        (["mag", "papers.jsonl", "--authors", "first", "-o", "new"], "--authors"),
        (["mag", "meta.json.gz", "-o", "new"], "meta.json.gz must hold one paper per line"),
        (["mag", "papers.jsonl", "papers.jsonl", "-o", "new"], "papers.jsonl"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_nothing_is_written(home, capsys, words, said):
    (home / "full").mkdir()
    (home / "full" / "file").touch()
    (home / "cut.json.gz").write_bytes(gzip.compress(b"{'asin': 'B0', 'title': 'x'}\n" * 99)[:-9])
    before = sorted(home.rglob("*"))
    assert main(["prepare", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert sorted(home.rglob("*")) == before
