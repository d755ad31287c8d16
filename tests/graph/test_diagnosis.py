"""Exact words about damaged text files."""

import csv
import gzip
import io
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reldp.errors import GraphError
from reldp.graph.diagnosis import (
    explain_delimited,
    explain_jsonl,
    line_numbers,
    open_bytes,
    open_quote,
    records,
    well_formed,
)
from reldp.graph.formats import read_table


def lines_of(data: bytes, quoted: bool = True) -> list[int]:
    return [line for line, _ in records(io.BytesIO(data), quoted)]


def test_records_start_where_they_start() -> None:
    assert lines_of(b'a,b\n\nc,"d\ne"\r\nf,g') == [1, 3, 5]
    assert lines_of(b'a\t"b\nc\td\n', quoted=False) == [1, 2]
    assert lines_of(b"a,b\rc,d\r") == [1, 2]


def test_a_quote_inside_a_field_opens_nothing() -> None:
    assert lines_of(b'a,5" pipe\nb,6" pipe\n"c","say ""hi""\nthere"\nd,e\n') == [1, 2, 3, 5]


FIELD = st.text(st.sampled_from('ab", \n'), max_size=6)


@given(rows=st.lists(st.lists(FIELD, min_size=2, max_size=3), min_size=1, max_size=6))
@settings(max_examples=200, deadline=None)
def test_records_are_those_of_a_csv_writer(rows: list[list[str]]) -> None:
    """Python's own writer gives the file; a record starts where its rows before it end."""
    sink, starts = io.StringIO(), []
    writer = csv.writer(sink, lineterminator="\n")
    for row in rows:
        starts.append(1 + sink.getvalue().count("\n"))
        writer.writerow(row)
    assert lines_of(sink.getvalue().encode()) == starts


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_the_line_of_a_quote_that_stays_open(tmp_path: Path) -> None:
    assert open_quote(write(tmp_path / "a.csv", b'a,b\nc,"d\ne,f\n')) == 2
    assert open_quote(write(tmp_path / "a.csv", b'a,b\nc,"d\ne",f\n')) == 0
    assert open_quote(write(tmp_path / "a.csv", b'a,b\nc,"d')) == 2


ENDS = st.text(st.sampled_from('ab",\n'), max_size=12)


@given(data=ENDS)
@settings(max_examples=300, deadline=None)
def test_a_file_that_ends_inside_a_quote_is_never_read(data: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "a.csv", b"id,text\nx,y\n" + data.encode())
        try:
            table = read_table(path).table
        except GraphError:
            return
        assert not open_quote(path), table.to_pylist()


def test_line_numbers_skip_what_was_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b'id,text\na,"x\ny"\nb,c,d\n\ne,f\n')
    found = line_numbers(path, [1, 0], delimiter=b",", header=True, num_columns=2)
    assert found == ["line 6", "line 2"]
    assert well_formed(path, b",", 2, header=True) == (b'a,"x\ny"\ne,f\n', 1)
    assert well_formed(path, b",", 3, header=False) == (b"b,c,d\n", 3)


def test_columns_between_quotes_are_not_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b'id,text\na,"x, y"\nb,c,d\n"e, ""f""",g\nh\n')
    assert "on 2 lines (line 3, line 5)" in explain_delimited(path, b",", 2)


def test_a_sound_file_gets_no_explanation(tmp_path: Path) -> None:
    assert explain_delimited(write(tmp_path / "a.csv", b"id,text\na,b\n"), b",", 2) == ""
    assert explain_jsonl(write(tmp_path / "a.jsonl", b'{"id": 1}\n{"id": null}\n'), ["id"]) == ""


def test_types_that_change_are_named_ids_first(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", b'{"a": 1, "id": "x"}\n{"a": [], "id": 1.5}\n{"id": true}\n')
    assert explain_jsonl(path, ["id"]) == (
        "must hold one type of value in column 'id', got text on line 1 and a fraction on line 2 and true or "
        "false on line 3. Write all the same way."
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"id": "a", "id": "b"}', "each name once in an object"),
        ('{"id": "a", "features": [1, 1e400]}', "numbers in the range of a double"),
        ('{"id": "a", "x": {"y": -1e999}}', "numbers in the range of a double"),
        ('{"id": "a", "text": "\\ud800"}', "text without half of a surrogate pair"),
    ],
)
def test_what_the_grammar_allows_and_the_reader_refuses_is_named_with_its_line(
    tmp_path, line, words
):
    sound = '{"id": "z", "x": {"y": 1.5}, "features": [1, 2.5], "text": "\\ud83d\\ude00"}'
    path = write(tmp_path / "a.jsonl", f"{sound}\n{line}\n{sound}\n{line}\n".encode())
    with pytest.raises(
        GraphError, match=rf"must hold {words}, got 2 lines that do not \(line 2, line 4\)"
    ):
        read_table(path)


@pytest.mark.parametrize(
    "lines",
    [
        ['{"id": "a", "x": [1, {"b": 1}]}'],
        ['{"id": "a", "x": {"y": 1}}', '{"id": "b", "x": {"y": "z"}}'],
    ],
)
def test_types_that_change_inside_of_lists_and_objects_are_named_with_their_line(tmp_path, lines):
    sound = '{"id": "z"}\n' * 3
    path = write(tmp_path / "a.jsonl", (sound + "\n".join(lines) + "\n" + sound).encode())
    with pytest.raises(GraphError, match=rf"got another on line {3 + len(lines)}, also inside"):
        read_table(path)


def test_damaged_archives_and_folders_are_refused(tmp_path: Path) -> None:
    whole = gzip.compress(b"hello" * 100)
    for data, message in [(whole[:-9], "ends too early"), (b"hello", "not gzip at all")]:
        with (
            pytest.raises(GraphError, match=message),
            open_bytes(write(tmp_path / "a.gz", data)) as stream,
        ):
            stream.read()
    with pytest.raises(GraphError, match="cannot be read: Is a directory"), open_bytes(tmp_path):
        pass


@pytest.mark.parametrize(("value", "kind"), [("5", "an integer"), ("true", "true or false")])
def test_texts_that_are_no_strings_are_named(tmp_path, value, kind):
    path = write(tmp_path / "a.jsonl", f'{{"id":"x","text":{value}}}\n'.encode())
    words = rf"must hold strings in column 'text', got {kind} on line 1\. Put it in quotes"
    with pytest.raises(GraphError, match=words):
        read_table(path)
