import json
from pathlib import Path

import pytest

from reldp.cli.main import main
from reldp.graph import EntityGraph
from reldp.graph.recipes import debian, wordnet
from tests.graph.recipes.sources import write_dict, write_lists, write_wordnet_deb


def test_wordnet_from_a_dict_folder_writes_a_graph_with_its_notice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_dict(tmp_path / "dict")
    out = tmp_path / "graph"
    assert main(["prepare", "wordnet", "--source", str(source), "-o", str(out)]) == 0
    assert EntityGraph.read(out).num_relations == 4
    assert "Princeton University" in (out / "NOTICE.txt").read_text()
    printed = capsys.readouterr().out
    assert "5 entities, 4 relations" in printed
    assert "1 of 6 synsets" in printed
    assert "reldp inspect" in printed


def test_wordnet_takes_parts_domains_and_the_debian_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_wordnet_deb(tmp_path / "wordnet-base.deb")
    common = ["prepare", "wordnet", "--source", str(source), "--json"]
    assert main([*common, "--part", "verb", "--part", "noun", "-o", str(tmp_path / "a")]) == 0
    assert json.loads(capsys.readouterr().out)["num_relations"] == 6
    assert main([*common, "--domain", "noun.animal", "-o", str(tmp_path / "b")]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["num_entities"], printed["num_relations"]) == (4, 3)
    assert printed["record"]["source"] == "Debian wordnet-base 1:3.0-37"


def test_wordnet_uses_the_installed_dict_or_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wordnet, "INSTALLED", tmp_path / "dict")
    assert main(["prepare", "wordnet", "-o", str(tmp_path / "graph")]) == 2
    assert "Use --download to download it" in capsys.readouterr().err
    write_dict(tmp_path / "dict")
    assert main(["prepare", "wordnet", "-o", str(tmp_path / "graph")]) == 0


def test_debian_reads_lists_and_asks_for_long_descriptions_if_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(debian, "APT_LISTS", write_lists(tmp_path / "machine"))
    assert main(["prepare", "debian", "-o", str(tmp_path / "a"), "--hub-degree", "3"]) == 0
    printed = capsys.readouterr()
    assert "3 entities, 2 relations" in printed.out
    assert "1 hub packages" in printed.out
    assert printed.err == ""
    short = write_lists(tmp_path / "short", translations=False)
    arguments = ["--source", str(short), "--hub-degree", "0", "--domain", "sound", "--json"]
    assert main(["prepare", "debian", "-o", str(tmp_path / "b"), *arguments]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["record"]["drops"] == {"packages_of_other_sections": 4}
    assert "--download" in printed.err


def test_pairs_says_what_an_entity_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "train.jsonl"
    source.write_text('{"q_text": "a", "k_text": "b", "from": 1, "to": 2}\n')
    common = ["prepare", "pairs", str(source), "-o"]
    assert main([*common, str(tmp_path / "text"), "--license", "CC0-1.0"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "identical text is one entity" in printed
    assert "CC0-1.0" in printed
    assert main([*common, str(tmp_path / "ids"), "--id-fields", "from", "to"]) == 0
    assert EntityGraph.read(tmp_path / "ids").ids.to_pylist() == ["1", "2"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["wordnet"], "--output"),
        (["wordnet", "-o", "new", "--source", "nowhere"], "--source must be a folder or a .deb"),
        (["wordnet", "-o", "new", "--source", "mine.txt"], "not an ar file"),
        (["wordnet", "-o", "new", "--source", "dict", "--download"], "--source and --download"),
        (["wordnet", "-o", "new", "--source", "dict", "--part", "nouns"], "--part must be one of"),
        (["wordnet", "-o", "dict", "--source", "dict"], "--output must be a new or empty folder"),
        (["debian", "-o", "new", "--source", "nowhere"], "apt-get update"),
        (["debian", "-o", "new", "--source", "dict"], "package lists"),
        (["pairs", "-o", "new"], "FILES"),
        (["pairs", "-o", "new", "nowhere.jsonl"], "nowhere.jsonl"),
        (["pairs", "-o", "new", "mine.txt"], "mine.txt, line 1 must be one JSON object"),
        (["nonsense"], "nonsense"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_dict(tmp_path / "dict")
    (tmp_path / "mine.txt").write_text("not a source\n")
    assert main(["prepare", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert printed.err.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_without_a_recipe_the_recipes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prepare"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("wordnet", "debian", "pairs"))
