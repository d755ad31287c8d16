"""The quotes of a CSV file, against a slow state machine, Arrow's reader and Python's."""

import bz2
import csv
import gzip
import io
import itertools
import tempfile
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reldp.errors import GraphError
from reldp.graph import EntityGraph, csv_quotes
from reldp.graph.csv_quotes import CheckedStream, QuoteCheck, refuse_quotes
from reldp.graph.diagnosis import records, well_formed
from reldp.graph.formats import BLOCK_BYTES, delimited_options, read_table
from reldp.graph.store import build_store

MARK = "\ufeff"
LOST = b'id,text,protected\na,"private notes of a,true\nc,"a chair",false\nd0,text 0,true\n'
WORDS = (
    r"entities\.csv{} must have a comma or a line end after a closing quote, got text on line 3, where a field ends "
    r"that begins on line 2\. Close each quote at the end of its field, and double the quotes inside\.$"
)

Rows = list[tuple[str, ...]]


def follow(text: str) -> tuple[Rows, str]:
    """Read a CSV text one character at a time; return its rows, and "stray", "open" or "" for its quotes."""
    rows, row, field, state, fault, is_blank = Rows(), [], "", "start", "", True
    text = text.removeprefix(MARK)
    for i, mark in enumerate(text):
        if mark == "\n" and text[i - 1 : i] == "\r" and state == "start":
            continue
        if state == "quoted":
            state, field = ("closing", field) if mark == '"' else (state, field + mark)
            continue
        if state == "closing" and mark == '"':
            state, field = "quoted", field + mark
            continue
        if state == "closing" and mark not in ",\r\n":
            fault = fault or "stray"
        if state == "start" and mark == '"':
            state, is_blank = "quoted", False
        elif mark == ",":
            row, field, state, is_blank = [*row, field], "", "start", False
        elif mark in "\r\n":
            rows += [] if is_blank else [(*row, field)]
            row, field, state, is_blank = [], "", "start", True
        else:
            field, state, is_blank = field + mark, "plain", False
    rows += [] if is_blank else [(*row, field)]
    return rows, fault or ("open" if state == "quoted" else "")


def verdict(data: bytes, sizes: itertools.cycle, path: Path = Path("a.csv")) -> str:
    """What the check says of a text in blocks of these sizes."""
    check, at = QuoteCheck(path), 0
    check._line = lambda position: position  # type: ignore[method-assign]
    try:
        while at < len(data):
            size = next(sizes)
            check.add(data[at : at + size])
            at += size
        check.finish()
    except GraphError as error:
        return "open" if "stays open" in str(error) else "stray"
    return ""


TEXT = st.tuples(
    st.sampled_from(["", MARK]),
    st.lists(st.sampled_from([*'ab",\n\r ', '""', '","', '"\n"', "\r\n", 'a"', ',"b', 'é"'])),
).map(lambda parts: parts[0] + "".join(parts[1]))
SIZES = st.lists(st.integers(3, 12), min_size=1).map(itertools.cycle)


@given(text=TEXT, sizes=SIZES, block=st.integers(1, 9))
@settings(max_examples=2000, deadline=None)
def test_the_check_is_the_slow_state_machine_whatever_the_blocks(text, sizes, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_quotes, "_BLOCK_BYTES", block)
        assert verdict(text.encode(), sizes) == follow(text)[1]


def test_every_short_text_is_judged_as_by_the_slow_state_machine():
    for length in range(1, 8):
        for marks in itertools.product('a",\n', repeat=length):
            text = "".join(marks)
            expected = follow(text)[1]
            assert verdict(text.encode(), itertools.cycle([3])) == expected, text
            assert verdict(text.encode(), itertools.cycle([100])) == expected, text


@given(text=TEXT, block=st.sampled_from([16, 64, BLOCK_BYTES]))
@settings(max_examples=600, deadline=None)
@example(text='a,"b\nc,"d",e\n', block=BLOCK_BYTES)
@example(text=MARK + '","","",","b\r\n', block=16)
@example(text='aaa"","é""aa\r\n\r\na', block=16)
def test_the_slow_state_machine_reads_the_rows_that_arrow_reads(text, block):
    """Also where quotes are wrong: so what is refused is all that Arrow would read in a way of its own."""
    rows, fault = follow(text)
    widths = {len(row) for row in rows}
    if len(widths) != 1:
        return
    given = delimited_options(",", [str(i) for i in range(widths.pop())], 0)
    given["read_options"].block_size = block
    try:
        table = pc.read_csv(pa.BufferReader(text.encode()), **given)
    except pa.ArrowInvalid:  # a record that is longer than a block
        assert block < BLOCK_BYTES
        return
    read = list(zip(*(c.to_pylist() for c in table.columns), strict=True))
    if fault == "open":  # which line breaks the last field has depends on the blocks
        read, rows = (
            [*all_rows[:-1], (*all_rows[-1][:-1], "".join(all_rows[-1][-1].splitlines()))]
            for all_rows in (read, rows)
        )
    assert read == rows


@given(text=TEXT)
@settings(max_examples=1000, deadline=None)
def test_what_is_accepted_is_what_pythons_strict_reader_accepts_and_reads_alike(text):
    rows, fault = follow(text)
    text = text.removeprefix(MARK)
    try:
        read = [tuple(row) for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error:
        read = None
    if read is None:
        assert fault
        return
    assert not fault
    assert read == rows


def packed(path: Path, data: bytes) -> Path:
    ends = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": pa.Codec("zstd").compress}
    data = ends[path.suffix](data) if path.suffix in ends else data
    path.write_bytes(data.to_pybytes() if isinstance(data, pa.Buffer) else data)
    return path


@pytest.mark.parametrize("end", ["", ".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("drop", [frozenset(), frozenset({"malformed_lines"})])
def test_a_quote_that_is_closed_too_late_takes_no_row_and_no_protection(tmp_path, end, drop):
    path = packed(tmp_path / f"entities.csv{end}", LOST)
    (tmp_path / "relations.csv").write_bytes(b"source,target\na,d0\n")
    words = WORDS.format(end.replace(".", r"\."))
    with pytest.raises(GraphError, match=words):
        read_table(path, drop=drop)
    with pytest.raises(GraphError, match=words):
        EntityGraph.read(tmp_path, drop=drop)
    with pytest.raises(GraphError, match=words):
        build_store(tmp_path, tmp_path / "store", drop=drop)


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("mark", [b"", MARK.encode()])
def test_lines_are_counted_as_they_end(tmp_path, newline, mark):
    path = tmp_path / "entities.csv"
    path.write_bytes(mark + LOST.replace(b"\n", newline))
    with pytest.raises(GraphError, match=WORDS.format("")):
        read_table(path)
    path.write_bytes(mark + b'id,text\n\n"a","b"c\n'.replace(b"\n", newline))
    with pytest.raises(GraphError, match=r"after a closing quote, got text on line 3\. Close"):
        read_table(path)
    path.write_bytes(mark + b'id,text\na,"b\n\n"\nc,"d\n'.replace(b"\n", newline))
    with pytest.raises(GraphError, match="must close every quote, but the one opened on line 5"):
        read_table(path)


@pytest.mark.parametrize(
    "header", [b'"id"x,text\n', b'id,text,"a\nb"c\n', b'\xef\xbb\xbf"id"x,text\n']
)
def test_quotes_of_column_names_are_checked(tmp_path, header):
    path = tmp_path / "entities.csv"
    path.write_bytes(header + b"a,b\n")
    with pytest.raises(GraphError, match="must have a comma or a line end after a closing quote"):
        read_table(path)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_quoted_column_name_with_a_line_end_adds_no_row(tmp_path, newline):
    path = tmp_path / "entities.csv"
    path.write_bytes(f'\ufeffid,"a{newline}b, c"\n1,x\n'.encode())
    assert read_table(path).table.to_pylist() == [{"id": "1", f"a{newline}b, c": "x"}]


def test_a_quote_in_a_field_that_is_not_quoted_is_a_character(tmp_path):
    path = tmp_path / "entities.csv"
    path.write_bytes(b'id,text\na,5" pipe\nb, "x"\nc,"5"" pipe"\nd,""\n')
    texts = read_table(path).table["text"].to_pylist()
    assert texts == ['5" pipe', ' "x"', '5" pipe', ""]
    tsv = tmp_path / "entities.tsv"
    tsv.write_bytes(LOST.replace(b",", b"\t"))
    assert read_table(tsv).table["id"].to_pylist() == ["a", "c", "d0"]


@given(
    rows=st.lists(st.tuples(*[st.text(st.sampled_from('ab", \r\n'), min_size=1)] * 2), min_size=1)
)
@settings(max_examples=200, deadline=None)
def test_what_pythons_writer_writes_is_read_as_it_was(rows):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv.gz"
        with gzip.open(path, "wt", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("id", "text"), *rows])
        table = read_table(path).table
    assert list(zip(*(c.to_pylist() for c in table.columns), strict=True)) == rows


@given(text=TEXT)
@settings(max_examples=500, deadline=None)
def test_records_of_a_diagnosis_refuse_the_same_quotes(text):
    def is_refused(read):
        try:
            read()
        except GraphError as error:
            return "quote" in str(error)
        return False

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_bytes(text.encode())
        fault = bool(follow(text)[1])
        assert is_refused(lambda: refuse_quotes(path)) == fault
        stream = io.BytesIO(text.encode())
        assert is_refused(lambda: list(records(stream, True, "a.csv"))) == fault
        assert is_refused(lambda: well_formed(path, b",", 2, header=False)) == fault


def test_blocks_take_bounded_memory_and_a_stream_is_read_as_it_is():
    data = b'"a","5"" ""pipe"\n5" pipe,"b"\n' * 400_000
    stream = CheckedStream(io.BytesIO(data), Path("a.csv"))
    read = stream.read(100) + stream.read(BLOCK_BYTES)
    tracemalloc.start()
    try:
        stream._check.add(data[BLOCK_BYTES + 100 :][: 2**23])
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()
    assert read == data[: BLOCK_BYTES + 100]
    assert stream.readable()
