"""Stores that somebody edited: values are changed, and all hashes and the fingerprint are computed again."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from reldp.graph.store.blocks import hash_blocks
from reldp.graph.store.column_file import ColumnWriter
from reldp.graph.store.manifest import Manifest
from reldp.graph.store.stored_graph import StoredGraph


def write_array(path: Path, array: np.ndarray) -> None:
    """Write an array in place of a file, and its hashes where they are kept."""
    np.save(path, array)
    keep_hashes(path)


def write_columns(store: Path, table: pa.Table) -> None:
    """Write the columns of entities in place of those of a store, and their hashes."""
    (store / "entities.arrow").unlink()
    with ColumnWriter(store / "entities.arrow") as writer:
        writer.add(table)
    keep_hashes(store / "entities.arrow", writer.boundaries)


def read_columns(store: Path) -> pa.Table:
    """Return the columns of entities of a store, in memory."""
    with pa.ipc.open_file(pa.py_buffer((store / "entities.arrow").read_bytes())) as file:
        return file.read_all()


def keep_hashes(path: Path, boundaries: list[int] | None = None) -> None:
    """Write the hashes of a file into the manifest beside it."""
    name = "store.json" if (path.parent / "store.json").is_file() else "derived.json"
    manifest = path.parent / name
    values = json.loads(manifest.read_text())
    values["files"][path.name] = hash_blocks(path, boundaries).to_json()
    manifest.write_text(json.dumps(values, ensure_ascii=False, sort_keys=True))


def keep_fingerprint(store: Path) -> None:
    """Write the fingerprint of what a store holds into its manifest."""
    value = StoredGraph(store, Manifest.read(store)).content_fingerprint()
    values = json.loads((store / "store.json").read_text()) | {"fingerprint": value}
    (store / "store.json").write_text(json.dumps(values, ensure_ascii=False, sort_keys=True))
