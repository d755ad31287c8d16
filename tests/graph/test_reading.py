"""Graph folders as people hand them over: every kind that is read, and every kind of damage."""

import gzip
import json
import os
from pathlib import Path

import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.reading import read_files, read_folder, read_record
from tests.graph.folders import ENTITIES, FORMATS, RELATIONS, folder_of, parquet


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_same_graph(kind: str, tmp_path: Path) -> None:
    entities, relations = FORMATS[kind]
    for name, content in (("entities", entities), ("relations", relations)):
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / f"{name}.{kind}").write_bytes(data)
    graph = EntityGraph.read(tmp_path)
    plain = EntityGraph.from_lists(
        ["a", "b", "c"], [("a", "b"), ("b", "c")], text=["first", "second", "third"]
    )
    assert graph == plain
    assert (
        graph.record.source == ""
    )  # a source is published, and the name of a folder may say too much


def test_nodes_and_edges_without_a_header_are_read_and_quotes_are_text(tmp_path: Path) -> None:
    (tmp_path / "nodes.tsv.gz").write_bytes(gzip.compress(b'a\tsays "x\nb\t\xc3\xa9\n'))
    (tmp_path / "edges.tsv.gz").write_bytes(gzip.compress(b"a\tb\n"))
    graph = EntityGraph.read(tmp_path)
    assert graph.text() == ['says "x', "é"]
    assert graph.relations.tolist() == [[0, 1]]


def test_a_bundled_graph_is_read_by_name_unless_a_folder_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert EntityGraph.read("wordnet-verbs").num_entities == 13_639
    Path("wordnet-verbs").mkdir()
    folder_of(Path("wordnet-verbs"))
    assert EntityGraph.read("wordnet-verbs").num_entities == 3


def test_files_in_different_places_are_read(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(ENTITIES)
    (tmp_path / "friends.csv").write_text(RELATIONS)
    graph = EntityGraph.read_files(tmp_path / "people.csv", tmp_path / "friends.csv")
    assert graph.num_relations == 2
    assert graph.record.source == ""


def test_a_text_file_names_integers_of_a_parquet_file_as_they_are_written(tmp_path: Path) -> None:
    folder_of(
        tmp_path,
        entities_parquet=parquet(id=[7, 10], text=["x", "y"]),
        relations_csv="source,target\n7,10\n",
    )
    assert EntityGraph.read(tmp_path).relations.tolist() == [[0, 1]]
    (tmp_path / "relations.csv").write_text("source,target\n07,10\n")
    with pytest.raises(GraphError, match=r"unknown source ids \(line 2\)"):
        EntityGraph.read(tmp_path)


def test_a_record_beside_the_files_is_the_record_of_the_graph(tmp_path: Path) -> None:
    folder_of(tmp_path, record_json=json.dumps({"source": "a shop", "drops": {"unknown_ids": 3}}))
    record = read_folder(tmp_path).record
    assert (record.source, record.drops) == ("a shop", {"unknown_ids": 3})


DROPS: dict[str, tuple[dict[str, str | bytes], dict[str, int], tuple[int, int]]] = {
    # kind: files, the record's counts, entities and relations that are left
    "unknown_ids": ({"relations_csv": RELATIONS + "a,zz\nyy,zz\n"}, {"unknown_ids": 2}, (3, 2)),
    "self_relations": ({"relations_csv": RELATIONS + "c,c\n"}, {"self_relations": 1}, (3, 2)),
    "duplicate_relations": (
        {"relations_csv": RELATIONS + "b,a\na,b\n"},
        {"duplicate_relations": 2},
        (3, 2),
    ),
    "duplicate_ids": ({"entities_csv": ENTITIES + "a,again\n"}, {"duplicate_ids": 1}, (3, 2)),
    "empty_text": (
        {"entities_csv": "id,text\na,\nb,second\nc,third\n"},
        {"empty_text": 1, "relations_of_dropped_entities": 1},
        (2, 1),
    ),
    "bad_features": (
        {"entities_csv": "id,features\na,1 2\nb,nan 1\nc,0 1\n"},
        {"bad_features": 1, "relations_of_dropped_entities": 2},
        (2, 0),
    ),
    "missing_ids": ({"entities_csv": ENTITIES + ",x\n"}, {"missing_ids": 1}, (3, 2)),
    "malformed_lines": (
        {"entities_csv": ENTITIES + "d,Hello, world\n"},
        {"malformed_lines": 1},
        (3, 2),
    ),
    "relation_columns": (
        {"relations_csv": "source,target,weight\na,b,1\n"},
        {"relation_columns": 1},
        (3, 1),
    ),
    "extra_columns": (
        {"entities_parquet": parquet(id=["a", "b", "c"], text=["x", "y", "z"], tags=[["p"]] * 3)},
        {"extra_columns": 1},
        (3, 2),
    ),
}


@pytest.mark.parametrize("kind", DROPS)
def test_what_is_dropped_on_request_is_counted(kind: str, tmp_path: Path) -> None:
    files, counts, sizes = DROPS[kind]
    folder_of(tmp_path, **files)
    with pytest.raises(GraphError):
        EntityGraph.read(tmp_path)
    graph = EntityGraph.read(tmp_path, drop={kind})
    assert graph.record.drops == counts
    assert (graph.num_entities, graph.num_relations) == sizes


def test_an_unknown_kind_to_drop_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"`drop` must name kinds among .*, got 'everything'"):
        EntityGraph.read(folder_of(tmp_path), drop={"everything"})


def test_line_numbers_count_quoted_line_ends_and_blank_lines(tmp_path: Path) -> None:
    folder_of(tmp_path, entities_csv='id,text\na,"two\nlines"\n\nb,\n')
    with pytest.raises(GraphError, match=r"empty texts \(line 5\)"):
        EntityGraph.read(tmp_path)


def test_read_files_wants_files(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"people\.csv must be a file, got none"):
        read_files(tmp_path / "people.csv", tmp_path / "friends.csv")
    (tmp_path / "people.xlsx").write_text("x")
    with pytest.raises(GraphError, match=r"people\.xlsx must end in one of \.parquet"):
        read_files(tmp_path / "people.xlsx", tmp_path / "friends.csv")


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_a_column_of_types_is_read_from_text_files(tmp_path: Path, ending: str) -> None:
    rows = [("a", "b", "likes"), ("b", "a", "likes"), ("a", "b", "7")]
    entities = [("a", "x"), ("b", "y")]
    for name, columns, values in (
        ("entities", ("id", "text"), entities),
        ("relations", ("source", "target", "type"), rows),
    ):
        if ending == "jsonl":
            lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in values]
        else:
            between = {"csv": ",", "tsv": "\t"}[ending]
            lines = [between.join(row) for row in (columns, *values)]
        (tmp_path / f"{name}.{ending}").write_text("\n".join(lines) + "\n")
    graph = EntityGraph.read(tmp_path)
    assert graph.type_names == ("7", "likes")
    assert graph.relations.tolist() == [[0, 1], [1, 0], [0, 1]]
    assert graph.relation_types.tolist() == [1, 1, 0]


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_a_record_that_is_no_file_is_refused_and_does_not_block(tmp_path: Path, kind: str) -> None:
    place = folder_of(tmp_path) / "record.json"
    make = {"pipe": os.mkfifo, "folder": os.mkdir, "link": lambda p: os.symlink("/dev/zero", p)}
    make[kind](place)
    with pytest.raises(GraphError, match=r"record\.json must be a file, got something else"):
        EntityGraph.read(tmp_path)


def test_a_record_that_is_far_too_large_is_refused_unread(tmp_path):
    (tmp_path / "record.json").write_text("{}")
    os.truncate(tmp_path / "record.json", 2**32)
    with pytest.raises(GraphError, match=r"record\.json must have at most 16,777,216 bytes"):
        read_record(tmp_path / "record.json")
