"""Two names of a graph, by which a copy of it is recognized: one of its exact content, one of its relations.

The fingerprint covers every column and the order of all rows. A graph that is saved in another format, or by another
tool, may come back with ids as texts, rows in another order or the endpoints of relations swapped: the same relations
under another fingerprint. The second name is the same for all of these. It covers the set of related pairs, each
entity by its id as text and by its text (its features, if it has no text). Types and directions of relations, further
columns and entities without a relation do not count: a pair with relations of several types counts once. It is a sum of
hashes over the pairs, and needs 16 bytes of memory for each entity, and 8 for each relation of at most 67 million at a
time if there are types. Both names are sensitive, like every hash of private data.

Public inside the package: `GraphNames`, `graph_names`, `relations_name`.

>>> from reldp.graph import EntityGraph
>>> one = EntityGraph.from_lists([7, 8, 9], [(7, 8), (8, 9)], text=["a", "b", "c"])
>>> other = EntityGraph.from_lists(["9", "8", "7"], [("8", "7"), ("9", "8")], text=["c", "b", "a"])
>>> one.fingerprint == other.fingerprint, relations_name(one) == relations_name(other)
(False, True)
"""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reldp.errors import GraphError
from reldp.graph.keyed_hash import relation_hashes

if TYPE_CHECKING:
    from reldp.graph.entity_graph import EntityGraph

__all__ = ["GraphNames", "graph_names", "relations_name"]

_SLICE = 1 << 16  # rows hashed at a time
_COMPARED = 1 << 26  # hashes compared at a time
_DIGEST = 16  # bytes
_MANY = 1000
_KNOWN: dict[
    str, str
] = {}  # by fingerprint: a holdout's part outlives the graph that it was taken from


@dataclass(frozen=True)
class GraphNames:
    """The names of a graph; the second one is computed when it is asked for.

    Attributes:
        exact: Its fingerprint; sensitive.
        graph: The graph, if it is at hand.
    """

    exact: str
    graph: "EntityGraph | None" = None

    @property
    def relations(self) -> str | None:
        """The name of its relations; None if the graph is not at hand and was not named in this process; sensitive."""
        return _KNOWN.get(self.exact) if self.graph is None else relations_name(self.graph)


def graph_names(graph: "EntityGraph") -> GraphNames:
    """Return the names of the graph that a budget belongs to: of the whole one, for a holdout's part."""
    return GraphNames(graph.fingerprint, graph) if graph.whole is None else GraphNames(graph.whole)


def relations_name(graph: "EntityGraph") -> str:
    """Return a hash of the related pairs, the same for every order, direction and kind of ids; sensitive."""
    if graph.fingerprint not in _KNOWN:
        if len(_KNOWN) >= _MANY:
            _KNOWN.clear()
        _KNOWN[graph.fingerprint] = _stored_name(graph)
    return _KNOWN[graph.fingerprint]


def _stored_name(graph: "EntityGraph") -> str:
    """Return the name, which a store keeps beside it."""
    build_hash = getattr(graph, "build_hash", None)
    if build_hash is not None and graph.folder is not None:
        from reldp.graph.store.derived import derived

        with suppress(GraphError):  # a disk that is full
            depends_on = {"build_hash": build_hash, "name": "relations 3"}
            made = derived(graph.folder, "names", depends_on, partial(_values, graph))
            if isinstance(name := made.values.get("relations"), str):
                return name
    return _computed(graph)


def _values(graph: "EntityGraph", _: Path) -> dict[str, Any]:
    return {"relations": _computed(graph)}


def _computed(graph: "EntityGraph") -> str:
    digests, relations = _digests(graph.entities), graph.relations
    if not len(relations):
        relations = np.repeat(np.arange(graph.num_entities), 2).reshape(-1, 2)
    pairs = _hashes if graph.relation_types is None else _distinct_hashes
    count, sums = 0, np.zeros(2, dtype=np.uint64)
    for hashes in pairs(digests, relations):
        count += len(hashes)
        sums += np.array([hashes.sum(), (hashes * hashes).sum()], dtype=np.uint64)
    text = f"reldp relations 1 {count} {sums[0]} {sums[1]}"
    return hashlib.sha256(text.encode()).hexdigest()


def _hashes(
    digests: npt.NDArray[np.uint64], relations: npt.NDArray[np.int64]
) -> Iterator[npt.NDArray[np.uint64]]:
    """Yield the hashes of all rows, some at a time."""
    for start in range(0, len(relations), _SLICE):
        yield relation_hashes(digests, relations[start : start + _SLICE])


def _distinct_hashes(
    digests: npt.NDArray[np.uint64], relations: npt.NDArray[np.int64]
) -> Iterator[npt.NDArray[np.uint64]]:
    """Yield each hash once. Many are hashed again for every part of them, so that one part is in memory."""
    parts = np.uint64(-(-len(relations) // _COMPARED))
    for part in range(int(parts)):
        rows = _hashes(digests, relations)
        yield np.unique(np.concatenate([some[some % parts == part] for some in rows]))


def _digests(entities: Any) -> npt.NDArray[np.uint64]:
    """Return 128 bits for each entity, (2, n), from its id and its text or features."""
    digests = bytearray(_DIGEST * entities.num_rows)
    content = "text" if "text" in entities.column_names else "features"
    for start in range(0, entities.num_rows, _SLICE):
        ids = _binary(entities.column("id").slice(start, _SLICE))
        chunk = entities.column(content).slice(start, _SLICE)
        contents = _binary(chunk) if content == "text" else _vectors(chunk)
        for offset, (name, value) in enumerate(zip(ids, contents, strict=True), start):
            framed = b"%d:%b%b" % (len(name), name, value)
            digest = hashlib.blake2b(
                framed, digest_size=_DIGEST, person=b"reldp relations"
            ).digest()
            digests[_DIGEST * offset : _DIGEST * (offset + 1)] = digest
    words = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
    return np.ascontiguousarray(words.T, dtype=np.uint64)


def _binary(column: Any) -> list[bytes]:
    texts: list[bytes] = (
        pc.fill_null(column.cast(pa.large_string()), "").cast(pa.large_binary()).to_pylist()
    )
    return texts


def _vectors(column: Any) -> list[bytes]:
    chunk = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    rows = chunk.flatten().to_numpy(zero_copy_only=False).astype("<f4").reshape(len(chunk), -1)
    return [row.tobytes() for row in rows + np.float32(0)]  # -0 and 0 are one number
