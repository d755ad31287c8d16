"""Parts of a graph for training, validation and test: no leakage, and reproducible from a seed.

Random draws are keyed hashes of ids, so the part of a relation or an entity depends on its ids and
the seed alone: it does not change when rows are shuffled or other entities come and go. Sizes of
parts are therefore random around the shares asked for.

* By relation: every part has all entities; no relation is in two parts, and all relations between
  two entities, of whatever type and direction, are in one.
* By entity: no entity is in two parts; relations between parts are left out and counted. Entities of
  one owner never part.
* By a column (a domain): the same, with parts given by values of the column.

Cap degrees after splitting: the bound is about the graph that is trained on (theory.md 2.2).

Public: `split_relations`, `split_entities`, `split_by_column`. Inside the package: `entity_parts`.

>>> from reldp.graph import EntityGraph
>>> graph = EntityGraph.from_lists(range(100), [(i, i + 1) for i in range(99)], text=["x"] * 100)
>>> parts = split_relations(graph, {"train": 0.8, "test": 0.2}, seed=1)
>>> parts["train"].num_relations + parts["test"].num_relations
99
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reldp._validate import shown
from reldp.errors import GraphError
from reldp.graph.entity_graph import EntityGraph
from reldp.graph.keyed_hash import entity_digests, relation_hashes, unit_interval

__all__ = ["check_graph", "entity_parts", "split_by_column", "split_entities", "split_relations"]

_AT_ONCE = 1 << 20  # relations hashed at a time


def split_relations(
    graph: EntityGraph, shares: Mapping[str, float], seed: int | bytes
) -> dict[str, EntityGraph]:
    """Split the relations; every part keeps all entities, at the same indices.

    Args:
        graph: The graph.
        shares: Name of each part and its share; shares sum to 1.
        seed: Key of the hash: an integer or bytes.
    """
    check_graph(graph)
    _check_shares(shares)
    digests = entity_digests(graph.ids, seed, "split_relations")
    part = np.empty(graph.num_relations, dtype=np.int16)
    for start in range(0, len(part), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        part[rows] = _assign(unit_interval(relation_hashes(digests, graph.relations[rows])), shares)
    return {
        name: graph.keep_relations(
            part == index,
            record=graph.record.with_note(
                f"Part {name!r} of a split by relation {_words(shares)}."
            ),
        )
        for index, name in enumerate(shares)
    }


def split_entities(
    graph: EntityGraph,
    shares: Mapping[str, float],
    seed: int | bytes,
    *,
    together: str | None = None,
) -> dict[str, EntityGraph]:
    """Split the entities; a relation stays where both its endpoints are in one part.

    Args:
        graph: The graph.
        shares: Name of each part and its share of the entities; shares sum to 1.
        seed: Key of the hash: an integer or bytes.
        together: Column whose equal values never part: "id", or "text" to keep entities of
            identical text in one part. "id" by default; "owner", and nothing else, where entities
            have owners.

    Raises:
        GraphError: A share or the column is wrong, or a part gets no entity.
    """
    part = entity_parts(graph, shares, seed, together=together)
    masks = {name: part == index for index, name in enumerate(shares)}
    return _select(graph, masks, f"a split by entity {_words(shares)}")


def entity_parts(
    graph: EntityGraph,
    shares: Mapping[str, float],
    seed: int | bytes,
    *,
    together: str | None = None,
) -> npt.NDArray[np.intp]:
    """Return the number of each entity's part in `split_entities`: a function of that entity alone."""
    check_graph(graph)
    _check_shares(shares)
    column = together or ("id" if graph.owners is None else "owner")
    if column not in graph.columns or column in ("features", "protected"):
        raise GraphError(f"`together` must be a column of text or numbers, got {shown(column)}.")
    if graph.owners is not None and column != "owner":
        raise GraphError(
            f"`together` must be 'owner' where entities have owners, got {shown(column)}. Leave it out."
        )
    values = pc.fill_null(graph.entities.column(column).cast(pa.large_string()), "")
    digests = entity_digests(values, seed, "split_entities")
    if column == "owner":  # an entity without a value is its own owner
        alone = graph.entities.column("owner").is_null().to_numpy()
        digests[:, alone] = entity_digests(graph.ids, seed, "split_entities/alone")[:, alone]
    return _assign(unit_interval(digests[0]), shares)


def split_by_column(
    graph: EntityGraph, column: str, parts: Mapping[str, Iterable[Any]] | None = None
) -> dict[str, EntityGraph]:
    """Split the entities by the values of a column, such as a domain.

    Args:
        graph: The graph.
        column: The column.
        parts: Values of each part; entities of other values are left out and counted. By default
            each value is a part.

    Raises:
        GraphError: There is no such column, a value is missing or unknown, or is in two parts.
    """
    check_graph(graph)
    if column not in graph.columns or column in ("features", "text"):
        raise GraphError(
            f"`column` must be one of the graph's columns, no text and no features, got {shown(column)}."
        )
    values = graph.entities.column(column).combine_chunks()
    missing = values.null_count
    if missing:
        raise GraphError(f"`column` must have a value for every entity, got {missing} without.")
    known = values.unique().to_pylist()
    chosen = {str(value): [value] for value in known} if parts is None else _listed(parts, known)
    masks = {
        name: pc.is_in(values, value_set=pa.array(wanted, values.type)).to_numpy(
            zero_copy_only=False
        )
        for name, wanted in chosen.items()
    }
    return _select(graph, masks, f"a split by the column {column!r}")


def _select(
    graph: EntityGraph, masks: Mapping[str, npt.NDArray[np.bool_]], what: str
) -> dict[str, EntityGraph]:
    """Return one graph per mask; what is in no mask is counted in every record."""
    _check_owners(graph, masks)
    left_out = graph.num_entities - sum(int(np.count_nonzero(mask)) for mask in masks.values())
    result = {}
    for name, mask in masks.items():
        if not mask.any():
            raise GraphError(f"Part {name!r} must get at least one entity, got none. Enlarge it.")
        chosen = graph.select_entities(mask)
        record = chosen.record.with_note(f"Part {name!r} of {what}.")
        record = record.with_drops({"entities_of_no_part": left_out})
        result[name] = chosen.with_record(record)
    return result


def _check_owners(graph: EntityGraph, masks: Mapping[str, npt.NDArray[np.bool_]]) -> None:
    """Refuse parts that divide an owner: what one part releases would be about people of another."""
    if graph.owners is None:
        return
    touched = np.zeros(graph.num_owners, dtype=np.int64)
    for mask in masks.values():
        touched[np.unique(graph.owners[mask])] += 1
    divided = int(np.count_nonzero(touched > 1))
    if divided:
        raise GraphError(
            f"Parts must not divide the entities of an owner, got {divided} owners in two parts. "
            "Split by another column, or with split_entities."
        )


def _assign(
    positions: npt.NDArray[np.float64], shares: Mapping[str, float]
) -> npt.NDArray[np.intp]:
    """Return the part of each number in [0, 1)."""
    edges = np.cumsum(list(shares.values()))[:-1]
    return np.searchsorted(edges, positions, side="right")


def check_graph(graph: object) -> None:
    """Refuse what is no graph, such as one whose degrees were capped."""
    if not isinstance(graph, EntityGraph):
        raise GraphError(
            f"`graph` must be an EntityGraph, got a {type(graph).__name__}. Split a graph before its degrees are "
            "capped."
        )


def _check_shares(shares: Mapping[str, float]) -> None:
    given: object = shares
    if not isinstance(given, Mapping):
        raise GraphError(
            f"`shares` must give a share by the name of each part, got a {type(given).__name__}. Use "
            "{'train': 0.8, 'test': 0.2}."
        )
    positive = all(isinstance(share, float | int) and share > 0 for share in shares.values())
    if not positive or not math.isclose(sum(shares.values()), 1.0, abs_tol=1e-9):
        raise GraphError(f"`shares` must be positive and sum to 1, got {dict(shares)}.")


def _listed(parts: Mapping[str, Iterable[Any]], known: list[Any]) -> dict[str, list[Any]]:
    """Return the values of each part, each known and in one part only."""
    chosen = {name: list(values) for name, values in parts.items()}
    all_values = [value for values in chosen.values() for value in values]
    there = set(known)
    for name, values in chosen.items():  # a value may be an id: errors give counts only
        unknown = sum(not isinstance(value, Hashable) or value not in there for value in values)
        if unknown:
            raise GraphError(
                f"`parts` must name values of the column, got {unknown} others in {name!r}."
            )
    shared = sum(count > 1 for count in Counter(all_values).values())
    if shared:
        raise GraphError(f"`parts` must not share a value, got {shared} that occur twice.")
    return chosen


def _words(shares: Mapping[str, float]) -> str:
    return "(" + ", ".join(f"{name} {share:g}" for name, share in shares.items()) + ")"
