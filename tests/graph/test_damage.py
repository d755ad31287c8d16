"""Damaged graph folders: one clear error each, never a traceback."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from reldp.cli.main import main
from reldp.cli.messages import as_shell_message
from reldp.errors import GraphError
from reldp.graph import EntityGraph
from tests.graph.folders import ENTITIES, FORMATS, RELATIONS, corrupted_gzip, folder_of, parquet

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
    "no id column": ({"entities_csv": "name,text\na,x\n"}, "column 'id', got 'name' and 'text'"),
    "no text and no features": ({"entities_csv": "id,note\na,x\n"}, "column 'text' or 'features'"),
    "no source column": (
        {"relations_csv": "from,target\na,b\n"},
        "column 'source', got 'from' and 'target'",
    ),
    "no target column": ({"relations_csv": "source,to\na,b\n"}, "column 'target', got 'source'"),
    "a header where none belongs": (
        {"entities_tsv": "a\tfirst\nb\tsecond\n"},
        r"entities\.tsv must have a column 'id', got 'a' and 'first'",
    ),
    "a column twice": (
        {"entities_csv": "id,text,text\na,x,y\n"},
        "repeat a column, got column 'text'",
    ),
    "owners in capital letters": (
        {"entities_csv": "id,text,Owner\na,x,p\n"},
        r"entities\.csv must name the column 'owner' like this, got 'Owner', .* entities, not owners, would be",
    ),
    "protection in capital letters": (
        {"entities_csv": "id,text,PROTECTED\na,x,true\n"},
        r"the column 'protected' like this, got 'PROTECTED', .* all entities would be protected",
    ),
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
    "Latin-1 in the header": (
        {"entities_csv": b"id,text,r\xe9gion\na,x,y\n"},
        "must be UTF-8 text, but its first line is not. Convert it, .* -f windows-1252",
    ),
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
        "one type of value in column 'id', got text on line 1 and an integer on line 4",
    ),
    "a JSON row without an id": (
        {"entities_jsonl": JSON_ROWS + '{"text": "nobody"}\n'},
        r"got 1 missing ids \(line 4\)",
    ),
    "ids that became floats": (
        {"entities_parquet": parquet(id=[1.0, 2.0, None], text=["x", "y", "z"])},
        "strings or integers in column 'id', got double. A program turned integers into floats",
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
        r"only, got column 'weight' too\. Remove it, or drop .*drop=\{'relation_columns'\}",
    ),
    "a damaged record": ({"record_json": "{"}, r"record\.json must hold one JSON object"),
    "a record of something else": ({"record_json": '{"name": "x"}'}, "got 1 other names too"),
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
        EntityGraph.read(tmp_path, show_ids=True)
    text = str(caught.value)
    assert "\n" not in text
    assert "Traceback" not in text
    assert len(text) < 400
    assert str(tmp_path) not in text
    assert main(["inspect", "--no-plan", "--show-ids", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"reldp: {as_shell_message(text, 'inspect')}\n"
    with pytest.raises(GraphError) as caught:
        EntityGraph.read(tmp_path)
    hidden = str(caught.value)
    assert hidden.split(",")[0].split(":")[0] == text.split(",")[0].split(":")[0]  # the same rule
    assert len(hidden) < 400
    assert main(["inspect", "--no-plan", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"reldp: {as_shell_message(hidden, 'inspect')}\n"


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
