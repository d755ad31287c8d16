"""One table per file, with nothing guessed."""

import bz2
import gzip
import os
from pathlib import Path

import pyarrow as pa
import pytest

from reldp.cli.main import main
from reldp.errors import GraphError
from reldp.graph import EntityGraph, diagnosis, formats, text_lines
from reldp.graph.formats import EXTENSIONS, read_table
from reldp.graph.store.format_chunks import file_chunks


def read(path: Path, data: str | bytes, **options: object) -> list[dict[str, object]]:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return list(read_table(path, **options).table.to_pylist())  # type: ignore[arg-type]


def test_text_files_give_strings_and_keep_every_character(tmp_path: Path) -> None:
    rows = read(tmp_path / "a.csv", 'id,text,n\n007,"a ""b"", c\nd",NA\n1,null, 1.5 \n')
    assert rows == [
        {"id": "007", "text": 'a "b", c\nd', "n": "NA"},
        {"id": "1", "text": "null", "n": " 1.5 "},
    ]


def test_tabs_separate_and_quotes_are_characters(tmp_path: Path) -> None:
    rows = read(tmp_path / "a.tsv", 'id\ttext\n"a\tsay "hi, there\n')
    assert rows == [{"id": '"a', "text": 'say "hi, there'}]


def test_marks_and_windows_line_ends_are_no_text(tmp_path: Path) -> None:
    data = b'\xef\xbb\xbfid,"text"\r\na,x\r\n\r\nb,y'
    assert read(tmp_path / "a.csv", data) == [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}]


def test_a_file_without_a_header_takes_names(tmp_path: Path) -> None:
    rows = read(tmp_path / "a.tsv", "id\ttext\n", columns=("one", "two"))
    assert rows == [{"one": "id", "two": "text"}]


def test_blank_lines_and_quoted_names_before_the_data(tmp_path: Path) -> None:
    data = '\n\nid,"text, and\nmore"\n\na,x\n'
    assert read(tmp_path / "a.csv", data) == [{"id": "a", "text, and\nmore": "x"}]
    kinds = frozenset({"malformed_lines"})
    assert read(tmp_path / "a.csv", data + "b\n", drop=kinds) == [
        {"id": "a", "text, and\nmore": "x"}
    ]
    assert read(tmp_path / "a.tsv", "\nid\ttext\n\na\tx\n") == [{"id": "a", "text": "x"}]


def test_a_mark_before_the_first_id_of_a_file_without_a_header_is_no_text(tmp_path: Path) -> None:
    rows = read(tmp_path / "a.tsv", b"\xef\xbb\xbfa\tx\n", columns=("id", "text"))
    assert rows == [{"id": "a", "text": "x"}]


def test_all_lines_malformed_leaves_an_empty_table(tmp_path: Path) -> None:
    assert read(tmp_path / "a.csv", "id,text\na\n", drop=frozenset({"malformed_lines"})) == []


def test_json_numbers_may_be_whole_or_not_and_nulls_come_first(tmp_path: Path) -> None:
    lines = '{"id": 1, "text": null, "n": 1}\n{"id": 2, "text": "2020-01-01 00:00:00", "n": 2.5}\n'
    rows = read(tmp_path / "a.jsonl", lines)
    assert rows[1] == {"id": 2, "text": "2020-01-01 00:00:00", "n": 2.5}


def test_json_nested_a_hundred_thousand_deep_is_refused(tmp_path: Path) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    for line in (deep, f'{{"id": {deep}}}', f'{{"id": 1, "text": "x", "more": {deep}}}'):
        with pytest.raises(GraphError, match="one JSON object per line"):
            read(tmp_path / "a.jsonl", line + "\n")


def test_json_keeps_its_types_and_dates_stay_text(tmp_path: Path) -> None:
    lines = (
        '{"id": 7, "text": "2020-01-01", "features": [1, 2.5], "protected": true}\n\n'
        '{"id": 8, "text": "x", "features": [3, 4], "protected": false}\n'
    )
    rows = read(tmp_path / "a.jsonl", lines)
    assert rows[0] == {"id": 7, "text": "2020-01-01", "features": [1, 2.5], "protected": True}
    assert rows[1]["id"] == 8


def test_a_line_of_three_megabytes_is_read(tmp_path: Path) -> None:
    text = "long " * 600_000
    for name, data in [
        ("a.jsonl", f'{{"id": 1, "text": "{text}"}}\n'),
        ("a.csv", f"id,text\n1,{text}\n"),
    ]:
        assert read(tmp_path / name, data)[0]["text"] == text


def test_malformed_lines_are_dropped_on_request_and_lines_still_count(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,text\na,b,c\nd,e\nf\ng,h\n")
    source = read_table(path, drop=frozenset({"malformed_lines"}))
    assert source.table.to_pylist() == [{"id": "d", "text": "e"}, {"id": "g", "text": "h"}]
    assert source.drops == (("malformed_lines", 2),)
    assert source.locate([0, 1]) == ["line 3", "line 5"]


def test_arrow_files_are_mapped(tmp_path: Path) -> None:
    table = pa.table({"id": ["a" * 1_000_000]})
    with (
        pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, table.schema) as writer,
    ):
        writer.write_table(table)
    before = pa.total_allocated_bytes()
    assert read_table(tmp_path / "a.arrow").table.equals(table)
    assert pa.total_allocated_bytes() - before < 100_000


def test_only_known_endings_are_read(tmp_path: Path) -> None:
    assert len(set(EXTENSIONS)) == len(EXTENSIONS)
    with pytest.raises(GraphError, match=r"a\.pkl must end in one of \.parquet, \.arrow"):
        read(tmp_path / "a.pkl", b"x")


def test_a_name_of_a_column_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "entities.jsonl").write_text('{"id": "a", "text": "x", "\\ud800": "y"}\n')
    with pytest.raises(GraphError, match="half of a surrogate pair"):
        read_table(tmp_path / "entities.jsonl")


def test_a_line_with_two_objects_is_counted_in_rows(tmp_path):
    (tmp_path / "entities.jsonl").write_text(
        '{"id": "a", "text": "x"}\n{"id": "b", "text": "y"}{"id": "b", "text": "z"}\n'
    )
    (tmp_path / "relations.jsonl").write_text('{"source": "a", "target": "b"}\n')
    with pytest.raises(GraphError, match=r"repeated ids \(row 3\)"):
        EntityGraph.read(tmp_path)


@pytest.mark.parametrize(
    ("mark", "words"), [(";", "semicolons .* with commas"), ("\t", "tabs .* .tsv")]
)
def test_other_separators_of_a_csv_file_are_named(tmp_path: Path, mark: str, words: str) -> None:
    with pytest.raises(GraphError, match=f"must have commas between its columns, got .*{words}"):
        read(tmp_path / "a.csv", f"id{mark}text\na{mark}x\n")
    assert read(tmp_path / "b.csv", "id,te;xt\na,x\n") == [{"id": "a", "te;xt": "x"}]


CONTENT = {
    "entities.jsonl": b'{"id": "a", "text": "x"}\n',
    "entities.csv": b"id,text\na,x\n",
    "entities.tsv": b"id\ttext\na\tx\n",
}


def make_sparse(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    os.truncate(path, 1 << 40)
    return path


@pytest.mark.parametrize("name", EXTENSIONS)
@pytest.mark.parametrize("read", [read_table, file_chunks])
def test_a_file_of_holes_is_refused_before_it_is_read(tmp_path, monkeypatch, name, read):
    monkeypatch.setattr(formats, "open_bytes", None)
    content = CONTENT.get(f"entities{name}", b"x")
    for path in (make_sparse(tmp_path, f"{n}{name}", c) for n, c in (("a", b""), ("b", content))):
        with pytest.raises(
            GraphError, match=rf"{path.name} must be a file with content, got 1,099"
        ):
            read(path)


@pytest.mark.parametrize("name", ["entities.jsonl", "relations.jsonl"])
@pytest.mark.parametrize("command", [["inspect"], ["prepare", "store", "-o"]])
def test_a_graph_with_a_file_of_holes_is_one_line_on_the_command_line(
    tmp_path, capsys, name, command
):
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph/entities.jsonl").write_bytes(b'{"id": "a", "text": "x"}\n')
    (tmp_path / "graph/relations.jsonl").write_bytes(b'{"source": "a", "target": "a"}\n')
    os.truncate(tmp_path / "graph" / name, 1 << 40)
    words = [*command, str(tmp_path / "store")] if "-o" in command else command
    assert main([*words, str(tmp_path / "graph")]) == 2
    assert f"{name} must be a file with content" in " ".join(capsys.readouterr().err.split())


def read_whole(read, path: Path) -> None:
    source = read(path)
    if read is file_chunks:
        list(source.tables(["id"], 10))


@pytest.mark.parametrize("name", CONTENT)
@pytest.mark.parametrize("read", [read_table, file_chunks])
@pytest.mark.parametrize("where", ["first", "later"])
def test_a_line_without_end_is_refused_soon(tmp_path, monkeypatch, name, read, where):
    monkeypatch.setattr(text_lines, "LONGEST_LINE", 2**20)
    begun = CONTENT[name] if where == "later" else b""
    (tmp_path / name).write_bytes(begun + b"a" * (40 << 20))
    with pytest.raises(
        GraphError, match=rf"{name} must have at most 1,048,576 bytes on a line, got"
    ):
        read_whole(read, tmp_path / name)


@pytest.mark.parametrize("name", ["entities.csv", "entities.tsv"])
def test_a_first_line_that_is_too_long_for_names_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"id,text," + b"a" * 2**20 + b"\nx,y,z\n")
    with pytest.raises(
        GraphError, match=r"start with the names of its columns, of at most 1,048,57"
    ):
        read_table(tmp_path / name)


@pytest.mark.parametrize("name", CONTENT)
@pytest.mark.parametrize("end", ["", ".gz", ".bz2"])
def test_nothing_but_blank_lines_is_refused(tmp_path, monkeypatch, name, end):
    monkeypatch.setattr(diagnosis, "LONGEST_LINE", 2**22)
    pack = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[end]
    (tmp_path / (name + end)).write_bytes(pack(b"\n" * 2**23))
    with pytest.raises(
        GraphError, match=r"must start with content, got [\d,]+ bytes of blank lines"
    ):
        read_table(tmp_path / (name + end))


def test_a_file_that_may_not_be_opened_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "entities.csv").write_bytes(CONTENT["entities.csv"])

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(GraphError, match=r"^entities\.csv cannot be read: Permission denied\.$"):
        read_table(tmp_path / "entities.csv")
