"""Graphs from and to PyTorch Geometric: `Data`, and `HeteroData` with several types of nodes.

Nodes are entities with features `x` and, where there is one, a list `text`. A symmetric `edge_index`
has both directions of every relation, and each pair is one relation; with ``typed=True`` every edge
is a relation of its type and direction. What else the object holds is
named in the record and left out.

Public: `from_pyg`, `to_pyg`; also as `EntityGraph.from_pyg` and `EntityGraph.to_pyg`.

>>> from_pyg([1, 2])
Traceback (most recent call last):
reldp.errors.GraphError: `data` must be a Data or HeteroData of PyTorch Geometric, got list.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from reldp.errors import GraphError
from reldp.graph.entity_graph import EntityGraph
from reldp.graph.record import GraphRecord
from reldp.integrations.scipy import from_numbered_nodes, node_table, to_scipy
from reldp.integrations.tables import require

__all__ = ["from_pyg", "to_pyg"]

_NODE_COLUMNS = {
    "id": "ids",
    "text": "text",
    "features": "x",
    "protected": "protected",
    "owner": "owner",
}
_KNOWN = {*_NODE_COLUMNS.values(), "edge_index", "edge_attr", "num_nodes"}
_TYPES = frozenset({"edge_type", "edge_type_names"})
_JOIN = "__"  # between the three names of a type of edges, as PyTorch Geometric writes them

EdgeType = tuple[str, str, str]


def from_pyg(
    data: Any,
    *,
    text: Any = None,
    ids: Any = None,
    edge_types: Sequence[EdgeType] | None = None,
    typed: bool = False,
    protected_types: Collection[str] | None = None,
    drop: Iterable[str] = (),
    record: GraphRecord | None = None,
    show_ids: bool = False,
) -> EntityGraph:
    """Return a graph from a `Data` or `HeteroData`; see `EntityGraph.from_pyg`."""
    if not hasattr(data, "to_dict") or not hasattr(data, "num_nodes"):
        raise GraphError(
            f"`data` must be a Data or HeteroData of PyTorch Geometric, got {type(data).__name__}."
        )
    kinds = frozenset([drop] if isinstance(drop, str) else drop)
    record = record or GraphRecord()
    if hasattr(data, "edge_types"):
        chosen = _chosen_edges(data, edge_types)
        stores = [*data.node_stores, *(data[edge] for edge in chosen)]
        entities, starts = _typed_nodes(data, text, ids, protected_types, show_ids)
        pairs = [_typed_pairs(data, edge, starts) for edge in chosen]  # (m, 2) each
        types = [_JOIN.join(edge) for edge, rows in zip(chosen, pairs, strict=True) for _ in rows]
    else:
        for name, value in (("edge_types", edge_types), ("protected_types", protected_types)):
            if value is not None:
                raise GraphError(f"`{name}` must be left out for a Data, which has no types.")
        stores = [data]
        entities = node_table(int(data.num_nodes), _columns(data, text, ids), show_ids)
        pairs = [_pairs(data)]
        types = _edge_types(data, len(pairs[0])) if typed else []
    return from_numbered_nodes(
        entities,
        np.concatenate(pairs),
        drop=kinds,
        record=_noted(record, stores, kinds, _TYPES if typed else frozenset()),
        show_ids=show_ids,
        types=types if typed else None,
    )


def to_pyg(graph: EntityGraph, *, node_type: str | None = None) -> Any:
    """Return a `Data`, or a `HeteroData` by a column of node types; see `EntityGraph.to_pyg`."""
    geometric = require("torch_geometric.data"), require("torch_geometric.utils")
    # Tensors come from torch_geometric, so that graphs never import torch themselves.
    edge_index, ones = geometric[1].from_scipy_sparse_matrix(to_scipy(graph))
    types = graph.relation_types
    if types is not None:
        edge_index = edge_index.new_tensor(graph.relations.T.copy())
    if node_type is not None:
        return _to_typed(graph, node_type, geometric[0].HeteroData(), edge_index, ones)
    data = geometric[0].Data(edge_index=edge_index, num_nodes=graph.num_entities)
    if types is not None:
        data.edge_type = edge_index.new_tensor(types.astype(np.int64))
        data.edge_type_names = list(graph.type_names)
    _fill(data, graph, np.arange(graph.num_entities), ones)
    return data


def _edge_types(store: Any, num_edges: int) -> list[str]:
    """Return the type of every edge of a `Data`, by name where it lists names."""
    held = store.to_dict()
    codes = np.asarray(_plain(held.get("edge_type", ())))
    if codes.shape != (num_edges,) or codes.dtype.kind not in "iu":
        raise GraphError(
            f"`data` must have one integer per edge in edge_type, got shape {codes.shape} for "
            f"{num_edges} edges. Set it, or leave `typed` out."
        )
    names = held.get("edge_type_names")
    if names is None:
        return [str(code) for code in codes.tolist()]
    if len(codes) and not 0 <= codes.min() <= codes.max() < len(names):
        raise GraphError(
            f"`edge_type` must number the {len(names)} edge_type_names, got "
            f"{codes.min()}..{codes.max()}."
        )
    return [str(names[code]) for code in codes.tolist()]


def _columns(store: Any, text: Any, ids: Any) -> dict[str, Any]:
    """Return the columns of one type of nodes: as given, else as the store has them."""
    held = store.to_dict()
    given = {"text": text, "id": ids}
    columns = {}
    for name, key in _NODE_COLUMNS.items():
        value = given.get(name)
        columns[name] = _plain(held.get(key) if value is None else value)
    return columns


def _pairs(store: Any) -> Any:
    """Return the relations (m, 2) of an edge_index (2, m)."""
    edge_index = store.to_dict().get("edge_index")
    if edge_index is None:
        raise GraphError("`data` must have an edge_index, got none.")
    pairs = np.asarray(_plain(edge_index), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        raise GraphError(f"`edge_index` must have shape (2, m), got {pairs.shape}.")
    return pairs.T


def _typed_pairs(data: Any, edge: EdgeType, starts: Mapping[str, int]) -> Any:
    """Return the relations of one type of edges as rows of the entities of all types."""
    pairs, kinds = _pairs(data[edge]), (edge[0], edge[2])
    sizes = [int(data[kind].num_nodes) for kind in kinds]
    num_wrong = int(((pairs < 0) | (pairs >= sizes)).any(axis=1).sum())
    if num_wrong:  # beyond its type, a number would name a node of the next type
        raise GraphError(
            f"`edge_index` must hold numbers of nodes of its two types, got {num_wrong} edges with "
            "others."
        )
    return pairs + np.array([starts[kind] for kind in kinds])


def _noted(
    record: GraphRecord, stores: list[Any], drop: frozenset[str], used: frozenset[str]
) -> GraphRecord:
    """Refuse attributes of relations unless they are dropped, and note what else is left out."""
    held = [set(store.to_dict()) for store in stores]
    num_attributes = sum(store.to_dict().get("edge_attr") is not None for store in stores)
    if num_attributes and "relation_columns" not in drop:
        raise GraphError(
            "`data` must not have an edge_attr, which a graph cannot keep. Remove it, or drop it "
            "with drop={'relation_columns'}."
        )
    record = record.with_drops({"relation_columns": num_attributes})
    left_out = sorted(set().union(*held) - _KNOWN - used)
    if left_out:
        record = record.with_note(f"Left out of a PyTorch Geometric graph: {', '.join(left_out)}.")
    return record


def _chosen_edges(data: Any, edge_types: Sequence[EdgeType] | None) -> list[EdgeType]:
    """Return the types of edges that become relations; several must be named."""
    known = list(data.edge_types)
    if edge_types is None:
        if len(known) != 1:
            raise GraphError(
                f"`edge_types` must be given unless there is one type of edges, got {len(known)} "
                "types. Name those that become relations, and leave out reversed copies."
            )
        return known
    chosen = [tuple(edge) for edge in edge_types]
    unknown = [edge for edge in chosen if edge not in known]
    if unknown or not chosen:
        got = repr(unknown[0]) if unknown else "none"
        raise GraphError(f"`edge_types` must name types of edges of `data`, got {got}.")
    return chosen  # type: ignore[return-value]  # a known type has three names


def _typed_nodes(
    data: Any, text: Any, ids: Any, protected_types: Collection[str] | None, show_ids: bool
) -> tuple[Any, dict[str, int]]:
    """Return the entities of all types, and the first row of each type."""
    for name, value in (("text", text), ("ids", ids)):
        if value is not None and not isinstance(value, Mapping):
            raise GraphError(
                f"`{name}` must be a dictionary by node type for a HeteroData, got "
                f"{type(value).__name__}."
            )
    unknown = sorted(set(protected_types or ()) - set(data.node_types))
    if isinstance(protected_types, str) or unknown:
        got = repr(protected_types if isinstance(protected_types, str) else unknown[0])
        raise GraphError(f"`protected_types` must be a list of node types of `data`, got {got}.")
    tables, starts, start = [], {}, 0
    for kind in data.node_types:
        store = data[kind]
        columns = _columns(store, (text or {}).get(kind), (ids or {}).get(kind))
        num = int(store.num_nodes)
        names = range(num) if columns["id"] is None else columns["id"]
        columns["id"] = [f"{kind}:{name}" for name in names]
        columns["node_type"] = [kind] * num
        if protected_types is not None:
            columns["protected"] = [kind in protected_types] * num
        tables.append(node_table(num, columns, show_ids))
        starts[kind], start = start, start + num
    return _joined(tables), starts


def _joined(tables: list[Any]) -> Any:
    """Return the tables one after another; each must have the same columns."""
    if not tables:
        raise GraphError("`data` must have a type of nodes, got none.")
    for table in tables:
        odd = sorted(set(table.column_names) ^ set(tables[0].column_names))
        if odd:
            raise GraphError(
                f"`data` must have {_NODE_COLUMNS[odd[0]]} for all types of nodes or for none, got "
                "it for some."
            )
        if table.schema.types != tables[0].schema.types:
            raise GraphError(
                "`data` must have features x of one length for all types of nodes, got several "
                "lengths. Pad them, or use texts."
            )
    return pa.concat_tables(tables)


def _fill(store: Any, graph: EntityGraph, rows: Any, ones: Any) -> None:
    """Set features, ids, texts, protection and owners of some entities."""
    if graph.features is not None:
        store.x = ones.new_tensor(graph.features[rows])  # (n, d) float32
    store.ids = graph.column("id", rows)
    if graph.has_text:
        store.text = graph.text(rows)
    if not graph.protected.all():
        store.protected = graph.protected[rows].tolist()
    if graph.owners is not None:
        store.owner = graph.column("owner", rows)


def _to_typed(graph: EntityGraph, column: str, data: Any, edge_index: Any, ones: Any) -> Any:
    """Fill a HeteroData: nodes by type, and edges by pair of types and type of relation."""
    kinds = np.array([str(kind) for kind in graph.column(column)])
    within = np.zeros(len(kinds), dtype=np.int64)  # number of a node among those of its type
    for kind in np.unique(kinds).tolist():
        rows = np.flatnonzero(kinds == kind)
        within[rows] = np.arange(len(rows))
        data[kind].num_nodes = len(rows)
        _fill(data[kind], graph, rows, ones)
    rows = np.asarray(_plain(edge_index))  # (2, m)
    names = _relation_names(graph, kinds[rows[0]], kinds[rows[1]])
    triples = np.stack([kinds[rows[0]], names, kinds[rows[1]]])  # (3, m)
    for one, name, other in np.unique(triples, axis=1).T.tolist():
        edges = np.flatnonzero((triples == [[one], [name], [other]]).all(axis=0))
        data[one, name, other].edge_index = edge_index.new_tensor(within[rows[:, edges]])
    return data


def _relation_names(graph: EntityGraph, sources: Any, targets: Any) -> Any:
    """Return the middle name of every edge's type: that of its relation, without the nodes' types."""
    if graph.relation_types is None:
        return np.full(len(sources), "related_to")
    names = np.array(graph.type_names, dtype=str)[graph.relation_types]
    short = [
        name.removeprefix(one + _JOIN).removesuffix(_JOIN + other)
        if name.startswith(one + _JOIN) and name.endswith(_JOIN + other)
        else name
        for one, name, other in zip(sources.tolist(), names.tolist(), targets.tolist(), strict=True)
    ]
    return np.array(short, dtype=str)


def _plain(value: Any) -> Any:
    """Return a tensor as an array, wherever it lives; anything else as it is."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value
