"""A small graph that every integration is tested with."""

import numpy as np

from reldp.graph import EntityGraph


def graph(**changes: object) -> EntityGraph:
    values: dict[str, object] = {
        "text": ["w", "x", "y", "z"],
        "features": np.arange(8).reshape(4, 2) / 3,
        "protected": [True, True, False, True],
    }
    pairs = [(0, 1), (2, 1), (0, 3)]
    return EntityGraph.from_lists([0, 1, 2, 3], pairs, **(values | changes))  # type: ignore[arg-type]


def pairs_of(one: EntityGraph) -> set[frozenset[int]]:
    return {frozenset(pair) for pair in one.relations.tolist()}


def typed_graph() -> EntityGraph:
    return EntityGraph.from_lists(
        [0, 1, 2, 3],
        [(1, 2), (2, 1), (1, 2)],
        types=["likes", "likes", "knows"],
        text=["w", "x", "y", "z"],
    )


def triples_of(one: EntityGraph) -> set[tuple[int, str, int]]:
    assert one.relation_types is not None
    rows = zip(one.relations.tolist(), one.relation_types.tolist(), strict=True)
    return {(source, one.type_names[code], target) for (source, target), code in rows}
