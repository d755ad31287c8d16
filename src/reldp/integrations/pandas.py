"""Graphs from and to two pandas data frames.

Public: `from_pandas`, `to_pandas`; also as `EntityGraph.from_pandas` and `EntityGraph.to_pandas`.

>>> from reldp.graph import EntityGraph
>>> graph = EntityGraph.from_lists(["a", "b"], [("a", "b")], text=["x", "y"])
>>> entities, relations = to_pandas(graph)
>>> from_pandas(entities, relations) == graph
True
"""

from collections.abc import Iterable
from typing import Any

from reldp.errors import GraphError
from reldp.graph.entity_graph import EntityGraph
from reldp.graph.record import GraphRecord
from reldp.integrations.tables import as_arrow, require

__all__ = ["from_pandas", "to_pandas"]


def from_pandas(
    entities: Any,
    relations: Any,
    *,
    drop: Iterable[str] = (),
    record: GraphRecord | None = None,
    show_ids: bool = False,
) -> EntityGraph:
    """Return a graph from two data frames; see `EntityGraph.from_pandas`."""
    for name, table in (("entities", entities), ("relations", relations)):
        if not hasattr(table, "iloc") or not hasattr(table, "columns"):
            raise GraphError(
                f"`{name}` must be a pandas DataFrame, got {type(table).__name__}. Use from_arrow "
                "for other tables."
            )
    tables = [
        as_arrow(table, name, show_ids=show_ids)
        for table, name in ((entities, "entities"), (relations, "relations"))
    ]
    return EntityGraph.from_arrow(*tables, drop=drop, record=record, show_ids=show_ids)


def to_pandas(graph: EntityGraph) -> tuple[Any, Any]:
    """Return the entities and the relations (`source` and `target`, by id) as data frames."""
    require("pandas")
    entities, relations = graph.to_arrow()
    return entities.to_pandas(), relations.to_pandas()
