"""Graphs as two Hugging Face datasets; `EntityGraph.from_arrow` and `from_pairs` read datasets.

Public: `to_datasets`; also as `EntityGraph.to_datasets`.

>>> to_datasets.__name__
'to_datasets'
"""

from typing import Any

from reldp.graph.entity_graph import EntityGraph
from reldp.integrations.tables import require

__all__ = ["to_datasets"]


def to_datasets(graph: EntityGraph) -> tuple[Any, Any]:
    """Return the entities and the relations (`source` and `target`, by id) as datasets in memory."""
    dataset = require("datasets").Dataset
    entities, relations = graph.to_arrow()
    return dataset(entities), dataset(relations)
