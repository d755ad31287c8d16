"""Rank of the true partner of each relation among candidates, by the score of embeddings.

Both protocols query both endpoints: for the relation (u, v), u is asked for v and v for u. The query
itself and the answer again are never candidates. Filtered ranking also leaves out the query's
other known partners, which are right answers too. For typed relations, `reldp.evaluation.typed` has
other scores and other known partners.

Scores closer than 1e-6 of the two lengths' product are a tie: such differences are rounding errors.
Memory is bounded by blocks; the result does not depend on their size.

Public: `in_batch_ranks` (the paper's protocol), `full_ranks`, `Neighbors`, `DotScores`.

>>> vectors = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]], dtype=np.float32)
>>> full_ranks(vectors, np.array([[0, 1], [2, 3]]), known=None).better.tolist()
[[0, 0], [0, 0]]
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from reldp._validate import shown
from reldp.errors import InputError
from reldp.evaluation.metrics import Ranks

__all__ = ["DotScores", "Neighbors", "full_ranks", "in_batch_ranks", "prepared"]

_TIE = 1e-6

_Vectors = npt.NDArray[np.float32]
_Indices = npt.NDArray[np.int64]


class Neighbors:
    """Known partners of every entity, in two flat arrays."""

    def __init__(self, relations: _Indices, num_entities: int) -> None:
        """Index relations, (m, 2) entity indices without direction."""
        sources = np.concatenate([relations[:, 0], relations[:, 1]])
        targets = np.concatenate([relations[:, 1], relations[:, 0]])
        self._partners = targets[np.argsort(sources, kind="stable")]
        counts = np.bincount(sources, minlength=num_entities)
        self._offsets = np.concatenate([[0], np.cumsum(counts)])

    def of(
        self, entities: _Indices, types: _Indices | None = None, endpoints: _Indices | None = None
    ) -> tuple[_Indices, _Indices]:
        """All (position in ``entities``, partner) pairs; types and endpoints are ignored here."""
        starts = self._offsets[entities]
        counts = self._offsets[entities + 1] - starts
        rows = np.repeat(np.arange(len(entities)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return rows, self._partners[np.repeat(starts, counts) + within]


class DotScores:
    """Scores of untyped relations: dot products, the same in both directions."""

    def queries(
        self, vectors: _Vectors, types: _Indices | None, endpoints: _Indices
    ) -> npt.NDArray[Any]:
        """Return what candidates are compared with, (queries, dim).

        Args:
            vectors: Embeddings of the endpoints that are given, (queries, dim).
            types: Type of each relation, (queries,), if relations have types.
            endpoints: Which endpoint is given, (queries,): 0 or 1.
        """
        return vectors

    def scores(self, asked: npt.NDArray[Any], candidates: _Vectors) -> npt.NDArray[Any]:
        """Return the score of every candidate for every query, (queries, candidates)."""
        values: npt.NDArray[Any] = asked @ candidates.T
        return values

    def answer_scores(self, asked: npt.NDArray[Any], answers: _Vectors) -> npt.NDArray[Any]:
        """Return the score of every query's answer, (queries,)."""
        values: npt.NDArray[Any] = np.einsum("qd,qd->q", asked, answers)
        return values

    def tolerance(self, asked: npt.NDArray[Any], answers: _Vectors) -> npt.NDArray[Any]:
        """Return the difference below which two scores are the same, (queries,)."""
        lengths = np.linalg.norm(asked, axis=1) * np.linalg.norm(answers, axis=1)
        tolerance: npt.NDArray[Any] = (_TIE * lengths).astype(np.float32)
        return tolerance


def prepared(embeddings: npt.NDArray[Any], score: str) -> _Vectors:
    """Embeddings (entities, dim) whose dot product is the score; bad values are refused.

    A comparison with NaN is never true, so a broken encoder would seem to rank perfectly.
    """
    try:
        vectors = np.asarray(embeddings, dtype=np.float32)
    except (ValueError, TypeError):  # it would quote the value
        raise InputError("`embeddings` must be a matrix of numbers, got other values.") from None
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise InputError(
            f"`embeddings` must be finite with shape (entities, dim), got {_shown(vectors)}."
        )
    if score == "dot":
        return vectors
    if score == "cosine":
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: _Vectors = vectors / np.maximum(norms, np.float32(1e-30))
        return unit
    raise InputError(f"`score` must be cosine or dot, got {shown(score)}.")


def in_batch_ranks(
    vectors: _Vectors,
    relations: _Indices,
    *,
    candidates: int,
    known: Neighbors | None,
    types: _Indices | None = None,
    scores: DotScores | None = None,
) -> Ranks:
    """Return ranks among the partners of the other relations in the same batch.

    Args:
        vectors: Shape (entities, dim).
        relations: Shape (batches * candidates, 2), in the order of the batches.
        candidates: Relations per batch.
        known: Partners to leave out; None leaves out the query and the answer only.
        types: Type of each relation, if relations have types.
        scores: How queries and candidates are scored; dot products unless given.

    Returns:
        Shape (relations, 2): ranks of the second endpoint, then of the first.
    """
    scores = DotScores() if scores is None else scores
    better = np.empty(relations.shape, dtype=np.int64)
    ties = np.empty(relations.shape, dtype=np.int64)
    for start in range(0, len(relations), candidates):
        rows = slice(start, start + candidates)
        for direction in (0, 1):
            queries, answers = relations[rows, direction], relations[rows, 1 - direction]
            asks = None if types is None else types[rows], np.full(len(queries), direction)
            asked, partners = scores.queries(vectors[queries], *asks), vectors[answers]
            values = scores.scores(asked, partners)  # (candidates, candidates)
            answer_scores = values.diagonal().copy()
            hidden = _hidden_in_batch(queries, answers, known, *asks)
            better[rows, direction], ties[rows, direction] = _count(
                np.where(hidden, -np.inf, values), answer_scores, scores.tolerance(asked, partners)
            )
    return Ranks(better=better, ties=ties)


def full_ranks(
    vectors: _Vectors,
    relations: _Indices,
    *,
    known: Neighbors | None,
    types: _Indices | None = None,
    scores: DotScores | None = None,
    query_block: int = 256,
    candidate_block: int = 16_384,
) -> Ranks:
    """Return ranks among all entities.

    Args:
        vectors: Shape (entities, dim).
        relations: Shape (m, 2).
        known: Partners to leave out; None leaves out the query and the answer only.
        types: Type of each relation, if relations have types.
        scores: How queries and candidates are scored; dot products unless given.
        query_block: Queries scored at once.
        candidate_block: Candidates scored at once.

    Returns:
        Shape (m, 2): ranks of the second endpoint, then of the first.
    """
    queries = relations.T.reshape(-1)  # (2 m,): all first endpoints, then all second ones
    answers = relations[:, ::-1].T.reshape(-1)
    given = np.repeat([0, 1], len(relations))  # the endpoint that is not asked for
    kinds = None if types is None else np.tile(types, 2)
    better, ties = np.zeros(len(queries), np.int64), np.zeros(len(queries), np.int64)
    for start in range(0, len(queries), query_block):
        block = slice(start, start + query_block)
        asks = None if kinds is None else kinds[block], given[block]
        counts = _full_block(
            vectors,
            queries[block],
            answers[block],
            known,
            asks,
            DotScores() if scores is None else scores,
            candidate_block,
        )
        better[block], ties[block] = counts
    return Ranks(better=better.reshape(2, -1).T, ties=ties.reshape(2, -1).T)


def _full_block(
    vectors: _Vectors,
    queries: _Indices,
    answers: _Indices,
    known: Neighbors | None,
    asks: tuple[_Indices | None, _Indices],
    scores: DotScores,
    width: int,
) -> tuple[_Indices, _Indices]:
    """Return the numbers of better and of tied candidates of a block of queries, over all entities."""
    better, ties = np.zeros(len(queries), np.int64), np.zeros(len(queries), np.int64)
    asked = scores.queries(vectors[queries], *asks)
    answer_scores = scores.answer_scores(asked, vectors[answers])
    tolerance = scores.tolerance(asked, vectors[answers])
    rows, entities = _left_out(queries, answers, known, *asks)
    for start in range(0, len(vectors), width):
        values = scores.scores(asked, vectors[start : start + width])  # (queries, width)
        inside = (entities >= start) & (entities < start + width)
        values[rows[inside], entities[inside] - start] = -np.inf
        more = _count(values, answer_scores, tolerance)
        better += more[0]
        ties += more[1]
    return better, ties


def _left_out(
    queries: _Indices,
    answers: _Indices,
    known: Neighbors | None,
    types: _Indices | None,
    endpoints: _Indices,
) -> tuple[_Indices, _Indices]:
    """Return (row, entity) pairs that are not candidates: query, answer, and known partners."""
    rows = np.arange(len(queries))
    pairs = [(rows, queries), (rows, answers)]
    if known is not None:
        pairs.append(known.of(queries, types, endpoints))
    return np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])


def _hidden_in_batch(
    queries: _Indices,
    answers: _Indices,
    known: Neighbors | None,
    types: _Indices | None,
    endpoints: _Indices,
) -> npt.NDArray[np.bool_]:
    """Shape (queries, answers): True where the other answer is no candidate."""
    distinct, column = np.unique(answers, return_inverse=True)
    rows, entities = _left_out(queries, answers, known, types, endpoints)
    place = np.minimum(np.searchsorted(distinct, entities), len(distinct) - 1)
    is_answer = distinct[place] == entities
    hidden = np.zeros((len(queries), len(distinct)), dtype=bool)
    hidden[rows[is_answer], place[is_answer]] = True
    return hidden[:, column]


def _count(
    scores: npt.NDArray[Any], answer_scores: npt.NDArray[Any], tolerance: npt.NDArray[Any]
) -> tuple[_Indices, _Indices]:
    """Return how many scores of each row are above the answer's score, and how many are tied with it."""
    above = scores > (answer_scores + tolerance)[:, None]
    not_below = scores >= (answer_scores - tolerance)[:, None]
    better = above.sum(axis=1, dtype=np.int64)
    return better, not_below.sum(axis=1, dtype=np.int64) - better


def _shown(vectors: _Vectors) -> str:
    """Return what is wrong with some embeddings."""
    if vectors.ndim != 2:
        return f"shape {vectors.shape}"
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    return f"{len(bad)} rows with NaN or infinity, the first {int(bad[0])}"
