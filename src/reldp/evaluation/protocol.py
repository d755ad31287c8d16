"""Relation prediction on a test graph: ``reldp.evaluate``.

Two protocols. With a number of candidates, the paper's: the graph's relations are shuffled into
batches of 256, and each end must find its partner among the 256 of its batch (an incomplete last
batch is left out, so that every query has equally many candidates). With ``candidates="all"``,
each end must find its partner among all entities.

Relations with types are also counted by type. With a typed loss, they are ranked by its trained scores, and a
partner must be found for (source, type) and for (type, target); otherwise types decide nothing.

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

from reldp._validate import check_integer, shown
from reldp.errors import InputError
from reldp.evaluation.intervals import Estimate, bootstrap, difference
from reldp.evaluation.metrics import FULL_METRICS, IN_BATCH_METRICS, Ranks, metric
from reldp.evaluation.ranking import DotScores, Neighbors, full_ranks, in_batch_ranks, prepared
from reldp.evaluation.typed import TypedNeighbors, TypedScores, by_type, typed_scores, types_for

if TYPE_CHECKING:
    from reldp.graph import CappedGraph, EntityGraph

__all__ = ["EvaluationResult", "evaluate"]

_MANY = 1 << 25  # relations

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
        by_type: The metrics of each type's relations, by its name; empty for relations without types.
        counts: Number of relations of each type.
    """

    metrics: Mapping[str, Estimate]
    settings: Mapping[str, Any]
    num_relations: int
    values: Mapping[str, _Values] = field(repr=False)
    by_type: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def macro(self) -> dict[str, float]:
        """The mean over types of each metric: all types count the same. `metrics` are means over relations."""
        kinds = list(self.by_type.values())
        return {
            name: float(np.mean([kind[name].value for kind in kinds]))
            for name in self.metrics
            if kinds
        }

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
            **self._types_to_json(),
            "privacy": "sensitive: computed from the graph's relations without noise",
        }

    def _types_to_json(self) -> dict[str, Any]:
        """Return the numbers by type, if there are types."""
        if not self.by_type:
            return {}
        kinds = {
            kind: {
                **{name: estimate.value for name, estimate in metrics.items()},
                "intervals": {name: [e.low, e.high] for name, e in metrics.items()},
                "num_relations": self.counts[kind],
            }
            for kind, metrics in self.by_type.items()
        }
        return {"by_type": kinds, "macro": self.macro}

    def __str__(self) -> str:
        return ", ".join(f"{name} {estimate}" for name, estimate in self.metrics.items())


def evaluate(
    encoder: _Encoder | npt.NDArray[Any],
    graph: "EntityGraph | CappedGraph",
    candidates: int | str = 256,
    *,
    score: str = "cosine",
    loss: Any = None,
    filtered: bool | None = None,
    max_relations: int | None = None,
    seed: int = 0,
    batch_size: int | None = None,
    resamples: int = 1000,
    confidence: float = 0.95,
) -> EvaluationResult:
    """Measure how well an encoder predicts the relations of a graph.

    Processes that torchrun started compute the embeddings together, so all of them must call this.

    Args:
        encoder: An encoder, or the embeddings (entities, dim) themselves.
        graph: The test graph.
        candidates: Relations per batch, or ``"all"`` for a ranking of all entities.
        score: ``"cosine"`` or ``"dot"``.
        loss: A trained typed loss, such as `TrainResult.loss` or what `reldp.losses.load` returns: relations are
            then ranked by its scores, and `score` is not used.
        filtered: Whether the query's other known partners are left out of its candidates (default: yes
            for ``candidates="all"``, no for batches, as in the paper). With a typed loss, those of the same type
            and direction.
        max_relations: Largest number of relations to evaluate, chosen by the seed (default: all).
        seed: Seed of the order of relations and of the bootstrap.
        batch_size: Number of texts encoded at once (default: the encoder's choice).
        resamples: Number of bootstrap resamples.
        confidence: Confidence level of the intervals.

    Returns:
        ``prec@1``, ``hits@10``, ``mrr`` and ``ndcg``; with all candidates ``hits@1``, ``hits@10``,
        ``hits@100``, ``mrr`` and ``ndcg``. Equal scores count as their expectation. Where relations have types,
        also by type.

    Raises:
        InputError: The graph has too few relations, or types that the loss does not know; or an argument has the
            wrong type.
    """
    _check_parts(encoder, graph)
    check_integer("seed", seed, error=InputError)
    if batch_size is not None:
        check_integer("batch_size", batch_size, low=1, error=InputError)
    scores = DotScores() if loss is None else typed_scores(loss)
    typed = scores.loss if isinstance(scores, TypedScores) else None
    types = types_for(graph, typed)
    filtered = candidates == "all" if filtered is None else filtered
    settings = {
        "candidates": candidates,
        "score": score if typed is None else typed.name,
        "filtered": filtered,
        "max_relations": max_relations,
        "seed": seed,
        "resamples": resamples,
        "confidence": confidence,
    }
    order = _chosen_relations(graph, candidates, max_relations, seed)
    if typed is not None:
        score = "cosine" if typed.normalize else "dot"

    def embed(entities: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        return prepared(_embeddings(encoder, graph, entities, batch_size), score)

    ranked = _Ranked(graph, order, types, scores, filtered)
    ranks = ranked.all(embed) if candidates == "all" else ranked.in_batches(embed, int(candidates))
    names = FULL_METRICS if candidates == "all" else IN_BATCH_METRICS
    values = {name: metric(ranks, name).mean(axis=1) for name in names}
    kinds = {} if types is None else by_type(values, types[order])
    type_names = graph.type_names if typed is None else typed.type_names
    return EvaluationResult(
        metrics=_estimates(values, settings),
        settings=settings,
        num_relations=len(order),
        values=values,
        by_type={type_names[kind]: _estimates(part, settings) for kind, part in kinds.items()},
        counts={type_names[kind]: len(next(iter(part.values()))) for kind, part in kinds.items()},
    )


def _check_parts(encoder: object, graph: object) -> None:
    """Refuse an encoder or a graph of another type."""
    from reldp.graph import CappedGraph, EntityGraph

    if not isinstance(graph, EntityGraph | CappedGraph):
        raise InputError(
            f"`graph` must be an EntityGraph or a CappedGraph, got {type(graph).__name__}. Use EntityGraph.read for a "
            "folder."
        )
    if not isinstance(encoder, np.ndarray) and not hasattr(encoder, "encode_graph"):
        raise InputError(
            f"`encoder` must be an encoder or an array of embeddings, got {type(encoder).__name__}."
        )


def _estimates(values: Mapping[str, _Values], settings: Mapping[str, Any]) -> dict[str, Estimate]:
    """Return the mean and the interval of every metric."""
    return {n: bootstrap(v, **_bootstrap_settings(settings)) for n, v in values.items()}


def _bootstrap_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: settings[name] for name in ("resamples", "confidence", "seed")}


def _chosen_relations(
    graph: "EntityGraph | CappedGraph", candidates: int | str, limit: int | None, seed: int
) -> npt.NDArray[np.int64]:
    """Return the places of the relations to ask for, in a seeded order."""
    count = graph.num_relations
    if limit is not None:
        check_integer("max_relations", limit, low=1, error=InputError)
    num_chosen = count if limit is None else min(limit, count)
    if candidates != "all":
        rule = "an integer of at least 2, or all"
        size = check_integer("candidates", candidates, low=2, rule=rule, error=InputError)
        if size > num_chosen:
            raise InputError(
                f"`candidates` must be at most the number of relations, got {shown(candidates)} "
                f"and {num_chosen} relations. Use fewer candidates, or all."
            )
        num_chosen -= num_chosen % size
    elif not num_chosen:
        raise InputError("`graph` must have relations to predict, got none.")
    rng = np.random.default_rng(seed)
    if count > _MANY and num_chosen < count // 8:  # an order of all would take 8 bytes for each
        return rng.choice(count, num_chosen, replace=False)
    return rng.permutation(count)[:num_chosen]


@dataclass(frozen=True)
class _Ranked:
    """The relations that are asked for, and how they are ranked.

    Attributes:
        graph: The test graph.
        order: Places of the relations.
        types: Type of each of the graph's relations, if there are types.
        scores: How queries and candidates are scored.
        filtered: Whether other known partners are left out.
    """

    graph: "EntityGraph | CappedGraph"
    order: npt.NDArray[np.int64]
    types: npt.NDArray[np.int64] | None
    scores: DotScores
    filtered: bool

    def in_batches(self, embed: _Embed, candidates: int) -> Ranks:
        """Return ranks within batches; only entities that occur in them are encoded."""
        relations = self.graph.relations[self.order]
        entities, local = np.unique(relations, return_inverse=True)
        return in_batch_ranks(
            embed(entities),
            local.reshape(relations.shape),
            candidates=candidates,
            known=self._known(entities),
            types=self._chosen_types,
            scores=self.scores,
        )

    def all(self, embed: _Embed) -> Ranks:
        """Return ranks among all entities of the graph."""
        entities = np.arange(self.graph.num_entities)
        return full_ranks(
            embed(entities),
            self.graph.relations[self.order],
            known=self._known(entities),
            types=self._chosen_types,
            scores=self.scores,
        )

    @property
    def _chosen_types(self) -> npt.NDArray[np.int64] | None:
        return None if self.types is None else self.types[self.order]

    def _known(self, entities: npt.NDArray[np.int64]) -> Neighbors | None:
        """Return the graph's relations among some entities (sorted), numbered by their position."""
        if not self.filtered:
            return None
        place = np.full(self.graph.num_entities, -1)
        place[entities] = np.arange(len(entities))
        relations = place[self.graph.relations]
        inside = (relations >= 0).all(axis=1)
        if isinstance(self.scores, TypedScores) and self.types is not None:
            num_types = len(self.scores.loss.type_names)
            return TypedNeighbors(relations[inside], self.types[inside], num_types)
        return Neighbors(relations[inside], len(entities))


def _embeddings(
    encoder: _Encoder | npt.NDArray[Any],
    graph: "EntityGraph | CappedGraph",
    entities: npt.NDArray[np.int64],
    batch_size: int | None,
) -> npt.NDArray[Any]:
    """Embeddings of some entities, from an encoder or from an array that has them all."""
    if not isinstance(encoder, np.ndarray):
        from reldp.encoders.shared_encoding import encode_together

        return encode_together(encoder, graph, entities, batch_size=batch_size)
    if encoder.ndim != 2 or len(encoder) != graph.num_entities:
        raise InputError(
            f"`encoder` must be an encoder or an array of {graph.num_entities} embeddings, "
            f"got shape {encoder.shape}."
        )
    chosen: npt.NDArray[Any] = encoder[entities]
    return chosen
