"""Graphs from and to sparse matrices of SciPy, and from numbered nodes in general.

A symmetric matrix has both directions of every relation, and each pair is one relation. In a matrix
that is not symmetric, both directions of a pair are a duplicate like any other.

Public: `from_scipy`, `to_scipy`; also as `EntityGraph.from_scipy` and `EntityGraph.to_scipy`. Inside
the package: `from_numbered_nodes`, `node_table`.

>>> import numpy as np, scipy.sparse
>>> matrix = scipy.sparse.csr_array(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
>>> graph = from_scipy(matrix, text=["a", "b", "c"])
>>> graph.relations.tolist(), bool((to_scipy(graph) != matrix).nnz)
([[0, 1], [1, 2]], False)
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reldp.errors import GraphError
from reldp.graph.columns import vectors
from reldp.graph.entity_graph import EntityGraph
from reldp.graph.record import GraphRecord
from reldp.integrations.tables import from_columns

__all__ = ["from_numbered_nodes", "from_scipy", "node_table", "to_scipy"]


def from_scipy(
    adjacency: Any,
    *,
    text: Sequence[str] | None = None,
    features: Any = None,
    ids: Any = None,
    protected: Any = None,
    drop: Iterable[str] = (),
    record: GraphRecord | None = None,
    show_ids: bool = False,
) -> EntityGraph:
    """Return a graph from a square sparse matrix; see `EntityGraph.from_scipy`."""
    if not hasattr(adjacency, "tocoo"):
        raise GraphError(
            f"`adjacency` must be a SciPy sparse matrix or array, got {type(adjacency).__name__}."
        )
    matrix = adjacency.tocoo()
    if matrix.shape[0] != matrix.shape[1]:
        raise GraphError(f"`adjacency` must be square, got {matrix.shape[0]} x {matrix.shape[1]}.")
    present = matrix.data != 0
    if not bool(np.all(matrix.data[present] == 1)):
        raise GraphError(
            "`adjacency` must hold only 0 and 1, got other weights. Pass adjacency != 0."
        )
    pairs = np.stack([matrix.row[present], matrix.col[present]], axis=1).astype(np.int64)
    entities = node_table(
        matrix.shape[0],
        {"id": ids, "text": text, "features": features, "protected": protected},
        show_ids,
    )
    return from_numbered_nodes(entities, pairs, drop=drop, record=record, show_ids=show_ids)


def to_scipy(graph: EntityGraph) -> Any:
    """Return the symmetric (n, n) `scipy.sparse.csr_array` of zeros and ones, without types."""
    from scipy.sparse import coo_array

    one, other = graph.relations.T
    rows, columns = np.concatenate([one, other]), np.concatenate([other, one])
    size = graph.num_entities
    matrix = coo_array(
        (np.ones(len(rows), np.float32), (rows, columns)), shape=(size, size)
    ).tocsr()
    matrix.data[:] = 1  # relations of several types between two entities are one entry
    return matrix


def node_table(num_nodes: int, columns: dict[str, Any], show_ids: bool) -> Any:
    """Return the entities table of a graph that numbers its nodes.

    Args:
        num_nodes: Number of nodes.
        columns: Values by column, None where there are none; ids are 0..n-1 by default.
        show_ids: Whether errors may show ids.
    """
    given = {name: values for name, values in columns.items() if values is not None}
    given = {"id": given.pop("id", np.arange(num_nodes)), **given}
    if "features" in given:
        given["features"] = vectors(given["features"])
    for name, values in given.items():
        if len(values) != num_nodes:
            label = "ids" if name == "id" else name
            raise GraphError(
                f"`{label}` must have one value per node, got {len(values)} for {num_nodes}."
            )
    return from_columns(given, "entities", show_ids)


def from_numbered_nodes(
    entities: Any,
    pairs: npt.NDArray[np.int64],
    *,
    drop: Iterable[str],
    record: GraphRecord | None,
    show_ids: bool,
    types: Any = None,
) -> EntityGraph:
    """Return a graph from an entities table and pairs (m, 2) of row numbers, with m types if given."""
    ids = entities.column("id").combine_chunks()
    wrong = np.flatnonzero(((pairs < 0) | (pairs >= max(len(ids), 1))).any(axis=1))
    if len(wrong):
        shown = f", such as {pairs[wrong[0]].tolist()}" if show_ids else ""
        raise GraphError(
            f"Relations must name nodes 0..{len(ids) - 1}, got {len(wrong)} pairs with another "
            f"(the first is pair {wrong[0] + 1}{shown})."
        )
    once = _each_once(pairs) if types is None else pairs
    endpoints = {
        name: ids.take(pa.array(once[:, end])) for end, name in enumerate(("source", "target"))
    }
    if types is not None:
        endpoints["type"] = pa.array(types, pa.string())
    return EntityGraph.from_arrow(
        entities, pa.table(endpoints), drop=drop, record=record, show_ids=show_ids
    )


def _each_once(pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return pairs of which every one is there in both directions, once; other pairs as they are."""
    size = pairs.max(initial=0) + 1
    forth = np.sort(pairs[:, 0] * size + pairs[:, 1])
    back = np.sort(pairs[:, 1] * size + pairs[:, 0])
    if bool(np.any(forth[1:] == forth[:-1])) or not np.array_equal(forth, back):
        return pairs
    return pairs[pairs[:, 0] <= pairs[:, 1]]
