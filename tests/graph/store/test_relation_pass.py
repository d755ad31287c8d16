"""Relations are joined, checked and merged."""

import numpy as np
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.store import build_store
from reldp.graph.store import relation_pass as module
from tests.graph.folders import folder_of, parquet


def test_rows_keep_their_order_whatever_order_the_join_has(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 1000)
    rng = np.random.default_rng(0)
    pairs = rng.permutation([(i, j) for i in range(200) for j in range(i)])
    columns = {"source": pairs[:, 0], "target": pairs[:, 1]}
    source = folder_of(
        tmp_path,
        entities_parquet=parquet(id=list(range(200)), text=["x"] * 200),
        relations_parquet=parquet(**columns),
    )
    stored = build_store(source, tmp_path / "store")
    assert np.array_equal(stored.relations, pairs)
    assert np.array_equal(stored.degrees, np.full(200, 199))


@pytest.mark.parametrize("header", ["source,target\n", "source,target,type\n"])
def test_no_relation_at_all_is_a_graph(tmp_path, header):
    source = folder_of(tmp_path, relations_csv=header)
    stored = build_store(source, tmp_path / "store")
    assert stored == EntityGraph.read(source)
    assert stored.relations.shape == (0, 2)
    assert stored.cap_degrees(1, 0).num_relations == 0


@pytest.mark.parametrize(
    ("ids", "ends"),
    [([7, 8], ["7", "8"]), (["7", "8"], [7, 8])],
)
def test_ids_of_two_types_meet_only_if_one_side_has_none(tmp_path, ids, ends):
    source = folder_of(
        tmp_path,
        entities_parquet=parquet(id=ids, text=["x", "y"]),
        relations_parquet=parquet(source=ends[:1], target=ends[1:]),
    )
    with pytest.raises(GraphError, match="ids of the same type as the entities'"):
        build_store(source, tmp_path / "store")
    (source / "relations.parquet").unlink()
    (source / "relations.csv").write_text("source,target\n7,8\n07,8\n")
    with pytest.raises(GraphError, match=r"got 1 unknown source ids \(line 3\)"):
        build_store(source, tmp_path / "store")
    stored = build_store(source, tmp_path / "store", drop=["unknown_ids"])
    assert stored == EntityGraph.read(source, drop=["unknown_ids"])


def test_types_that_only_dropped_rows_have_are_no_types(tmp_path):
    lines = "a,b,likes\na,a,hates\nb,a,likes\n"
    source = folder_of(tmp_path, relations_csv="source,target,type\n" + lines)
    stored = build_store(source, tmp_path / "store", drop=["self_relations"])
    assert stored.type_names == ("likes",)
    assert stored == EntityGraph.read(source, drop=["self_relations"])
    (source / "record.json").write_text('{"relation_types": ["likes", "sees", "hates"]}')
    declared = build_store(source, tmp_path / "declared", drop=["self_relations"])
    assert declared.type_names == ("hates", "likes", "sees")
    assert declared == EntityGraph.read(source, drop=["self_relations"])
