"""Exact words about damaged text files."""

import csv
import gzip
import io
import tracemalloc
from itertools import chain, repeat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reldp.errors import GraphError
from reldp.graph import diagnosis, text_lines
from reldp.graph.diagnosis import (
    explain_delimited,
    explain_jsonl,
    line_numbers,
    open_bytes,
    records,
    well_formed,
)
from reldp.graph.formats import read_table


def lines_of(data: bytes, quoted: bool = True) -> list[int]:
    return [line for line, _ in records(io.BytesIO(data), quoted, "a.csv")]


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
    ("line", "column"),
    [
        ('{"id": "a", "text": NaN}', "text"),
        ('{"id": "a", "text": null, "owner": -Infinity}', "owner"),
        ('{"id": NaN, "text": "x"}', "id"),
    ],
)
def test_nan_where_a_text_belongs_is_to_be_null_or_left_out(tmp_path, line, column):
    sound = '{"id": "z", "text": "x", "owner": "y", "size": 1}'
    path = write(tmp_path / "a.jsonl", f"{sound}\n{line}\n".encode())
    with pytest.raises(
        GraphError,
        match=rf"must hold JSON, which has no NaN or Infinity, got one in column '{column}' on line 2\. "
        r"Write null, or leave the value out\.$",
    ):
        read_table(path)


def test_nan_among_numbers_is_not_blamed_for_something_else(tmp_path):
    path = write(
        tmp_path / "a.jsonl",
        b'{"id": "a", "size": NaN}\n{"id": "b", "size": 1}\n{"id": 3, "size": 2}\n',
    )
    with pytest.raises(GraphError, match="in column 'id', got text on line 1 and an integer on"):
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


class Repeated(io.RawIOBase):
    """A stream of blocks, all but the first the same, that counts how many are read."""

    def __init__(self, first: bytes, block: bytes) -> None:
        super().__init__()
        self.blocks = chain([first], repeat(block, 100))
        self.num_reads = 0

    def read(self, size: int = -1) -> bytes:
        self.num_reads += 1
        return next(self.blocks, b"")


@pytest.mark.parametrize("blank", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("quoted", [True, False])
def test_endless_blank_lines_are_refused_without_a_step_for_each(blank, quoted, monkeypatch):
    num_lines = 0

    def counted(*given):
        nonlocal num_lines
        for pair in text_lines.numbered_lines(*given):
            num_lines += 1
            yield pair

    monkeypatch.setattr(diagnosis, "numbered_lines", counted)
    stream = Repeated(blank, blank * 2**20)
    with pytest.raises(GraphError, match=r"a\.csv must start with content, got [\d,]+ bytes of bl"):
        next(records(stream, quoted, "a.csv"))  # type: ignore[arg-type]
    assert num_lines < 100
    assert stream.num_reads < 50


def test_blank_lines_before_and_after_a_record_count_as_lines():
    data = b"\n" * 70_000 + b"a,b\n" + b"\r\n" * 70_000 + b'c,"d' + b"\n" * 70_000 + b'"\ne,f'
    assert lines_of(data) == [70_001, 140_002, 210_003]


def test_a_quote_without_end_is_refused_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(diagnosis, "LONGEST_LINE", 2**21)
    stream = Repeated(b'id,text\na,"b\n', b"c\n" * 2**19)
    tracemalloc.start()
    try:
        with pytest.raises(GraphError, match=r"2,097,152 bytes in a record, .* begins on line 2\."):
            list(records(stream, True, "a.csv"))  # type: ignore[arg-type]
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        ("a.jsonl", b" \n", "got something else on more than 9 lines"),
        ("a.jsonl", b'{"id": 1e999}\n', "got more than 9 lines that do not"),
        ("a.jsonl", b"\xff\n", "got other bytes on more than 9 lines"),
        ("a.csv", b"a\n", "got another number on more than 9 lines"),
        ("a.csv", b"\xff\n", "got other bytes on more than 9 lines"),
    ],
)
def test_damaged_lines_are_counted_up_to_a_limit(tmp_path, monkeypatch, name, line, words):
    monkeypatch.setattr(diagnosis, "_MAX_COUNTED", 9)
    monkeypatch.setattr(text_lines, "_BLOCK_BYTES", 64)
    explain = {
        "a.csv": lambda path: explain_delimited(path, b",", 2),
        "a.jsonl": lambda path: explain_jsonl(path, ["id"]),
    }[name]
    exact = explain(write(tmp_path / name, line * 9))
    assert "9 lines" in exact
    assert "more than" not in exact
    explained = explain(write(tmp_path / name, line * 5000))
    assert words in explained
    assert "(line 1, line 2, line 3, line 4, line 5, ...)" in explained
