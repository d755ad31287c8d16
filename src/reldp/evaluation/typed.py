"""Ranking of typed relations: scores of a trained typed loss, and known partners of one type and direction.

For the relation (source, type, target), the source is asked for targets of that type, and the target for
sources. Filtered ranking leaves out the other known targets of (source, type), and the other known sources
of (type, target): the standard protocol of knowledge graphs. Partners of other types stay candidates.

Private to the package: `TypedLoss`, `TypedScores`, `TypedNeighbors`, `types_for`, `by_type`.

>>> known = TypedNeighbors(np.array([[0, 1], [0, 2], [0, 3]]), np.array([0, 0, 1]), 2)
>>> known.of(np.array([0]), np.array([0]), np.array([0]))[1].tolist()  # targets of (0, type 0)
[1, 2]
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from reldp.errors import InputError
from reldp.evaluation.ranking import DotScores, Neighbors

if TYPE_CHECKING:
    from reldp.graph import CappedGraph, EntityGraph

__all__ = ["TypedLoss", "TypedNeighbors", "TypedScores", "by_type", "typed_scores", "types_for"]

_TIE = 1e-6

_Vectors = npt.NDArray[np.float32]
_Indices = npt.NDArray[np.int64]


class TypedLoss(Protocol):
    """What is needed of a typed loss; `reldp.losses.TypedLoss` has it."""

    name: str
    type_names: tuple[str, ...]
    normalize: bool
    comparison: str

    def query_vectors(
        self, vectors: npt.NDArray[Any], types: npt.NDArray[Any], endpoint: int
    ) -> npt.NDArray[np.float32]:
        """Return what candidates for the other endpoint are compared with, (queries, dim)."""
        ...


def typed_scores(loss: Any) -> "TypedScores":
    """Return the scores of a typed loss, or of the one inside a Matryoshka loss."""
    inner = loss if hasattr(loss, "query_vectors") else getattr(loss, "loss", loss)
    if not hasattr(inner, "query_vectors"):
        raise InputError(
            f"`loss` must be a typed loss, such as a reldp.losses.DistMultLoss, got {type(loss).__name__}. Leave "
            "it out to rank by the similarity of embeddings."
        )
    return TypedScores(inner)


class TypedScores(DotScores):
    """Scores of a typed loss.

    Attributes:
        loss: The loss.
    """

    def __init__(self, loss: TypedLoss) -> None:
        self.loss = loss

    def queries(
        self, vectors: _Vectors, types: _Indices | None, endpoints: _Indices
    ) -> npt.NDArray[Any]:
        """Return what candidates are compared with, (queries, dim)."""
        assert types is not None, "types_for comes first"
        asked = np.empty(vectors.shape, dtype=np.float32)
        for endpoint in (0, 1):
            rows = endpoints == endpoint
            asked[rows] = self.loss.query_vectors(vectors[rows], types[rows], endpoint)
        return asked

    def scores(self, asked: npt.NDArray[Any], candidates: _Vectors) -> npt.NDArray[Any]:
        """Return the score of every candidate for every query, (queries, candidates)."""
        if self.loss.comparison == "dot":
            return super().scores(asked, candidates)
        if self.loss.comparison == "l1":
            from scipy.spatial.distance import cdist

            sums: npt.NDArray[Any] = -cdist(asked, candidates, "cityblock")
            return sums
        # In float64, what the difference of squares loses is far below a tie.
        left, right = asked.astype(np.float64), candidates.astype(np.float64)
        squares = (left**2).sum(1)[:, None] + (right**2).sum(1) - 2.0 * left @ right.T
        distances: npt.NDArray[Any] = np.sqrt(np.maximum(squares, 0.0))
        return -distances

    def answer_scores(self, asked: npt.NDArray[Any], answers: _Vectors) -> npt.NDArray[Any]:
        """Return the score of every query's answer, (queries,)."""
        if self.loss.comparison == "dot":
            return super().answer_scores(asked, answers)
        return -self._length(asked.astype(np.float64) - answers)

    def tolerance(self, asked: npt.NDArray[Any], answers: _Vectors) -> npt.NDArray[Any]:
        """Return the difference below which two scores are the same, (queries,)."""
        if self.loss.comparison == "dot":
            return super().tolerance(asked, answers)
        tolerance: npt.NDArray[Any] = _TIE * (self._length(asked) + self._length(answers))
        return tolerance

    def _length(self, vectors: npt.NDArray[Any]) -> npt.NDArray[Any]:
        order = 1 if self.loss.comparison == "l1" else 2
        lengths: npt.NDArray[Any] = np.linalg.norm(vectors, ord=order, axis=1)
        return lengths


class TypedNeighbors(Neighbors):
    """Known partners of every (entity, type, direction), in three flat arrays."""

    def __init__(self, relations: _Indices, types: _Indices, num_types: int) -> None:
        """Index relations (source, target), (m, 2), of types (m,) below their number."""
        self._num_types = num_types
        keys = [self._keys(relations[:, endpoint], types, endpoint) for endpoint in (0, 1)]
        sides = np.concatenate(keys)
        order = np.argsort(sides, kind="stable")
        self._sides = sides[order]
        self._partners = np.concatenate([relations[:, 1], relations[:, 0]])[order]

    def of(
        self, entities: _Indices, types: _Indices | None = None, endpoints: _Indices | None = None
    ) -> tuple[_Indices, _Indices]:
        """All (position in ``entities``, partner) pairs: targets where endpoint 0 is given, else sources."""
        assert types is not None, "partners of typed relations have a type"
        assert endpoints is not None, "partners of typed relations have a direction"
        keys = self._keys(entities, types, endpoints)
        starts = np.searchsorted(self._sides, keys, side="left")
        counts = np.searchsorted(self._sides, keys, side="right") - starts
        rows = np.repeat(np.arange(len(keys)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return rows, self._partners[np.repeat(starts, counts) + within]

    def _keys(self, entities: _Indices, types: _Indices, endpoints: Any) -> _Indices:
        keys: _Indices = (entities * self._num_types + types) * 2 + endpoints
        return keys


def types_for(graph: "EntityGraph | CappedGraph", loss: TypedLoss | None) -> _Indices | None:
    """Return the type of each relation of a graph, as places in its names or in those of a loss.

    Raises:
        InputError: The loss needs types and the graph has none, or the loss does not know a type.
    """
    types = graph.relation_types
    if loss is None:
        return None if types is None else types.astype(np.int64)
    if types is None:
        raise InputError(
            f"`graph` must have types of relations for the {loss.name} loss, got none. Leave `loss` out to rank "
            "by the similarity of embeddings."
        )
    place = {name: number for number, name in enumerate(loss.type_names)}
    codes = np.array([place.get(name, -1) for name in graph.type_names], dtype=np.int64)
    num_unknown = int((codes[np.unique(types)] < 0).sum())
    if num_unknown:  # not quoted: types outside of the public list are content of the graph
        raise InputError(
            f"`graph` must have types that the loss was trained with, got {num_unknown} unknown "
            f"type{'' if num_unknown == 1 else 's'} of relations. Leave their relations out."
        )
    return codes[types]


def by_type(
    values: Mapping[str, npt.NDArray[np.float64]], types: _Indices
) -> dict[int, dict[str, npt.NDArray[np.float64]]]:
    """Return the values of each metric by the type of the relation; types without relations are left out."""
    return {
        int(kind): {name: value[types == kind] for name, value in values.items()}
        for kind in np.unique(types)
    }
