"""Graphs from and to networkx: nodes are entities, edges are relations.

Public: `from_networkx`, `to_networkx`; also as `EntityGraph.from_networkx` and
`EntityGraph.to_networkx`.

>>> from reldp.graph import EntityGraph
>>> graph = EntityGraph.from_lists(["a", "b"], [("a", "b")], text=["x", "y"])
>>> from_networkx(to_networkx(graph)) == graph
True
"""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from reldp.errors import GraphError
from reldp.graph.column_count import refuse_columns
from reldp.graph.entity_graph import EntityGraph
from reldp.graph.record import GraphRecord
from reldp.integrations.tables import from_columns, require

__all__ = ["from_networkx", "to_networkx"]


def from_networkx(
    network: Any,
    *,
    drop: Iterable[str] = (),
    record: GraphRecord | None = None,
    show_ids: bool = False,
) -> EntityGraph:
    """Return a graph from a networkx graph; see `EntityGraph.from_networkx`."""
    if not hasattr(network, "nodes") or not hasattr(network, "edges"):
        raise GraphError(f"`network` must be a networkx graph, got {type(network).__name__}.")
    nodes = dict(network.nodes(data=True))
    names = {str(name): name for attributes in nodes.values() for name in attributes}
    refuse_columns("entities", len(names))
    columns = {"id": list(nodes)}
    for word in sorted(names):
        columns[word] = [attributes.get(names[word]) for attributes in nodes.values()]
    edges = [(one, other, attributes) for one, other, attributes in network.edges(data=True)]
    endpoints: dict[str, list[Any]] = {
        "source": [e[0] for e in edges],
        "target": [e[1] for e in edges],
    }
    names = {str(name): name for edge in edges for name in edge[2]}
    refuse_columns("relations", len(names))
    if "type" in names and not network.is_directed():
        raise GraphError(
            "`network` must be directed if its edges have types, got an undirected one. Make a "
            "networkx.MultiDiGraph, or remove the attribute 'type'."
        )
    for word in sorted(names):
        endpoints[word] = [edge[2].get(names[word]) for edge in edges]
    tables = [
        from_columns(columns, "entities", show_ids),
        from_columns(endpoints, "relations", show_ids),
    ]
    return EntityGraph.from_arrow(
        *_same_id_type(*tables), drop=drop, record=record, show_ids=show_ids
    )


def to_networkx(graph: EntityGraph) -> Any:
    """Return a `networkx.Graph`, or a `MultiDiGraph` with types; see `EntityGraph.to_networkx`."""
    networkx = require("networkx")
    entities, relations = graph.to_arrow()
    network = networkx.Graph() if graph.relation_types is None else networkx.MultiDiGraph()
    for row in entities.to_pylist():
        network.add_node(row.pop("id"), **row)
    for row in relations.to_pylist():
        network.add_edge(row.pop("source"), row.pop("target"), **row)
    return network


def _same_id_type(entities: Any, relations: Any) -> tuple[Any, Any]:
    """Give the columns of an empty relations table, which have no type, the type of the ids."""
    if relations.num_rows:
        return entities, relations
    empty = pa.array([], entities.column("id").type)
    return entities, pa.table({"source": empty, "target": empty})
