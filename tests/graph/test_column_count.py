"""Too many columns are refused before a table of them is made, in every format."""

import json

import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph, column_count, text_lines
from reldp.graph.column_count import refuse_keys
from reldp.graph.formats import read_table
from reldp.graph.store.format_chunks import file_chunks
from tests.graph.folders import arrow, parquet

NAMES = ["id", "text", *(f"c{i}" for i in range(30))]
ROW = dict.fromkeys(NAMES, "x")
DIFFERENT = "".join(f'{{"id":"a{i}","text":"x","k{i}":1}}\n' for i in range(30))
FILES = {
    "x.csv": ",".join(NAMES) + "\n" + ",".join(ROW.values()) + "\n",
    "x.tsv": "\t".join(NAMES) + "\n" + "\t".join(ROW.values()) + "\n",
    "x.jsonl": json.dumps(ROW) + "\n",
    "different.jsonl": DIFFERENT,
    "x.parquet": parquet(**{name: ["x"] for name in NAMES}),
    "x.arrow": arrow(**{name: ["x"] for name in NAMES}),
}
HIDDEN = {
    "spaces": "".join(f'{{"id" : "a", "k{i}" : 1}}\n' for i in range(30)),
    "escaped": "".join(f'{{"id":"a","k{i}\\"b":1}}\n' for i in range(30)),
    "backslash": "".join(f'{{"id":"a","k{i}\\\\":1}}\n' for i in range(30)),
    "within": "".join(f'{{"id":"a","b":{{"k{i}":1}}}}\n\n' for i in range(30)),
    "lists": "".join(f'{{"id":"a","b":[[{{"k{i}":1}}]]}}\n\n' for i in range(30)),
    "paths": "".join(f'{{"k{i // 6}":{{"k{i % 6}":1}}}}\n' for i in range(36)),
    "one line": " ".join(f'{{"id":"a","k{i}":1}}' for i in range(30)),
    "no last line end": DIFFERENT.rstrip("\n"),
    "windows": DIFFERENT.replace("\n", "\r\n"),
    "mark": "\ufeff" + DIFFERENT,
}


@pytest.fixture(autouse=True)
def _few_columns(monkeypatch):
    monkeypatch.setattr(column_count, "MAX_COLUMNS", 20)
    monkeypatch.setattr(text_lines, "_BLOCK_BYTES", 100)


@pytest.mark.parametrize("read", [read_table, file_chunks])
@pytest.mark.parametrize("name", FILES)
def test_every_format_is_refused_before_its_rows_are_read(tmp_path, monkeypatch, name, read):
    import pyarrow.csv
    import pyarrow.json
    import pyarrow.parquet

    for module, function in (
        (pyarrow.csv, "read_csv"),
        (pyarrow.json, "read_json"),
        (pyarrow.parquet, "read_table"),
    ):
        monkeypatch.setattr(module, function, lambda *_, **__: pytest.fail("rows were read"))
    path, data = tmp_path / name, FILES[name]
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    with pytest.raises(GraphError, match=rf"^{name} must have at most 20 .*, got \d+\. Leave"):
        read(path)


@pytest.mark.parametrize("name", HIDDEN)
def test_no_way_of_writing_hides_keys(tmp_path, name):
    path = tmp_path / "x.jsonl"
    path.write_bytes(HIDDEN[name].encode())
    with pytest.raises(GraphError, match="at most 20 different keys"):
        refuse_keys(path)


@pytest.mark.parametrize(
    "row",
    [
        {"id": "a", "text": 'he said "a": {b}, "c" : d'},
        {"id": "a", "text": "x", "features": [0.5, 1]},
        {"id": "a", "text": "x", "inner": {"a": [{"b": 1}]}},
    ],
)
def test_texts_and_few_keys_are_allowed(tmp_path, row):
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(row | {"id": f"a{i}"}) + "\n" for i in range(50)))
    refuse_keys(path)
    assert read_table(path).table.num_rows == 50


def test_plain_lines_are_not_parsed(tmp_path, monkeypatch):
    monkeypatch.setattr(column_count, "_count_exactly", lambda *_: pytest.fail("parsed"))
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps({"id": i, "text": f"t {i}"}) + "\n" for i in range(50)))
    refuse_keys(path)


def test_lines_that_cannot_be_counted_are_refused(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(DIFFERENT.splitlines()[0] + '\n{"a": {\n')
    with pytest.raises(GraphError, match=r"one JSON object per line.*line 2"):
        refuse_keys(path)


def test_tables_in_memory_are_refused_too():
    table = pa.table({name: ["x"] for name in NAMES})
    relations = pa.table({"source": ["x"], "target": ["x"]})
    with pytest.raises(GraphError, match="entities must have at most 20 columns, got 32"):
        EntityGraph.from_arrow(table, relations)


NESTED = {
    "lists": "[" * 40 + "]" * 40,
    "objects": '{"a":' * 40 + "1" + "}" * 40,
    "behind brackets in a text": '"]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]","n":'
    + "[" * 40
    + "]" * 40,
    "both": '[{"a":' * 20 + "1" + "}]" * 20,
    "beyond the parser": "[" * 20_000 + "]" * 20_000,
}


@pytest.mark.parametrize("read", [read_table, file_chunks])
@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("place", [0, 7, 30])
def test_deep_nesting_is_refused_before_arrow_ends_the_process(tmp_path, read, name, place):
    rows = [f'{{"id":"a{i}","text":"x"}}\n' for i in range(30)]
    rows.insert(place, f'{{"id":"x","text":"a","m":{NESTED[name]}}}\n')
    path = tmp_path / "x.jsonl"
    path.write_text("".join(rows))
    with pytest.raises(GraphError, match=r"within one another|one JSON object per line"):
        list(iter(read(path))) if read is file_chunks else read(path)


def test_flat_lists_and_brackets_in_texts_are_no_nesting(tmp_path):
    path = tmp_path / "x.jsonl"
    lines = [f'{{"id":"a{i}","text":"{"[{" * 50}","f":[[1],[2,3]]}}\n' for i in range(40)]
    path.write_text("".join(lines))
    refuse_keys(path)
    assert read_table(path).table.num_rows == 40
    path.write_text("".join(lines) + '{"id":"x","f":' + "[" * 31 + "]" * 31 + "}")
    refuse_keys(path)
    path.write_text("".join(lines) + '{"id":"x","f":' + "[" * 32 + "]" * 32 + "}")
    with pytest.raises(GraphError, match="at most 32 lists"):
        refuse_keys(path)


@pytest.mark.parametrize("tail", ["1.5", "null", '"x"', "true"])
def test_a_value_that_is_no_object_after_many_lists_is_one_line(tmp_path, tail):
    lines = '{"id":"a","z":[]}', f'{{"id":"b","z":[{",".join(["{}"] * 500)}]}} {tail}'
    (tmp_path / "x.jsonl").write_text("\n".join(lines) + "\n")
    refuse_keys(tmp_path / "x.jsonl")
    if tail != "null":  # to Arrow, that is a row without values
        with pytest.raises(GraphError, match="must hold one JSON object per line"):
            read_table(tmp_path / "x.jsonl")
