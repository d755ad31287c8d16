"""Relation prediction on a test graph: ``reldp.evaluate``.

Two protocols. With a number of candidates, the paper's: the graph's relations are shuffled into
batches of 256, and each end must find its partner among the 256 of its batch (an incomplete last
batch is left out, so that every query has equally many candidates). With ``candidates="all"``,
each end must find its partner among all entities.

Guarantees: everything is a function of the embeddings, the graph and the seed. What comes out is
computed from the graph's relations without noise, so it is sensitive for that graph
(theory.md 6): evaluate on public relations, or keep the numbers to yourself.

Public: `evaluate`, `EvaluationResult`.

>>> from reldp.graph import EntityGraph
>>> graph = EntityGraph.from_lists([1, 2, 3, 4], [(1, 2), (3, 4)], text=["a", "b", "c", "d"])
>>> vectors = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
>>> evaluate(vectors, graph, candidates=2)["mrr"]
1.0
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from reldp._validate import check_integer
from reldp.errors import InputError
from reldp.evaluation.intervals import Estimate, bootstrap, difference
from reldp.evaluation.metrics import FULL_METRICS, IN_BATCH_METRICS, Ranks, metric
from reldp.evaluation.ranking import Neighbors, full_ranks, in_batch_ranks, prepared

if TYPE_CHECKING:
    from reldp.graph import CappedGraph, EntityGraph

__all__ = ["EvaluationResult", "evaluate"]

_Values = npt.NDArray[np.float64]
_Embed = Callable[[npt.NDArray[np.int64]], npt.NDArray[Any]]  # entities -> embeddings


class _Encoder(Protocol):
    """What is needed of an encoder."""

    def encode_graph(
        self, graph: Any, indices: Any = None, *, batch_size: int | None = None
    ) -> npt.NDArray[np.float32]: ...


@dataclass(frozen=True, kw_only=True)
class EvaluationResult:
    """What an encoder can predict; sensitive for the graph it was computed on.

    Attributes:
        metrics: Mean over all queries and interval, by name, as shares between 0 and 1.
        settings: Everything that the numbers depend on besides embeddings and graph.
        num_relations: How many relations were asked for, each from both ends.
        values: Mean of a relation's two queries, by metric, in a seeded order.
    """

    metrics: Mapping[str, Estimate]
    settings: Mapping[str, Any]
    num_relations: int
    values: Mapping[str, _Values] = field(repr=False)

    def __getitem__(self, name: str) -> float:
        """Return the value of a metric."""
        return self.metrics[name].value

    def gain_over(self, other: "EvaluationResult", name: str) -> Estimate:
        """How much better this encoder is than another on the same relations, with an interval."""
        if self.settings != other.settings:
            raise InputError("`other` must come from the same settings, got others.")
        mine, theirs = self.values[name], other.values[name]
        return difference(mine, theirs, **_bootstrap_settings(self.settings))

    def to_json(self) -> dict[str, Any]:
        """Return the numbers and what they depend on, as plain JSON values."""
        return {
            **{name: estimate.value for name, estimate in self.metrics.items()},
            "intervals": {name: [e.low, e.high] for name, e in self.metrics.items()},
            "num_relations": self.num_relations,
            **self.settings,
            "privacy": "sensitive: computed from the graph's relations without noise",
        }

    def __str__(self) -> str:
        return ", ".join(f"{name} {estimate}" for name, estimate in self.metrics.items())


def evaluate(
    encoder: _Encoder | npt.NDArray[Any],
    graph: "EntityGraph | CappedGraph",
    candidates: int | str = 256,
    *,
    score: str = "cosine",
    filtered: bool | None = None,
    max_relations: int | None = None,
    seed: int = 0,
    batch_size: int | None = None,
    resamples: int = 1000,
    confidence: float = 0.95,
) -> EvaluationResult:
    """Measure how well an encoder predicts the relations of a graph.

    Args:
        encoder: An encoder, or the embeddings (entities, dim) themselves.
        graph: The test graph.
        candidates: Relations per batch, or ``"all"`` for a ranking of all entities.
        score: ``"cosine"`` or ``"dot"``.
        filtered: Whether the query's other known partners are left out of its candidates (default: yes
            for ``candidates="all"``, no for batches, as in the paper).
        max_relations: Largest number of relations to evaluate, chosen by the seed (default: all).
        seed: Seed of the order of relations and of the bootstrap.
        batch_size: Number of texts encoded at once (default: the encoder's choice).
        resamples: Number of bootstrap resamples.
        confidence: Confidence level of the intervals.

    Returns:
        ``prec@1``, ``hits@10``, ``mrr`` and ``ndcg``; with all candidates ``hits@1``, ``hits@10``,
        ``hits@100``, ``mrr`` and ``ndcg``. Equal scores count as their expectation.
    """
    filtered = candidates == "all" if filtered is None else filtered
    settings = {
        "candidates": candidates,
        "score": score,
        "filtered": filtered,
        "max_relations": max_relations,
        "seed": seed,
        "resamples": resamples,
        "confidence": confidence,
    }
    chosen = _chosen_relations(graph, candidates, max_relations, seed)

    def embed(entities: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        return prepared(_embeddings(encoder, graph, entities, batch_size), score)

    if candidates == "all":
        ranks = _rank_all(embed, graph, chosen, filtered)
    else:
        ranks = _rank_in_batches(embed, graph, chosen, filtered, int(candidates))
    names = FULL_METRICS if candidates == "all" else IN_BATCH_METRICS
    values = {name: metric(ranks, name).mean(axis=1) for name in names}
    return EvaluationResult(
        metrics={n: bootstrap(v, **_bootstrap_settings(settings)) for n, v in values.items()},
        settings=settings,
        num_relations=len(chosen),
        values=values,
    )


def _bootstrap_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: settings[name] for name in ("resamples", "confidence", "seed")}


def _chosen_relations(
    graph: "EntityGraph | CappedGraph", candidates: int | str, limit: int | None, seed: int
) -> npt.NDArray[np.int64]:
    """Return the relations to ask for, in a seeded order."""
    count = graph.num_relations
    if limit is not None:
        check_integer("max_relations", limit, low=1, error=InputError)
    num_chosen = count if limit is None else min(limit, count)
    if candidates != "all":
        rule = "an integer of at least 2, or all"
        size = check_integer("candidates", candidates, low=2, rule=rule, error=InputError)
        if size > num_chosen:
            raise InputError(
                f"`candidates` must be at most the number of relations, got {candidates} "
                f"and {num_chosen} relations. Use fewer candidates, or all."
            )
        num_chosen -= num_chosen % size
    elif not num_chosen:
        raise InputError("`graph` must have relations to predict, got none.")
    order = np.random.default_rng(seed).permutation(count)[:num_chosen]
    return graph.relations[order]


def _rank_in_batches(
    embed: _Embed,
    graph: "EntityGraph | CappedGraph",
    relations: npt.NDArray[np.int64],
    filtered: bool,
    candidates: int,
) -> Ranks:
    """Return ranks within batches; only entities that occur in them are encoded."""
    entities, local = np.unique(relations, return_inverse=True)
    vectors = embed(entities)
    known = _known_among(graph, entities) if filtered else None
    pairs = local.reshape(relations.shape)
    return in_batch_ranks(vectors, pairs, candidates=candidates, known=known)


def _rank_all(
    embed: _Embed,
    graph: "EntityGraph | CappedGraph",
    relations: npt.NDArray[np.int64],
    filtered: bool,
) -> Ranks:
    """Return ranks among all entities of the graph."""
    vectors = embed(np.arange(graph.num_entities))
    known = Neighbors(graph.relations, graph.num_entities) if filtered else None
    return full_ranks(vectors, relations, known=known)


def _embeddings(
    encoder: _Encoder | npt.NDArray[Any],
    graph: "EntityGraph | CappedGraph",
    entities: npt.NDArray[np.int64],
    batch_size: int | None,
) -> npt.NDArray[Any]:
    """Embeddings of some entities, from an encoder or from an array that has them all."""
    if not isinstance(encoder, np.ndarray):
        return encoder.encode_graph(graph, entities, batch_size=batch_size)
    if encoder.ndim != 2 or len(encoder) != graph.num_entities:
        raise InputError(
            f"`encoder` must be an encoder or an array of {graph.num_entities} embeddings, "
            f"got shape {encoder.shape}."
        )
    chosen: npt.NDArray[Any] = encoder[entities]
    return chosen


def _known_among(graph: "EntityGraph | CappedGraph", entities: npt.NDArray[np.int64]) -> Neighbors:
    """Return the graph's relations among some entities (sorted), numbered by their position."""
    place = np.full(graph.num_entities, -1)
    place[entities] = np.arange(len(entities))
    relations = place[graph.relations]
    return Neighbors(relations[(relations >= 0).all(axis=1)], len(entities))
