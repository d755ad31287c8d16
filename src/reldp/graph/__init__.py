"""Graphs of entities: reading, checking, degree capping, splitting and writing them, without torch.

    tables or files -> EntityGraph -> cap_degrees or promise_degrees -> CappedGraph -> everything
    else

Names are imported on first use: a `CappedGraph` of arrays, which is all that sampling and training
need, works where pyarrow is not installed.

>>> from reldp.graph import EntityGraph
>>> graph = EntityGraph.from_lists([1, 2, 3], [(1, 2), (1, 3)], text=["one", "two", "three"])
>>> graph.cap_degrees(max_degree=1, seed=7)
CappedGraph(3 entities, 1 relations, max_degree=1, capped)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reldp.graph.capped import CappedGraph
    from reldp.graph.entity_graph import EntityGraph

__all__ = ["CappedGraph", "EntityGraph"]

_HOMES = {"CappedGraph": "reldp.graph.capped", "EntityGraph": "reldp.graph.entity_graph"}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'reldp.graph' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
