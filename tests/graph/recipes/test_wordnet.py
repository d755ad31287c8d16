from pathlib import Path

import pytest

from reldp.errors import GraphError, InputError
from reldp.graph.recipes import wordnet as module
from reldp.graph.recipes.wordnet import (
    WordNetSource,
    download_package,
    read_dict,
    read_package,
    wordnet,
)
from tests.graph.recipes.sources import (
    HEADER,
    data_file,
    wordnet_files,
    write_dict,
    write_wordnet_deb,
)

SOURCE = WordNetSource(name="test", files=wordnet_files())


def _pairs(table: object) -> list[tuple[str, str]]:
    columns = table.to_pydict()  # type: ignore[attr-defined]
    return list(zip(columns["source"], columns["target"], strict=True))


def test_relations_are_pointers_with_directions_merged_and_word_links_left_out() -> None:
    made = wordnet(SOURCE, parts=["noun"])
    assert _pairs(made.relations) == [
        ("n00000100", "n00000200"),
        ("n00000200", "n00000300"),
        ("n00000200", "n00000400"),
        ("n00000300", "n00000500"),
    ]


def test_a_synset_without_relation_is_no_entity_and_the_record_says_how_many() -> None:
    made = wordnet(SOURCE, parts=["noun"])
    assert "n00000600" not in made.entities["id"].to_pylist()
    assert any(note.startswith("1 of 6 synsets have no relation") for note in made.record.notes)


def test_text_is_up_to_four_words_and_the_gloss() -> None:
    texts = dict(
        zip(*wordnet(SOURCE).entities.select(["id", "text"]).to_pydict().values(), strict=True)
    )
    assert texts["n00000300"] == (
        "dog, domestic dog, Canis familiaris, pooch: a member of the genus Canis"
    )
    assert texts["n00000200"] == 'canine, canid: any of various fissiped mammals; "a canine tooth"'


def test_relations_across_parts_need_both_parts() -> None:
    alone = _pairs(wordnet(SOURCE, parts=["verb"]).relations)
    both = _pairs(wordnet(SOURCE, parts=["verb", "noun"]).relations)
    assert alone == [("v00000900", "v00000950")]
    assert set(both) - set(alone) - set(_pairs(wordnet(SOURCE).relations)) == {
        ("n00000100", "v00000900")
    }


def test_adjectives_lose_their_position_marks_and_satellites_are_adjectives() -> None:
    made = wordnet(SOURCE, parts=["adjective"])
    assert made.entities["text"].to_pylist() == [
        "plenty: existing in abundance",
        "galore, abundant: in great numbers",
    ]
    assert _pairs(made.relations) == [("a00000010", "a00000020")]


def test_a_domain_is_a_lexicographer_file() -> None:
    made = wordnet(SOURCE, domains=["noun.animal"])
    assert made.entities["id"].to_pylist() == ["n00000200", "n00000300", "n00000400", "n00000500"]
    assert set(made.entities["domain"].to_pylist()) == {"noun.animal"}


def test_the_notice_is_princetons_own_words_and_gives_the_version() -> None:
    assert SOURCE.notice.startswith(
        "This software and database is being provided to you, the LICENSEE"
    )
    assert "WordNet 3.0 Copyright 2006" in SOURCE.notice
    assert wordnet(SOURCE).notice == SOURCE.notice
    assert wordnet(SOURCE).record.version == "WordNet 3.0"


def test_a_dict_folder_and_the_debian_package_give_the_same_graph(tmp_path: Path) -> None:
    from_folder = wordnet(read_dict(write_dict(tmp_path / "dict")))
    from_package = wordnet(read_package(write_wordnet_deb(tmp_path / "wordnet.deb")))
    assert from_folder.entities.equals(from_package.entities)
    assert from_folder.relations.equals(from_package.relations)
    assert from_folder.record.hashes == from_package.record.hashes
    assert from_package.record.source == "Debian wordnet-base 1:3.0-37"
    assert str(tmp_path) not in from_folder.record.to_json()


def test_a_file_without_the_notice_is_refused() -> None:
    bare = WordNetSource(name="bare", files={"data.noun": data_file(())[len(HEADER) :] + b"x"})
    with pytest.raises(GraphError, match="license"):
        _ = bare.version


@pytest.mark.parametrize(
    "line",
    [
        "00000100 03 n 01 animal 0 000",
        "00000100 03 n zz animal 0 000 | gloss",
        "00000100 03 n 01 animal 0 002 ~ 00000200 n 0000 | gloss",
        "00000100 99 n 01 animal 0 000 | gloss",
        "abcdefgh 03 n 01 animal 0 000 | gloss",
        "x | gloss",
    ],
)
def test_a_damaged_line_is_named_by_file_and_number(line: str) -> None:
    files = {"data.noun": (HEADER + line + "\n").encode()}
    with pytest.raises(GraphError, match=r"data\.noun, line 5"):
        wordnet(WordNetSource(name="damaged", files=files))


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    files = {"data.noun": HEADER.encode() + b"\xff"}
    with pytest.raises(GraphError, match="UTF-8"):
        wordnet(WordNetSource(name="damaged", files=files))


def test_wrong_places_and_choices_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="neither"):
        read_dict(tmp_path / "nowhere")
    with pytest.raises(GraphError, match=r"data\.noun"):
        read_dict(tmp_path)
    with pytest.raises(GraphError, match=r"data\.adv"):
        wordnet(SOURCE, parts=["adverb"])
    with pytest.raises(InputError, match="noun, verb, adjective, adverb, got 'nouns'"):
        wordnet(SOURCE, parts=["nouns"])
    with pytest.raises(InputError, match=r"noun\.animal"):
        wordnet(SOURCE, domains=["animals"])
    with pytest.raises(GraphError, match="at least one relation"):
        wordnet(SOURCE, domains=["noun.person"])


def test_downloading_without_apt_or_mirror_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GraphError, match="needs apt-get"):
        download_package()
    apt = tmp_path / "apt-get"
    apt.write_text("#!/bin/sh\necho 'E: Unable to locate package' >&2\nexit 100\n")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(GraphError, match="Unable to locate package"):
        download_package()


def test_downloading_reads_the_package_that_apt_fetched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = write_wordnet_deb(tmp_path / "wordnet-base_3.0_all.deb")
    apt = tmp_path / "apt-get"
    apt.write_text(f"#!/bin/sh\ncp '{package}' .\n")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert download_package().files == wordnet_files()


def test_every_domain_has_its_number() -> None:
    assert len(module.DOMAINS) == 45
    assert (module.DOMAINS[5], module.DOMAINS[20], module.DOMAINS[43]) == (
        "noun.animal",
        "noun.plant",
        "verb.weather",
    )


def test_a_data_file_of_holes_is_refused_by_its_size(tmp_path: Path) -> None:
    folder = write_dict(tmp_path / "dict")
    with (folder / "data.noun").open("wb") as file:
        file.truncate(20 << 30)
    with pytest.raises(GraphError, match=r"at most 268,435,456 bytes in a file, .* in data\.noun"):
        read_dict(folder)
