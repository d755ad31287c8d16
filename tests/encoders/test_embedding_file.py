"""Embeddings are written a part at a time, completely or not at all."""

import stat
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reldp.encoders import FeatureEncoder, TextEncoder
from reldp.encoders.embedding_file import check_embedding_file, write_embeddings
from reldp.errors import EncoderError, GraphError, InputError, RunError
from reldp.graph import EntityGraph
from reldp.graph.store import build_store, column_file
from tests.encoders.tiny import TEXTS, write_model


def graph(size: int = 10, dim: int = 3) -> EntityGraph:
    features = np.random.default_rng(0).normal(size=(size, dim)).astype(np.float32)
    return EntityGraph.from_lists([f"id {i}" for i in range(size)], [], features=features)


@pytest.mark.parametrize("entities_at_once", [1, 3, 10, 100])
def test_ids_and_embeddings_are_those_of_the_graph(tmp_path: Path, entities_at_once: int) -> None:
    encoder, data = FeatureEncoder(3, dim=5), graph()
    done = []
    count = write_embeddings(
        encoder,
        data,
        tmp_path / "x.parquet",
        entities_at_once=entities_at_once,
        progress=lambda *counts: done.append(counts),
    )
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.schema.names == ["id", "embedding"]
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), 5)
    assert table.column("id").to_pylist() == data.ids.to_pylist()
    vectors = np.array(table.column("embedding").to_pylist(), np.float32)
    assert np.allclose(vectors, encoder.encode_graph(data), atol=1e-6)
    assert not np.isclose(vectors, encoder.encode_graph(data)[::-1], atol=1e-3).all(axis=1).any()
    assert count == sum(part for part, _ in done) == 10
    assert {total for _, total in done} == {10}
    assert pq.ParquetFile(tmp_path / "x.parquet").num_row_groups == -(-10 // entities_at_once)


def test_texts_integers_and_capped_graphs(tmp_path: Path) -> None:
    encoder = TextEncoder.load(write_model("bert", tmp_path / "model"), train="none")
    size = len(TEXTS)
    ring = [(i, (i + 1) % size) for i in range(size)]
    data = EntityGraph.from_lists(list(range(size)), ring, text=TEXTS)
    capped = data.cap_degrees(2, seed=0)
    assert write_embeddings(encoder, capped, tmp_path / "x.parquet", entities_at_once=3) == size
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.column("id").type == pa.int64()
    vectors = np.array(table.column("embedding").to_pylist(), np.float32)
    assert np.allclose(vectors, encoder.encode_graph(data), atol=1e-5)
    others = np.roll(encoder.encode_graph(data), 1, axis=0)
    assert not np.isclose(vectors, others, atol=1e-3).all(axis=1).any()


@pytest.mark.parametrize("kind", ["features", "texts", "integers"])
def test_a_store_gives_the_file_of_the_graph_it_was_made_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(column_file, "BATCH_ROWS", 3)  # parts begin and end within batches
    data, encoder = graph(), FeatureEncoder(3, dim=5)
    if kind != "features":
        ids = list(range(len(TEXTS))) if kind == "integers" else [f"id {t}" for t in TEXTS]
        data = EntityGraph.from_lists(ids, [], text=TEXTS)
        encoder = TextEncoder.load(write_model("bert", tmp_path / "model"), train="none")
    data.write(tmp_path / "graph")
    store = build_store(tmp_path / "graph", tmp_path / "store")
    for at_once in (1, 4, 100):
        files = []
        for name, source in (("graph", data), ("store", store)):
            files.append(tmp_path / f"{name}.parquet")
            write_embeddings(encoder, source, files[-1], entities_at_once=at_once, overwrite=True)
        tables = [pq.read_table(file) for file in files]
        assert tables[0].equals(tables[1], check_metadata=True)
        assert files[0].read_bytes() == files[1].read_bytes()


def test_memory_does_not_grow_with_the_graph(tmp_path: Path) -> None:
    encoder, peaks = FeatureEncoder(4, dim=256), []
    for size in (2_000, 40_000):
        data = graph(size, 4)
        _ = data.features
        tracemalloc.start()
        write_embeddings(encoder, data, tmp_path / f"{size}.parquet", entities_at_once=500)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 40_000 * 256 * 4 / 10  # all embeddings are 40 MB


def test_the_file_is_its_owners(tmp_path: Path) -> None:
    write_embeddings(FeatureEncoder(3), graph(), tmp_path / "x.parquet")
    assert stat.S_IMODE((tmp_path / "x.parquet").stat().st_mode) == 0o600


def test_a_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_embeddings(FeatureEncoder(3), graph(4), path)
    with pytest.raises(InputError, match=r"`output` must be a new file, got 'x.parquet'"):
        write_embeddings(FeatureEncoder(3), graph(), path)
    assert pq.read_table(path).num_rows == 4
    write_embeddings(FeatureEncoder(3), graph(), path, overwrite=True)
    assert pq.read_table(path).num_rows == 10


def test_what_fails_halfway_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, encoder = tmp_path / "x.parquet", FeatureEncoder(3)
    write_embeddings(encoder, graph(4), path)

    def fail(done: int, total: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(RunError, match=r"x.parquet could not be written: the disk is full"):
        write_embeddings(encoder, graph(), path, overwrite=True, progress=fail)
    broken = np.full((10, 3), np.nan, np.float32)
    monkeypatch.setattr(encoder, "encode_graph", lambda *given, **more: broken)
    with pytest.raises(EncoderError, match="finite embeddings"):
        write_embeddings(encoder, graph(), path, overwrite=True)
    assert [item.name for item in tmp_path.iterdir()] == ["x.parquet"]
    assert pq.read_table(path).num_rows == 4


def test_bad_input_is_one_clear_line(tmp_path: Path) -> None:
    encoder = FeatureEncoder(3)
    for path, words in (
        (tmp_path / "x.csv", r"must end in .parquet, got 'x.csv'"),
        (tmp_path / "no" / "x.parquet", "in a folder that exists"),
    ):
        with pytest.raises(InputError, match=words):
            write_embeddings(encoder, graph(), path)
    (tmp_path / "y.parquet").mkdir()
    with pytest.raises(InputError, match=r"must be a file, got the folder 'y\.parquet'"):
        check_embedding_file(tmp_path / "y.parquet", overwrite=True)
    for name in ("batch_size", "entities_at_once"):
        with pytest.raises(InputError, match=f"`{name}` must be an integer"):
            write_embeddings(encoder, graph(), tmp_path / "x.parquet", **{name: 0})  # type: ignore[arg-type]
    with pytest.raises(EncoderError, match=r"must have shape \(entities, 3\)"):
        write_embeddings(encoder, graph(dim=7), tmp_path / "x.parquet")
    texts = EntityGraph.from_lists(["a", "b"], [], text=["x", "y"])
    with pytest.raises((GraphError, EncoderError), match="features"):
        write_embeddings(encoder, texts, tmp_path / "x.parquet")
    assert [item.name for item in tmp_path.iterdir()] == ["y.parquet"]
