"""Graphs of entities: reading, checking, degree capping, splitting and writing them, without torch.

    tables or files -> EntityGraph -> cap_degrees or promise_degrees -> CappedGraph -> everything
    else

>>> from reldp.graph import EntityGraph
>>> graph = EntityGraph.from_lists([1, 2, 3], [(1, 2), (1, 3)], text=["one", "two", "three"])
>>> graph.cap_degrees(max_degree=1, seed=7)
CappedGraph(3 entities, 1 relations, max_degree=1, capped)
"""

from reldp.graph.capped import CappedGraph
from reldp.graph.entity_graph import EntityGraph

__all__ = ["CappedGraph", "EntityGraph"]
