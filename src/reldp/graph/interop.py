"""Graphs from and to pandas, networkx, SciPy sparse matrices and PyTorch Geometric.

Each library is imported only by the function that uses it; pyarrow's own are
`EntityGraph.from_arrow` and `EntityGraph.to_arrow`. All go through the same checks as files do.
Libraries that write an undirected relation as both directions (a symmetric matrix, a symmetric
`edge_index`) are understood: each pair is one relation. In a matrix or `edge_index` that is not
symmetric, both directions of a pair are a duplicate like any other.

Public: the functions below.

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

from reldp.errors import GraphError, MissingDependency
from reldp.graph.columns import vectors
from reldp.graph.disclosure import column_words
from reldp.graph.entity_graph import EntityGraph
from reldp.graph.record import GraphRecord

__all__ = [
    "from_networkx",
    "from_pandas",
    "from_pyg",
    "from_scipy",
    "to_networkx",
    "to_pandas",
    "to_pyg",
    "to_scipy",
]


def from_pandas(
    entities: Any,
    relations: Any,
    *,
    drop: Iterable[str] = (),
    record: GraphRecord | None = None,
    show_ids: bool = False,
) -> EntityGraph:
    """Return a graph from two data frames; an index named `id` counts as a column.

    Args:
        entities: Columns `id`, `text` and/or `features`, optionally `protected`, and further ones.
        relations: Columns `source` and `target`.
        drop: Kinds of damage to drop and count instead of refusing (`sources.DROPPABLE`).
        record: Where the data comes from.
        show_ids: Whether errors may show ids; by default they give counts and places only.
    """
    if entities.index.name == "id" and "id" not in entities.columns:
        entities = entities.reset_index()
    tables = [
        _from_data_frame(table, name, show_ids)
        for table, name in ((entities, "entities"), (relations, "relations"))
    ]
    return EntityGraph.from_arrow(*tables, drop=drop, record=record, show_ids=show_ids)


def to_pandas(graph: EntityGraph) -> tuple[Any, Any]:
    """Return the entities and the relations (`source` and `target`, by id) as data frames."""
    _require("pandas")
    entities, relations = graph.to_arrow()
    return entities.to_pandas(), relations.to_pandas()


def from_networkx(
    network: Any,
    *,
    drop: Iterable[str] = (),
    record: GraphRecord | None = None,
    show_ids: bool = False,
) -> EntityGraph:
    """Return a graph from a networkx graph: nodes are ids, node attributes are columns.

    Edge attributes are relation columns: refused unless `drop` names "relation_columns".
    """
    nodes = dict(network.nodes(data=True))
    names = {str(name): name for attributes in nodes.values() for name in attributes}
    columns = {"id": list(nodes)}
    for word in sorted(names):
        columns[word] = [attributes.get(names[word]) for attributes in nodes.values()]
    edges = [(one, other, attributes) for one, other, attributes in network.edges(data=True)]
    endpoints: dict[str, list[Any]] = {
        "source": [e[0] for e in edges],
        "target": [e[1] for e in edges],
    }
    names = {str(name): name for edge in edges for name in edge[2]}
    for word in sorted(names):
        endpoints[word] = [edge[2].get(names[word]) for edge in edges]
    tables = [
        _from_columns(columns, "entities", show_ids),
        _from_columns(endpoints, "relations", show_ids),
    ]
    return EntityGraph.from_arrow(
        *_same_id_type(*tables), drop=drop, record=record, show_ids=show_ids
    )


def to_networkx(graph: EntityGraph) -> Any:
    """Return an undirected `networkx.Graph`; columns become node attributes."""
    networkx = _require("networkx")
    entities, relations = graph.to_arrow()
    network = networkx.Graph()
    for row in entities.to_pylist():
        network.add_node(row.pop("id"), **row)
    network.add_edges_from(
        zip(*(relations.column(n).to_pylist() for n in ("source", "target")), strict=True)
    )
    return network


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
    """Return a graph from a square sparse matrix: every entry that is not zero is a relation.

    Args:
        adjacency: (n, n) SciPy sparse matrix or array of zeros and ones; symmetric, or each pair
            once.
        text: n texts.
        features: (n, d) numbers.
        ids: n ids; 0..n-1 by default.
        protected: n booleans; all true by default.
        drop: Kinds of damage to drop and count instead of refusing (`sources.DROPPABLE`).
        record: Where the data comes from.
        show_ids: Whether errors may show ids; by default they give counts and places only.
    """
    matrix = adjacency.tocoo()
    if matrix.shape[0] != matrix.shape[1]:
        raise GraphError(f"`adjacency` must be square, got {matrix.shape[0]} x {matrix.shape[1]}.")
    present = matrix.data != 0
    if not bool(np.all(matrix.data[present] == 1)):
        raise GraphError(
            "`adjacency` must hold only 0 and 1, got other weights. Pass adjacency != 0."
        )
    pairs = np.stack([matrix.row[present], matrix.col[present]], axis=1).astype(np.int64)
    entities = _entities(matrix.shape[0], ids, text, features, protected, show_ids)
    return _from_pairs(entities, pairs, drop, record, show_ids)


def to_scipy(graph: EntityGraph) -> Any:
    """Return the symmetric (n, n) `scipy.sparse.csr_array` of zeros and ones."""
    from scipy.sparse import coo_array

    one, other = graph.relations.T
    rows, columns = np.concatenate([one, other]), np.concatenate([other, one])
    size = graph.num_entities
    return coo_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(size, size)).tocsr()


def from_pyg(
    data: Any,
    *,
    text: Sequence[str] | None = None,
    ids: Any = None,
    drop: Iterable[str] = (),
    record: GraphRecord | None = None,
    show_ids: bool = False,
) -> EntityGraph:
    """Return a graph from a PyTorch Geometric `Data`: features from `x`, relations from `edge_index`.

    Args:
        data: `text`, `ids` and `protected` of it are taken if it has them; `edge_attr` is refused
            unless `drop` names
            "relation_columns"; what else it holds is named in the record and left out.
        text: One text per node.
        ids: One id per node; 0..n-1 by default.
        drop: Kinds of damage to drop and count instead of refusing (`sources.DROPPABLE`).
        record: Where the data comes from.
        show_ids: Whether errors may show ids; by default they give counts and places only.
    """
    held = data.to_dict()
    if "edge_index" not in held:
        raise GraphError("`data` must be a homogeneous graph with an edge_index, got none.")
    if held.get("edge_attr") is not None and "relation_columns" not in set(drop):
        raise GraphError(
            "`data` must not have an edge_attr, which a graph cannot keep. Remove it, or drop it "
            "with drop={'relation_columns'}."
        )
    known = {"x", "edge_index", "edge_attr", "text", "ids", "protected", "num_nodes"}
    left_out = sorted(name for name in held if name not in known)
    made = record or GraphRecord()
    made = made.with_drops({"relation_columns": int(held.get("edge_attr") is not None)})
    if left_out:
        made = made.with_note(f"Left out of a PyTorch Geometric graph: {', '.join(left_out)}.")
    entities = _entities(
        int(data.num_nodes),
        _plain(ids if ids is not None else held.get("ids")),
        _plain(text if text is not None else held.get("text")),
        _plain(held.get("x")),
        _plain(held.get("protected")),
        show_ids,
    )
    pairs = np.asarray(_plain(held["edge_index"]), dtype=np.int64).T
    return _from_pairs(entities, pairs, drop, made, show_ids)


def to_pyg(graph: EntityGraph) -> Any:
    """Return a `torch_geometric.data.Data` with both directions of every relation.

    Holds `edge_index` and `num_nodes`; `x` where there are features; `ids`, and `text` where there
    is text, as lists.
    """
    geometric = _require("torch_geometric.data"), _require("torch_geometric.utils")
    # Tensors come from torch_geometric, so that graphs never import torch themselves.
    edge_index, ones = geometric[1].from_scipy_sparse_matrix(to_scipy(graph))
    data = geometric[0].Data(edge_index=edge_index, num_nodes=graph.num_entities)
    if graph.features is not None:
        data.x = ones.new_tensor(graph.features)  # (n, d) float32
    data.ids = graph.ids.to_pylist()
    if graph.has_text:
        data.text = graph.text()
    if not graph.protected.all():
        data.protected = graph.protected.tolist()
    return data


def _require(module: str) -> Any:
    """Import an optional library; the error names the package to install."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError:
        package = module.split(".")[0].replace("_", "-")
        raise MissingDependency(
            f"{package} is needed for this. Install it: pip install {package}."
        ) from None


def _from_data_frame(table: Any, name: str, show_ids: bool) -> Any:
    """Return a data frame as an Arrow table, column by column: Arrow's error would quote a value."""
    names = [str(column) for column in table.columns]
    arrays = [
        _array(table.iloc[:, place], name, column_words(column, names, show_ids=show_ids))
        for place, column in enumerate(names)
    ]
    return pa.Table.from_arrays(arrays, names=names)


def _from_columns(columns: dict[str, list[Any]], name: str, show_ids: bool) -> Any:
    names = list(columns)
    arrays = {
        column: _array(values, name, column_words(column, names, show_ids=show_ids))
        for column, values in columns.items()
    }
    return pa.table(arrays)


def _array(values: Any, name: str, label: str) -> Any:
    """One column as Arrow keeps it; missing values of pandas become nulls."""
    try:
        return pa.array(values, from_pandas=hasattr(values, "iloc"))
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        raise GraphError(
            f"{name} must hold one type of value in {label}, got several, or one that Arrow does "
            "not know. Write all as text, or all as numbers."
        ) from None


def _same_id_type(entities: Any, relations: Any) -> tuple[Any, Any]:
    """Give the columns of an empty relations table, which have no type, the type of the ids."""
    if relations.num_rows:
        return entities, relations
    empty = pa.array([], entities.column("id").type)
    return entities, pa.table({"source": empty, "target": empty})


def _entities(num: int, ids: Any, text: Any, features: Any, protected: Any, show_ids: bool) -> Any:
    """Return the entities table of a graph that numbers its nodes."""
    columns: dict[str, Any] = {"id": np.arange(num) if ids is None else ids, "text": text}
    if features is not None:
        columns["features"] = vectors(features)
    columns["protected"] = protected
    for name, values in columns.items():
        if values is not None and len(values) != num:
            raise GraphError(f"`{name}` must have one value per node, got {len(values)} for {num}.")
    given = {name: values for name, values in columns.items() if values is not None}
    return _from_columns(given, "entities", show_ids)


def _from_pairs(
    entities: Any,
    pairs: npt.NDArray[np.int64],
    drop: Iterable[str],
    record: GraphRecord | None,
    show_ids: bool,
) -> EntityGraph:
    """Return a graph from pairs of node numbers."""
    ids = entities.column("id").combine_chunks()
    wrong = np.flatnonzero(((pairs < 0) | (pairs >= max(len(ids), 1))).any(axis=1))
    if len(wrong):
        shown = f", such as {pairs[wrong[0]].tolist()}" if show_ids else ""
        raise GraphError(
            f"Relations must name nodes 0..{len(ids) - 1}, got {len(wrong)} pairs with another "
            f"(the first is pair {wrong[0] + 1}{shown})."
        )
    once = _each_once(pairs)
    endpoints = {
        name: ids.take(pa.array(once[:, end])) for end, name in enumerate(("source", "target"))
    }
    return EntityGraph.from_arrow(
        entities, pa.table(endpoints), drop=drop, record=record, show_ids=show_ids
    )


def _each_once(pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Pairs of which every one is there in both directions, once; other pairs as they are."""
    size = pairs.max(initial=0) + 1
    forth = np.sort(pairs[:, 0] * size + pairs[:, 1])
    back = np.sort(pairs[:, 1] * size + pairs[:, 0])
    if bool(np.any(forth[1:] == forth[:-1])) or not np.array_equal(forth, back):
        return pairs
    return pairs[pairs[:, 0] <= pairs[:, 1]]


def _plain(value: Any) -> Any:
    """Return a tensor as an array, wherever it lives; anything else as it is."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value
