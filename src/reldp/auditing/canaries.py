"""Canary entities: made-up entities that are put into a graph at random, to test what a trained encoder reveals.

Each canary has `degree` partners that no other canary has. Partners are always in the graph; a canary, with all its
relations, with probability 1/2. Canaries are never related to one another and share no partner, so no positive holds
two of them, and each random draw decides about exactly one unit of privacy. Names are made of random syllables, so that
nothing else in the graph reads like them; for graphs of features they are random directions of usual length.

Public: `Canaries`, `insert_canaries`.

>>> graph = EntityGraph.from_lists(["a", "b"], [("a", "b")], text=["one", "two"])
>>> canaries = insert_canaries(graph, num_canaries=4, degree=2, seed=1)
>>> canaries.scoring.num_entities, canaries.graph.num_entities - int(canaries.included.sum())
(12, 10)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reldp._validate import check_integer
from reldp.errors import InputError
from reldp.graph import EntityGraph
from reldp.graph.columns import vectors

__all__ = ["Canaries", "insert_canaries"]

MAX_CANARIES = 10_000  # each is compared with the partners of all
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"


@dataclass(frozen=True, kw_only=True, eq=False)
class Canaries:
    """A graph with canaries, and what an attack on it needs.

    Attributes:
        graph: The graph to train on: the given one, all partners, and the canaries that were drawn.
        included: Which canaries are in; (c,) bool. The answer that an attacker guesses at.
        scoring: All canaries (first c rows) and their partners (c * degree rows, canary by canary),
            without relations: what to embed.
        degree: Relations of each canary.
    """

    graph: EntityGraph
    included: npt.NDArray[np.bool_]
    scoring: EntityGraph
    degree: int

    @property
    def num_canaries(self) -> int:
        """Number of canaries, in the graph or not."""
        return int(self.included.size)


def insert_canaries(graph: EntityGraph, *, num_canaries: int, degree: int, seed: int) -> Canaries:
    """Return a copy of the graph with canaries.

    Args:
        graph: The training graph, its degrees capped.
        num_canaries: Number of canaries, each in the graph with probability 1/2.
        degree: Relations of each canary; at most the plan's max_degree.
        seed: Seed of the random draws and names. Audits are tests: nothing here protects anyone.
    """
    check_integer("num_canaries", num_canaries, low=1, high=MAX_CANARIES, error=InputError)
    check_integer("degree", degree, low=1, error=InputError)
    check_integer("seed", seed, low=0, error=InputError)
    rng = np.random.default_rng(seed)
    included = rng.integers(0, 2, num_canaries).astype(np.bool_)
    count = num_canaries * (1 + degree)
    made = _new_entities(graph, count, rng)
    order = np.concatenate([np.flatnonzero(included), np.arange(num_canaries, count)])
    partners = np.arange(num_canaries, count).reshape(num_canaries, degree)
    pairs = [(int(c), int(p)) for c in np.flatnonzero(included) for p in partners[c]]
    return Canaries(
        graph=_joined(graph, made, order, pairs),
        included=included,
        scoring=EntityGraph.from_arrow(made, _relations(made, [])),
        degree=degree,
    )


def _name(rng: np.random.Generator, syllables: int) -> str:
    """Return a random word."""
    parts = [_CONSONANTS[rng.integers(14)] + _VOWELS[rng.integers(5)] for _ in range(syllables)]
    return "".join(parts)


def _new_entities(graph: EntityGraph, count: int, rng: np.random.Generator) -> Any:
    """Return a table of new entities with the graph's columns, all protected."""
    import pyarrow as pa

    kind = graph.ids.type
    if pa.types.is_integer(kind):
        first = int(np.max(graph.ids.to_numpy(zero_copy_only=False), initial=0)) + 1
        ids = pa.array(range(first, first + count), kind)
    else:
        ids = pa.array([f"canary {_name(rng, 12)}" for _ in range(count)], kind)
    columns = {"id": ids}
    if graph.has_text:
        texts = [" ".join(_name(rng, 3) for _ in range(4)) for _ in range(count)]
        columns["text"] = pa.array(texts, pa.string())
    features = graph.features
    if features is not None:
        length = float(np.median(np.linalg.norm(features, axis=1))) or 1.0
        drawn = rng.standard_normal((count, features.shape[1]))
        drawn *= length / np.linalg.norm(drawn, axis=1, keepdims=True)
        columns["features"] = vectors(drawn.astype(np.float32))
    columns["protected"] = pa.array(np.ones(count, dtype=bool))
    if "owner" in graph.columns:  # every canary, and every partner, is its own owner
        columns["owner"] = pa.nulls(count, graph.entities.column("owner").type)
    return pa.table(columns)


def _relations(table: Any, pairs: list[tuple[int, int]]) -> Any:
    """Relations between rows of a table, by id."""
    import pyarrow as pa

    ids = table["id"].combine_chunks()
    endpoints = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return pa.table(
        {
            "source": ids.take(pa.array(endpoints[:, 0])),
            "target": ids.take(pa.array(endpoints[:, 1])),
        }
    )


def _joined(
    graph: EntityGraph,
    made: Any,
    order: npt.NDArray[np.int64],
    pairs: list[tuple[int, int]],
) -> EntityGraph:
    """Return the graph with some of the new entities and their relations."""
    import pyarrow as pa

    entities, relations = graph.to_arrow()
    names = [name for name in ("id", "text", "features", "owner") if name in entities.column_names]
    entities_table = entities.select(names).append_column("protected", pa.array(graph.protected))
    new = made.take(pa.array(order)).select([*names, "protected"])
    both = pa.concat_tables([entities_table, new.cast(entities_table.schema)])
    added = _relations(made, pairs)
    if graph.relation_types is not None:
        types = pa.array([graph.type_names[i % len(graph.type_names)] for i in range(len(pairs))])
        added = added.append_column("type", types.cast(pa.string()))
    joined = EntityGraph.from_arrow(
        both, pa.concat_tables([relations, added.cast(relations.schema)])
    )
    return joined if graph.relation_types is None else joined.with_types(graph.type_names)
