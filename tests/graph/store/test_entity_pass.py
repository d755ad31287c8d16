"""Entities are written as they were checked."""

import numpy as np
import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph.store import source_files
from reldp.graph.store.engine import opened
from reldp.graph.store.entity_pass import write_entities
from reldp.graph.store.progress import Progress
from reldp.graph.store.settings import BuildSettings
from reldp.graph.store.source_files import find_files
from tests.graph.folders import parquet


def write(folder, drop=(), **columns):
    (folder / "entities.parquet").write_bytes(parquet(**columns))
    files = find_files(folder, "entities")
    with opened(BuildSettings(), folder) as engine:
        return write_entities(files, folder, frozenset(drop), engine, Progress(), show_ids=False)


def test_rows_that_are_left_get_new_indices(tmp_path):
    written = write(
        tmp_path, ["empty_text", "duplicate_ids"], id=[5, 7, 5, 9], text=["a", "", "b", "c"]
    )
    assert written.num_entities == 2
    assert written.index.tolist() == [0, -1, -1, 1]
    assert written.drops == {"empty_text": 1, "duplicate_ids": 1}
    assert written.columns == ("id", "text")


def test_no_index_is_kept_where_every_row_is_left(tmp_path):
    assert write(tmp_path, id=["a"], text=["x"]).index is None


def test_a_vector_may_come_late_and_the_first_one_decides(tmp_path, monkeypatch):
    monkeypatch.setattr(source_files, "CHUNK_ROWS", 1)
    features = [None, [1.0, 2.0], [3.0, float("nan")], [5.0, 6.0]]
    written = write(tmp_path, ["bad_features"], id=[1, 2, 3, 4], features=features)
    assert written.feature_size == 2
    assert written.drops == {"bad_features": 2}
    assert np.load(tmp_path / "features.npy").tolist() == [[1.0, 2.0], [5.0, 6.0]]


def test_columns_that_cannot_be_kept_are_counted_once(tmp_path, monkeypatch):
    monkeypatch.setattr(source_files, "CHUNK_ROWS", 1)
    written = write(tmp_path, ["extra_columns"], id=[1, 2, 3], text=["x"] * 3, tags=[["a"]] * 3)
    assert written.drops == {"extra_columns": 1}


def test_features_of_several_lengths_and_none_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(source_files, "CHUNK_ROWS", 1)
    with pytest.raises(GraphError, match=r"features of one length, got 1 .* \(row 2\)"):
        write(tmp_path, id=[1, 2], features=[[1.0], [1.0, 2.0]])
    (tmp_path / "entities.arrow").unlink(missing_ok=True)
    (tmp_path / "features.npy").unlink(missing_ok=True)
    with pytest.raises(GraphError, match="must hold a vector per entity"):
        write(tmp_path, id=[1, 2], features=pa.array([[], None], pa.list_(pa.float64())))
