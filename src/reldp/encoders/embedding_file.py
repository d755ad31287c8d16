"""Embeddings of a graph's entities, written to a Parquet file a part at a time.

The file has two columns: `id`, a string or a 64-bit integer as in the graph, and `embedding`, a list of
`dim` 32-bit floats per entity, in the order of the graph. A graph store gives the same file as the graph
that it was built from. Memory is bounded by the entities encoded at a time, however many
the graph has. The file appears complete or not at all, readable by its owner only.

The embeddings are **sensitive**: each is computed from its entity's text or features without noise.
A certificate covers the encoder, and what the encoder learned from relations; it does not cover the
inputs that are encoded here.

Public: `write_embeddings`. Inside the package: `check_embedding_file`.

>>> import tempfile, pyarrow.parquet
>>> from reldp.encoders import FeatureEncoder
>>> from reldp.graph import EntityGraph
>>> graph = EntityGraph.from_lists(["a", "b"], [("a", "b")], features=[[1.0, 2.0], [3.0, 4.0]])
>>> with tempfile.TemporaryDirectory() as folder:
...     write_embeddings(FeatureEncoder(2), graph, Path(folder) / "vectors.parquet")
...     pyarrow.parquet.read_table(Path(folder) / "vectors.parquet").to_pylist()[1]
2
{'id': 'b', 'embedding': [3.0, 4.0]}
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reldp._validate import check_integer
from reldp.encoders.encoder import Encoder, entities_of
from reldp.encoders.shared_encoding import encode_together
from reldp.errors import EncoderError, InputError
from reldp.graph.columns import is_text, single
from reldp.processes import join_processes
from reldp.runs.durable import write_with

if TYPE_CHECKING:
    from reldp.graph import CappedGraph, EntityGraph

__all__ = ["check_embedding_file", "write_embeddings"]

_ENTITIES_AT_ONCE = 8192


def write_embeddings(
    encoder: Encoder,
    graph: "EntityGraph | CappedGraph",
    path: str | Path,
    *,
    batch_size: int | None = None,
    entities_at_once: int = _ENTITIES_AT_ONCE,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write the id and the embedding of every entity to a Parquet file.

    Processes that torchrun started compute the embeddings together, and the first one writes the file.

    Args:
        encoder: The encoder.
        graph: Graph whose entities are encoded; its relations are not used.
        path: The file, which must end in ``.parquet``.
        batch_size: Number of entities in a batch of the encoder (default: the encoder's choice).
        entities_at_once: Number of entities that are held in memory at a time.
        overwrite: Replace a file that exists.
        progress: Function that is called with the number of entities written since its last call,
            and the number of all.

    Returns:
        The number of entities written.

    Raises:
        InputError: The file exists or cannot be there, or the encoder does not fit the graph.
        RunError: The disk is full, or the like; what was there before is kept.
    """
    processes = join_processes()
    if processes.is_first:
        target = check_embedding_file(path, overwrite=overwrite)
    check_integer("entities_at_once", entities_at_once, low=1, error=InputError)
    if batch_size is not None:
        check_integer("batch_size", batch_size, low=1, error=InputError)
    entities = entities_of(graph)
    total = entities.num_entities

    def chunks() -> Iterator[tuple[Any, Any]]:
        for start in range(0, total, entities_at_once):
            rows = np.arange(start, min(start + entities_at_once, total))
            yield rows, encode_together(encoder, graph, rows, batch_size=batch_size)

    def write(partial: Path) -> None:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with _writer(partial, entities, encoder.dim) as file:
            for rows, vectors in chunks():
                file.write_batch(_batch(file.schema, entities, rows, vectors))
                if progress is not None:
                    progress(len(rows), total)

    with processes.reporting():
        if processes.is_first:
            write_with(target, write)
        else:
            for _ in chunks():
                continue
        processes.wait()
    return total


def check_embedding_file(path: str | Path, *, overwrite: bool = False) -> Path:
    """Return the path of a new file, or of one that may be replaced.

    Raises:
        InputError: The name has another ending, the folder is missing, or the file exists.
    """
    target = Path(path)
    if target.suffix != ".parquet":
        raise InputError(f"`output` must end in .parquet, got {target.name or str(path)!r}.")
    if not target.parent.is_dir():
        raise InputError(
            f"`output` must be in a folder that exists, got {str(target.parent)!r}. Make it first."
        )
    if target.is_dir():
        raise InputError(f"`output` must be a file, got the folder {target.name!r}.")
    if target.exists() and not overwrite:
        raise InputError(
            f"`output` must be a new file, got {target.name!r}, which exists. Choose another name, or "
            "set `overwrite`."
        )
    return target


def _writer(path: Path, entities: "EntityGraph", dim: int) -> Any:
    """Return a Parquet writer for ids and embeddings."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = pa.string() if is_text(entities.ids.type) else entities.ids.type
    schema = pa.schema([("id", kind), ("embedding", pa.list_(pa.float32(), dim))])
    return pq.ParquetWriter(path, schema, compression="zstd")


def _batch(schema: Any, entities: "EntityGraph", rows: Any, vectors: Any) -> Any:
    """Return the ids and embeddings of some entities, if they are finite."""
    import pyarrow as pa

    if not np.isfinite(vectors).all():
        raise EncoderError("`encoder` must give finite embeddings, got NaN or infinity.")
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    ids = single(entities.ids.slice(int(rows[0]), len(rows)))  # of a store: in several chunks
    columns = [
        ids.cast(schema.field("id").type),
        pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
