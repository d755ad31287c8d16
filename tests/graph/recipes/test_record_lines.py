import bz2
import gzip
import hashlib
import json

import pyarrow as pa
import pytest

from reldp.errors import GraphError, InputError
from reldp.graph.recipes.literals import MAX_LINE
from reldp.graph.recipes.record_lines import RecordLines, clean_text, record_id
from reldp.graph.store import progress

ROWS = [{"a": i, "text": "x" * i} for i in range(40)]
PLAIN = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)


def lines(*paths, report=None):
    return RecordLines(paths, wanted="one a per line", is_record=lambda r: "a" in r, report=report)


def zstd(data):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".zst", zstd)]
)  # fmt: skip
def test_plain_and_compressed_files_are_the_same_and_progress_ends_at_their_size(
    tmp_path, ending, pack
):
    path = tmp_path / f"rows.jsonl{ending}"
    path.write_bytes(pack(PLAIN))
    ticks = []
    reader = lines(path, report=ticks.append)
    assert list(reader) == ROWS
    assert (reader.num_lines, sum(reader.drops.values())) == (40, 0)
    assert (ticks[-1].phase, ticks[-1].unit) == (f"reading rows.jsonl{ending}", "bytes")
    assert ticks[-1].done == ticks[-1].total == path.stat().st_size


def test_lines_without_a_record_are_counted_and_passed_over(tmp_path):
    path = tmp_path / "rows.jsonl"
    bad = [
        b"",
        b"   ",
        b"{",
        b"[1]",
        b"\xff\xfe",
        b'{"b": 1}',
        b'{"a": "' + b"x" * (3 * MAX_LINE) + b'"}',
    ]
    path.write_bytes(PLAIN + b"\n".join(bad) + b"\n" + b'{"a": 1}')  # the last line has no end
    reader = lines(path)
    assert list(reader) == [*ROWS, {"a": 1}]
    assert dict(reader.drops) == {"malformed_lines": 5}
    assert reader.num_lines == 46


def test_the_wrong_file_is_given_up_early_and_never_quoted(tmp_path):
    path = tmp_path / "wrong.jsonl"
    path.write_bytes(b"secret\n" * 1_500_000)
    with pytest.raises(
        GraphError, match=r"wrong\.jsonl must hold one a per line, got 1,000 of 1,000"
    ) as caught:
        list(lines(path))
    assert "secret" not in str(caught.value)
    path.write_bytes(b'{"a": 1}\n' + b"secret\n" * 2)
    with pytest.raises(GraphError, match="got 2 of 3 lines that hold none"):
        list(lines(path))
    path.write_bytes(b"\n \n")
    with pytest.raises(GraphError, match="got 0 of 0"):
        list(lines(path))


def test_files_that_are_no_files_are_refused_before_anything_is_read(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    (tmp_path / "a.zip").write_bytes(b"PK")
    for name, words in (
        ("folder", "must be a file, got a folder"), ("nowhere", "must be a file, got none"),
        ("empty", "must not be empty"), ("a.zip", r"must be plain or end in \.gz"),
    ):  # fmt: skip
        with pytest.raises(GraphError, match=words):
            lines(tmp_path / name)
    with pytest.raises(GraphError, match="something else"):
        lines("/dev/zero")
    with pytest.raises(InputError, match="at least one"):
        lines()
    with pytest.raises(InputError, match="different names"):
        lines(tmp_path / "a" / "x", tmp_path / "b" / "x")


@pytest.mark.parametrize("cut", [7, -9])
def test_a_file_that_was_cut_short_is_refused(tmp_path, cut):
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(PLAIN)[:cut])
    with pytest.raises(GraphError, match=r"rows\.jsonl\.gz must be a whole gzip file"):
        list(lines(path))


def test_hashes_are_those_of_what_was_read(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(PLAIN)
    reader = lines(path)
    assert len(list(reader)) == 40
    assert reader.hashes() == {"rows.jsonl": hashlib.sha256(PLAIN).hexdigest()}
    path.write_bytes(PLAIN + PLAIN)
    with pytest.raises(GraphError, match=r"rows\.jsonl must not change while it is read"):
        reader.hashes()


def test_texts_are_cleaned_and_ids_kept_short():
    assert clean_text(" a\tb\n <br/>c &lt;3 1 < 2 ") == "a b c <3 1 < 2"
    assert clean_text("\ud83d\ude00") == "😀"
    assert clean_text(None) == clean_text(["a"]) == clean_text(" \x00 ") == ""
    with pytest.raises(ValueError, match="codec"):
        clean_text("\ud83d")
    assert [record_id(x) for x in ("a ", 7, -1, True, 1.5, None, "x" * 201, 10**300)] == [
        "a", "7", "-1", "", "", "", "", "",
    ]  # fmt: skip


def test_progress_is_reported_while_a_block_of_the_file_unpacks(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "_INTERVAL", 0.0)
    seen = []
    (tmp_path / "records.json.gz").write_bytes(gzip.compress(PLAIN))
    assert len(list(lines(tmp_path / "records.json.gz", report=seen.append))) == len(ROWS)
    assert len(seen) > len(ROWS)
