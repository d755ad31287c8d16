"""Graphs as two data frames of Polars; `EntityGraph.from_arrow` reads such frames.

Public: `to_polars`; also as `EntityGraph.to_polars`.

>>> to_polars.__name__
'to_polars'
"""

from typing import Any

from reldp.graph.entity_graph import EntityGraph
from reldp.integrations.tables import require

__all__ = ["to_polars"]


def to_polars(graph: EntityGraph) -> tuple[Any, Any]:
    """Return the entities and the relations (`source` and `target`, by id) as Polars data frames."""
    polars = require("polars")
    entities, relations = graph.to_arrow()
    return polars.from_arrow(entities), polars.from_arrow(relations)
