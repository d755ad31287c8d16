"""The files of a table."""

import numpy as np
import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph.store.source_files import find_files
from tests.graph.folders import folder_of, parquet


def rows_of(files, columns=None):
    return [row for chunk in files.chunks(columns) for row in chunk.table.to_pylist()]


def test_files_come_in_the_order_of_their_paths(tmp_path):
    for name in ("b/1.csv", "a/2.csv", "a/1.csv"):
        path = tmp_path / "entities" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"id,text\n{name},x\n{name}!,x\n")
    (tmp_path / "entities" / ".hidden.csv").write_text("id\n")
    (tmp_path / "entities" / "_temporary").mkdir()
    (tmp_path / "entities" / "_temporary" / "0.csv").write_text("id\n")
    files = find_files(tmp_path, "entities")
    names = [row["id"] for row in rows_of(files, ["id"])]
    assert names == ["a/1.csv", "a/1.csv!", "a/2.csv", "a/2.csv!", "b/1.csv", "b/1.csv!"]
    assert files.locate([0, 3, 5]) == ["1.csv line 2", "2.csv line 3", "1.csv line 3"]
    assert files.value(4, "id").to_pylist() == ["b/1.csv"]
    assert files.name == "entities/"


def test_types_of_several_files_are_one(tmp_path):
    (tmp_path / "entities").mkdir()
    (tmp_path / "entities" / "0.parquet").write_bytes(parquet(id=[1], year=[2]))
    (tmp_path / "entities" / "1.parquet").write_bytes(parquet(id=[2], year=[2.5]))
    files = find_files(tmp_path, "entities")
    assert rows_of(files) == [{"id": 1, "year": 2.0}, {"id": 2, "year": 2.5}]
    (tmp_path / "entities" / "2.parquet").write_bytes(parquet(id=["a"], year=[2.5]))
    with pytest.raises(GraphError, match="one type per column, got files that differ"):
        find_files(tmp_path, "entities")


@pytest.mark.parametrize("column", ["id", "text", "features", "other"])
def test_tensors_are_one_clear_line(tmp_path, column):
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.ones((2, 2, 2), np.float32))
    table = pa.table({"id": ["a", "b"], "text": ["x", "y"]} | {column: tensors})
    (tmp_path / "entities").mkdir()
    for name in ("0", "1"):
        with pa.ipc.new_file(tmp_path / "entities" / f"{name}.arrow", table.schema) as writer:
            writer.write_table(table)
        with pytest.raises(
            GraphError, match=r"^0\.arrow must hold columns of text, numbers or vectors"
        ):
            find_files(tmp_path, "entities")


@pytest.mark.parametrize(
    ("files", "pattern", "words"),
    [
        ({}, "x*.csv", r"x\*\.csv must name at least one file, got none"),
        ({"x.txt": "", "y.csv": "id\n"}, "*.*", r"x\.txt must end in one of"),
        (
            {"id=3/x.csv": "id,text\na,b\n"},
            "**/*.csv",
            "must not name a column that its files have",
        ),
    ],
)
def test_what_is_no_source_is_refused(tmp_path, files, pattern, words):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(GraphError, match=words):
        find_files(tmp_path, "entities", pattern=pattern)


def test_a_folder_that_is_not_there_is_refused_as_by_reading(tmp_path):
    with pytest.raises(GraphError, match="A graph must be a folder, got nothing"):
        find_files(tmp_path / "none", "entities")
    folder_of(tmp_path)
    (tmp_path / "entities.csv").unlink()
    with pytest.raises(GraphError, match="must hold one entities file, got none"):
        find_files(tmp_path, "entities")
