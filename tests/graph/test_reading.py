"""Graph folders as people hand them over: every kind that is read, and every kind of damage."""

import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reldp.cli.main import main
from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.reading import read_files, read_folder

ENTITIES = "id,text\na,first\nb,second\nc,third\n"
RELATIONS = "source,target\na,b\nb,c\n"


def folder_of(path: Path, **files: str | bytes) -> Path:
    """A folder with a good graph, except for the files given; in names, _ stands for a dot."""
    content: dict[str, str | bytes] = {"entities_csv": ENTITIES, "relations_csv": RELATIONS} | files
    for role in ("entities", "relations"):
        if any(name.startswith(role) and not name.endswith("_csv") for name in files):
            del content[f"{role}_csv"]
    for name, text in content.items():
        data = text.encode() if isinstance(text, str) else text
        (path / name.replace("_", ".")).write_bytes(data)
    return path


def parquet(**columns: object) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue().to_pybytes())


def arrow(**columns: object) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table(columns)
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def corrupted_gzip(text: str) -> bytes:
    data = bytearray(gzip.compress(text.encode()))
    data[-8:-4] = struct.pack("<I", 12345)  # the checksum
    return bytes(data)


FORMATS = {
    "csv": (ENTITIES, RELATIONS),
    "csv.gz": (gzip.compress(ENTITIES.encode()), gzip.compress(RELATIONS.encode())),
    "tsv": (ENTITIES.replace(",", "\t"), RELATIONS.replace(",", "\t")),
    "tsv.gz": (
        gzip.compress(ENTITIES.replace(",", "\t").encode()),
        gzip.compress(RELATIONS.replace(",", "\t").encode()),
    ),
    "jsonl": (
        '{"id": "a", "text": "first"}\n{"id": "b", "text": "second"}\n{"id":"c","text":"third"}',
        '{"source": "a", "target": "b"}\n{"source": "b", "target": "c"}\n',
    ),
    "parquet": (
        parquet(id=["a", "b", "c"], text=["first", "second", "third"]),
        parquet(source=["a", "b"], target=["b", "c"]),
    ),
    "arrow": (
        arrow(id=["a", "b", "c"], text=["first", "second", "third"]),
        arrow(source=["a", "b"], target=["b", "c"]),
    ),
}


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
    assert graph.record.source == tmp_path.name


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
    assert graph.record.source == "people.csv"


def test_a_text_file_names_integers_of_a_parquet_file_as_they_are_written(tmp_path: Path) -> None:
    folder_of(
        tmp_path,
        entities_parquet=parquet(id=[7, 10], text=["x", "y"]),
        relations_csv="source,target\n7,10\n",
    )
    assert EntityGraph.read(tmp_path).relations.tolist() == [[0, 1]]
    (tmp_path / "relations.csv").write_text("source,target\n07,10\n")
    with pytest.raises(GraphError, match=r"unknown source ids \(line 2: '07'"):
        EntityGraph.read(tmp_path)


def test_a_record_beside_the_files_is_the_record_of_the_graph(tmp_path: Path) -> None:
    folder_of(tmp_path, record_json=json.dumps({"source": "a shop", "drops": {"unknown_ids": 3}}))
    record = read_folder(tmp_path).record
    assert (record.source, record.drops) == ("a shop", {"unknown_ids": 3})


JSON_ROWS = '{"id": "a", "text": "x"}\n{"id": "b", "text": "y"}\n{"id": "c", "text": "z"}\n'
LONG_ID = "x" * 500

# Each: files of the folder, and what the one error must say.
DAMAGE: dict[str, tuple[dict[str, str | bytes], str]] = {
    "entities of zero bytes": (
        {"entities_csv": ""},
        r"entities\.csv must not be empty, got 0 bytes",
    ),
    "relations of zero bytes": ({"relations_csv": ""}, r"relations\.csv must not be empty"),
    "a header and no entity": ({"entities_csv": "id,text\n"}, "at least one entity, got none"),
    "blank lines only": ({"entities_csv": "\n\n\n"}, "must not be empty, got blank lines only"),
    "no id column": ({"entities_csv": "name,text\na,x\n"}, "column 'id', got 'name', 'text'"),
    "no text and no features": ({"entities_csv": "id,note\na,x\n"}, "column 'text' or 'features'"),
    "no source column": ({"relations_csv": "from,target\na,b\n"}, "column 'source', got 'from'"),
    "no target column": ({"relations_csv": "source,to\na,b\n"}, "column 'target', got 'source'"),
    "a header where none belongs": (
        {"entities_tsv": "a\tfirst\nb\tsecond\n"},
        r"entities\.tsv must have a column 'id', got 'a', 'first'",
    ),
    "a column twice": ({"entities_csv": "id,text,text\na,x,y\n"}, "repeat a column, got 'text'"),
    "an id twice": (
        {"entities_csv": ENTITIES + "a,again\n"},
        r"must not repeat an id, got 1 repeated ids \(line 5: 'a'\)\. Give every entity one row, or"
        r" drop them with drop=\{'duplicate_ids'\}",
    ),
    "an empty id": ({"entities_csv": ENTITIES + ",x\n"}, r"got 1 missing ids \(line 5\)"),
    "an empty end": ({"relations_csv": RELATIONS + "a,\n"}, r"got 1 missing target ids \(line 4\)"),
    "an unknown id": (
        {"relations_csv": RELATIONS + "a,zz\n"},
        r"got 1 unknown target ids \(line 4: 'zz'\)\. Add these entities, or drop them with "
        r"drop=\{'unknown_ids'\}",
    ),
    "many unknown ids": (
        {"relations_csv": RELATIONS + "".join(f"a,z{i}\n" for i in range(50))},
        r"got 50 unknown target ids \(line 4: 'z0', line 5: 'z1', line 6: 'z2', \.\.\.\)",
    ),
    "an unknown id of 500 characters": (
        {"relations_csv": RELATIONS + f"a,{LONG_ID}\n"},
        r"line 4: 'x{36}\.\.\.\)",
    ),
    "a self-relation": (
        {"relations_csv": RELATIONS + "c,c\n"},
        r"1 self-relations \(line 4: 'c' 'c'",
    ),
    "a relation twice": ({"relations_csv": RELATIONS + "a,b\n"}, r"1 repeated relations \(line 4"),
    "a relation in both directions": (
        {"relations_csv": RELATIONS + "b,a\n"},
        r"\(in either direction\), got 1 repeated relations \(line 4: 'b' 'a'\)",
    ),
    "an empty text": ({"entities_csv": ENTITIES + "d,\n"}, r"got 1 empty texts \(line 5: 'd'\)"),
    "a text of spaces": ({"entities_csv": ENTITIES + "d,  \n"}, r"got 1 empty texts"),
    "a null text": (
        {"entities_parquet": parquet(id=["a", "b", "c"], text=["x", None, "z"])},
        r"entities\.parquet must give every entity a text, got 1 empty texts \(row 2: 'b'\)",
    ),
    "NaN in features": (
        {"entities_parquet": parquet(id=["a", "b", "c"], features=[[1.0], [float("nan")], [2.0]])},
        r"must have finite features, got 1 .* \(row 2: 'b'\)",
    ),
    "infinity in features": (
        {"entities_csv": 'id,features\na,"1 2"\nb,"inf 1"\nc,"3 4"\n'},
        r"must have finite features, got 1 .* \(line 3: 'b'\)",
    ),
    "features too large for 32 bits": (
        {"entities_parquet": parquet(id=["a", "b", "c"], features=[[1.0], [1e300], [2.0]])},
        r"must have finite features, got 1",
    ),
    "no features at all": (
        {
            "entities_parquet": parquet(
                id=["a", "b", "c"], features=pa.array([None] * 3, pa.list_(pa.float32()))
            )
        },
        "a vector per entity in column 'features', got none",
    ),
    "features of two lengths": (
        {"entities_parquet": parquet(id=["a", "b", "c"], features=[[1.0, 2.0], [1.0], [2.0, 1.0]])},
        r"features of one length, got 1 vectors of another length than the first \(row 2: 'b'\)",
    ),
    "features that are no numbers": (
        {"entities_csv": "id,features\na,1 2\nb,1 two\nc,3 4\n"},
        r"finite features, got 1 .* no numbers \(line 3: 'b'\)",
    ),
    "features that are a number": (
        {"entities_parquet": parquet(id=["a", "b", "c"], features=[1.0, 2.0, 3.0])},
        "lists of numbers in column 'features', got double",
    ),
    "Latin-1": (
        {"entities_csv": ENTITIES.encode() + b"d,caf\xe9\n"},
        r"must be UTF-8 text, got other bytes on 1 lines \(line 5\)\. Convert it, .*iconv",
    ),
    "Latin-1 in the header": ({"entities_csv": b"id,text,r\xe9gion\na,x,y\n"}, "must be UTF-8"),
    "UTF-16 with a mark": ({"entities_csv": ENTITIES.encode("utf-16")}, "may be UTF-16"),
    "UTF-16 without a mark": ({"entities_csv": ENTITIES.encode("utf-16-le")}, "may be UTF-16"),
    "bytes that are no UTF-8 in Parquet": (
        {"entities_parquet": parquet(id=["a", "b", "c"], text=pa.array([b"x", b"\xff", b"z"]))},
        "must be UTF-8 text in column 'text'",
    ),
    "NUL characters": (
        {"entities_csv": ENTITIES + "d,a\x00b\n"},
        r"plain text in column 'text', got 1 values with NUL characters \(line 5\)",
    ),
    "truncated gzip": (
        {"entities_csv_gz": gzip.compress(ENTITIES.encode() * 50)[:-15]},
        "must be a whole gzip file, but it ends too early",
    ),
    "gzip without its last bytes": (
        {"entities_csv_gz": gzip.compress(ENTITIES.encode())[:-4]},
        "must be a whole gzip file, but it ends too early",
    ),
    "gzip with a wrong checksum": (
        {"entities_csv_gz": corrupted_gzip(ENTITIES)},
        "must be a whole gzip file, but it is damaged",
    ),
    "a name that says gzip and no gzip": ({"entities_csv_gz": ENTITIES}, "not gzip at all"),
    "truncated Parquet": (
        {"entities_parquet": parquet(id=["a"], text=["x"])[:-20]},
        r"entities\.parquet must be a whole Parquet file",
    ),
    "a name that says Parquet and no Parquet": ({"entities_parquet": ENTITIES}, "whole Parquet"),
    "a name that says Arrow and no Arrow": ({"entities_arrow": ENTITIES}, "whole Arrow file"),
    "a comma too many": (
        {"entities_csv": ENTITIES + "d,Hello, world\n"},
        r"2 columns on every line, got another number on 1 lines \(line 5\)\..* stray commas",
    ),
    "a tab too few": (
        {"relations_tsv": "source\ttarget\na\tb\nb c\n"},
        r"relations\.tsv must have 2 columns .* \(line 3\)\. Look for stray tabs",
    ),
    "an open quote": (
        {"entities_csv": 'id,text\na,first\nb,"second\nc,third\n'},
        "close every quote, but the one opened on line 3 stays open",
    ),
    "an open quote on the last line": (
        {"entities_csv_gz": gzip.compress(b'id,text\na,first\nb,x\nc,"say ""hi"", third')},
        "close every quote, but the one opened on line 4 stays open",
    ),
    "an open quote after stray ones": (
        {"entities_csv": 'id,text\na,5" pipe\nb,"second\nc,third\n'},
        "close every quote, but the one opened on line 3 stays open",
    ),
    "a quoted TSV": (
        {"entities_tsv": '"id"\t"text"\n"a"\t"first"\n'},
        "must be written without quotes, which mean nothing between tabs",
    ),
    "broken JSON": (
        {"entities_jsonl": JSON_ROWS + '{"id": "d", "text": \n'},
        r"one JSON object per line, got something else on 1 lines \(line 4\)",
    ),
    "JSON that is no object": (
        {"entities_jsonl": JSON_ROWS + "[1, 2]\n"},
        r"on 1 lines \(line 4\)",
    ),
    "JSON that starts with no object": ({"entities_jsonl": "3\n" + JSON_ROWS}, r"lines \(line 1\)"),
    "one JSON document instead of lines": (
        {"entities_jsonl": json.dumps([{"id": "a", "text": "x"}], indent=1)},
        "one JSON object per line",
    ),
    "ids of two types": (
        {"entities_jsonl": JSON_ROWS + '{"id": 7, "text": "seven"}\n'},
        "one type of value in 'id', got text on line 1 and an integer on line 4",
    ),
    "a JSON row without an id": (
        {"entities_jsonl": JSON_ROWS + '{"text": "nobody"}\n'},
        r"got 1 missing ids \(line 4\)",
    ),
    "ids that became floats": (
        {"entities_parquet": parquet(id=[1.0, 2.0, None], text=["x", "y", "z"])},
        "strings or integers in column 'id', got double. An empty cell turned integers into floats",
    ),
    "ids beyond 64 bits": (
        {"entities_parquet": parquet(id=pa.array([2**63, 1], pa.uint64()), text=["x", "y"])},
        r"ids below 2\*\*63",
    ),
    "integer ids and text ends": (
        {
            "entities_parquet": parquet(id=[1, 2], text=["x", "y"]),
            "relations_parquet": parquet(source=["1"], target=["2"]),
        },
        "ids of the same type as the entities', got string and int64",
    ),
    "protected that is neither true nor false": (
        {"entities_csv": "id,text,protected\na,x,true\nb,y,perhaps\nc,z,0\n"},
        r"true or false in column 'protected', got 1 other values \(line 3: 'b'\)",
    ),
    "protected that is missing": (
        {"entities_csv": "id,text,protected\na,x,true\nb,y,\nc,z,0\n"},
        "Nobody but you can say whom to protect",
    ),
    "protected that is a fraction": (
        {"entities_parquet": parquet(id=["a"], text=["x"], protected=[0.5])},
        "true or false in column 'protected', got double",
    ),
    "a column of lists": (
        {"entities_parquet": parquet(id=["a"], text=["x"], tags=[["p", "q"]])},
        r"column 'tags', got list.*drop=\{'extra_columns'\}",
    ),
    "relations with a weight": (
        {"relations_csv": "source,target,weight\na,b,1\n"},
        r"only, got 'weight' too\. Remove it, or drop .*drop=\{'relation_columns'\}",
    ),
    "a damaged record": ({"record_json": "{"}, r"record\.json must hold one JSON object"),
    "a record of something else": ({"record_json": '{"name": "x"}'}, "got 'name' too"),
    "two entities files": (
        {"entities_csv": ENTITIES, "entities_tsv": ENTITIES},
        r"one entities file, got entities\.csv and entities\.tsv",
    ),
    "a spreadsheet": ({"entities_xlsx": b"PK"}, r"one entities file, got entities\.xlsx"),
}


def test_there_are_at_least_thirty_kinds_of_damage() -> None:
    assert len(DAMAGE) >= 30


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_one_clear_error_here_and_on_the_command_line(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, message = DAMAGE[kind]
    folder_of(tmp_path, **files)
    if kind == "two entities files":
        (tmp_path / "entities.csv").write_text(ENTITIES)
    with pytest.raises(GraphError, match=message) as caught:
        EntityGraph.read(tmp_path)
    text = str(caught.value)
    assert "\n" not in text
    assert "Traceback" not in text
    assert len(text) < 400
    assert str(tmp_path) not in text
    assert main(["inspect", "--no-plan", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"reldp: {text}\n"


def test_several_problems_are_told_at_once(tmp_path: Path) -> None:
    folder_of(tmp_path, relations_csv=RELATIONS + "a,a\nb,a\nzz,a\n")
    with pytest.raises(
        GraphError, match=r"unknown.*Also.*self-relations.*Also.*repeated relations"
    ):
        EntityGraph.read(tmp_path)


def test_a_folder_that_is_not_there_or_is_a_file(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="must be a folder, got nothing"):
        EntityGraph.read(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(GraphError, match="must be a folder, got a file"):
        EntityGraph.read(tmp_path / "file")


def test_a_folder_without_entities_or_relations(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="one entities file, got none"):
        EntityGraph.read(tmp_path)
    (tmp_path / "entities.csv").write_text(ENTITIES)
    with pytest.raises(GraphError, match="one relations file, got none"):
        EntityGraph.read(tmp_path)


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
    with pytest.raises(GraphError, match=r"empty texts \(line 5: 'b'\)"):
        EntityGraph.read(tmp_path)


def test_read_files_wants_files(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"people\.csv must be a file, got none"):
        read_files(tmp_path / "people.csv", tmp_path / "friends.csv")
    (tmp_path / "people.xlsx").write_text("x")
    with pytest.raises(GraphError, match=r"people\.xlsx must end in one of \.parquet"):
        read_files(tmp_path / "people.xlsx", tmp_path / "friends.csv")


def read_or_refuse(path: Path) -> EntityGraph | None:
    try:
        return EntityGraph.read(path)
    except GraphError:
        return None


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "jsonl", "parquet", "arrow"])
def test_no_cut_and_no_flipped_byte_gives_a_traceback(kind: str, tmp_path: Path) -> None:
    """Every prefix of a file, and the file with any one byte changed, is read or refused."""
    entities, relations = FORMATS[kind]
    whole = entities.encode() if isinstance(entities, str) else entities
    (tmp_path / f"relations.{kind}").write_bytes(
        relations.encode() if isinstance(relations, str) else relations
    )
    step = max(1, len(whole) // 150)
    damaged: list[Callable[[int], bytes]] = [
        lambda at: whole[:at],
        lambda at: whole[:at] + bytes([whole[at] ^ 0xA5]) + whole[at + 1 :],
    ]
    for damage in damaged:
        for at in range(0, len(whole), step):
            (tmp_path / f"entities.{kind}").write_bytes(damage(at))
            read_or_refuse(tmp_path)
