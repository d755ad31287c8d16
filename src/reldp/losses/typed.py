"""Losses of typed relations: a trained vector for every type, inside the included objectives.

A typed relation is (source, type, target); endpoint 0 is the source. A *score* says how well a source and a
target fit a type. A negative stands in for one endpoint and is scored with the other one, in its own
role: a negative that was drawn for endpoint 0 is scored as the target of the source, one that was drawn for
endpoint 1 as the source of the target. The objective compares these scores with the positive's, as the
untyped losses do.

Guarantees (theory.md 2): the type is part of its tuple, so the loss of a tuple is a function of that tuple. Vectors
of types are parameters like all others: their gradients are clipped jointly with the encoder's, per clip unit,
and get noise. All of them get noise in every step, so a type with few relations learns little but noise. Vectors
therefore start where every type means plain similarity, and depend on no seed.

Public: `TypedLoss`, the base of `reldp.losses.DistMultLoss`, `ComplExLoss` and `TransELoss`.

>>> issubclass(TypedLoss, nn.Module)
True
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from reldp._torch_state import plain_torch
from reldp._validate import (
    OBJECTIVES,
    as_integer,
    check,
    check_choice,
    check_flag,
    check_integer,
    check_number,
)
from reldp.errors import ConfigError
from reldp.losses.infonce import softmax_loss
from reldp.losses.loss import LossBatch, check_batch
from reldp.losses.pairs import Pairs, compared_pairs, per_negative
from reldp.losses.settings import LossSettings
from reldp.losses.sums import hinge_terms, logistic_terms
from reldp.losses.unit_length import unit_length

__all__ = ["TYPED_PAIRINGS", "TypedLoss"]

TYPED_PAIRINGS = ("one", "both")


class TypedLoss(nn.Module, ABC):
    """A loss of relations that have a type.

    Attributes:
        name: Name in settings, recipes and on the command line.
        type_names: Names of the types, in the graph's order; public.
        dim: Length of an embedding, and of a type's vector.
        relations: The trained vectors: an embedding table whose weight is (types, dim).
        objective: ``"infonce"``, ``"logistic"`` or ``"hinge"``.
        temperature: Every score is divided by it.
        margin: Margin of the hinge objective, in units of the divided score.
        pairing: ``"both"``, every negative as the target of the source and as the source of the target; ``"one"``,
            with the endpoint that was drawn for it only.
        normalize: Whether embeddings are divided by their lengths first (those below 1e-4 count as 1e-4).
        comparison: How queries and candidates are compared: ``"dot"``, or minus the distance ``"l2"`` or ``"l1"``.
    """

    name: ClassVar[str]
    takes_prefixes: ClassVar[bool] = True
    comparison: str = "dot"

    def __init__(
        self,
        type_names: Sequence[str],
        dim: int,
        *,
        objective: str = "infonce",
        temperature: float = LossSettings.temperature,
        margin: float = 1.0,
        pairing: str = "both",
        normalize: bool = True,
    ) -> None:
        """Make the vectors of all types.

        Args:
            type_names: Names of the types, as in ``graph.type_names``.
            dim: Length of an embedding, as in ``encoder.dim``.
            objective: How the positive's score is compared with those of negatives.
            temperature: Divisor of every score.
            margin: Margin of the hinge objective.
            pairing: Endpoints that a negative stands in for.
            normalize: Whether embeddings are divided by their lengths first.

        Raises:
            ConfigError: There is no type, or a value breaks its rule.
        """
        super().__init__()
        self.type_names = _checked_names(type_names)
        self.dim = check_integer("dim", as_integer(dim), low=1, error=ConfigError)
        self.objective = check_choice("objective", objective, OBJECTIVES, error=ConfigError)
        self.temperature = check_number("temperature", temperature, above=0, error=ConfigError)
        self.margin = check_number("margin", margin, above=0, error=ConfigError)
        self.pairing = check_choice("pairing", pairing, TYPED_PAIRINGS, error=ConfigError)
        self.normalize = check_flag("normalize", normalize, error=ConfigError)
        start = self._start().expand(self.num_types, -1).clone()
        # With weights, the constructor draws no random numbers.
        self.relations = nn.Embedding(self.num_types, self.dim, _weight=start)

    @property
    def num_types(self) -> int:
        """Number of types."""
        return len(self.type_names)

    @abstractmethod
    def _start(self) -> Tensor:
        """Return the vector, (dim,), with which a type means plain similarity."""

    @abstractmethod
    def _query(self, rows: Tensor, relations: Tensor, endpoint: int) -> Tensor:
        """Return what candidates for the other endpoint are compared with.

        Args:
            rows: Embeddings of the endpoints that are given, (..., dim).
            relations: Vectors of their types, (..., dim).
            endpoint: Which endpoint is given: 0, the source, or 1, the target.
        """

    def _compare(self, candidates: Tensor, queries: Tensor) -> Tensor:
        """Return the scores of all candidates (tuples, a, dim) for all queries (tuples, b, dim), (tuples, a, b)."""
        return candidates @ queries.transpose(1, 2)

    def forward(self, embeddings: Tensor, batch: LossBatch) -> Tensor:
        """Return the loss: one value per tuple, (tuples,), or per tuple and negative, (tuples, k).

        Raises:
            ConfigError: The tuples have no types, or the embeddings have another length.
        """
        check_batch(embeddings, batch)
        if batch.types is None:
            raise ConfigError(
                f"`loss` must be untyped for relations without a type, got {type(self).__name__}. Add a column "
                "`type` to the relations, or use another loss, such as infonce."
            )
        rows = embeddings if embeddings.dtype == torch.float64 else embeddings.float()
        rows = unit_length(rows) if self.normalize else rows
        relations = self._looked_up(batch.types, rows)  # (tuples, dim)
        given = [self._query(rows[:, endpoint], relations, endpoint) for endpoint in (0, 1)]
        queries = torch.stack(given, dim=1)  # (tuples, 2, dim)
        positive = self._compare(rows[:, 1:2], queries[:, :1]).flatten()  # (tuples,)
        compared = torch.cat([queries, rows[:, 2:]], dim=1)
        return self._objective(
            compared_pairs(compared, batch, self.pairing, positive, self._compare), batch
        )

    @plain_torch()
    def query_vectors(
        self, vectors: npt.NDArray[Any], types: npt.NDArray[Any], endpoint: int
    ) -> npt.NDArray[np.float32]:
        """Return what candidates for the other endpoint are compared with, for a ranking.

        Args:
            vectors: Embeddings of the endpoints that are given, (queries, dim), divided by their lengths if
                `normalize` is true. They may have fewer numbers, as `MatryoshkaLoss` trains them.
            types: Types, places in `type_names`, (queries,).
            endpoint: Which endpoint is given: 0, the source, or 1, the target.
        """
        rows = torch.from_numpy(np.array(vectors, dtype=np.float32))
        with torch.no_grad():
            table = self.relations.weight.cpu()[:, : self._checked_length(rows)]
            relations = table[torch.from_numpy(np.array(types)).long()]
            queries: npt.NDArray[np.float32] = self._query(rows, relations, endpoint).numpy()
        return queries

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain JSON values; the names of types are in the model's loss.json."""
        return {
            "score": self.name,
            "num_types": self.num_types,
            "dim": self.dim,
            "objective": self.objective,
            "temperature": self.temperature,
            "margin": self.margin,
            "pairing": self.pairing,
            "normalize": self.normalize,
        }

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        return ", ".join(f"{name}={value!r}" for name, value in self.describe().items())

    def _looked_up(self, types: Tensor, rows: Tensor) -> Tensor:
        """Return the vector of each tuple's type, (tuples, length), for rows (tuples, 2 + k, length).

        The table is asked once per row, because that is how the gradient engine deals out a forward pass.
        """
        count, length = rows.shape[1], self._checked_length(rows)
        repeated = types[:, None].expand(-1, count).reshape(-1)
        vectors: Tensor = self.relations(repeated).view(-1, count, self.dim)
        return vectors[:, 0, :length]

    def _checked_length(self, rows: Tensor) -> int:
        """Return the length of embeddings; refuse one that the vectors do not have."""
        length = rows.shape[-1]
        if length > self.dim or (length < self.dim and not self.takes_prefixes):
            raise ConfigError(
                f"`dim` of {type(self).__name__} must be the length of the embeddings, {length}, got {self.dim}."
            )
        return length

    def _objective(self, pairs: Pairs, batch: LossBatch) -> Tensor:
        """Return the objective of scored pairs."""
        if self.objective == "infonce":
            return softmax_loss(pairs, self.temperature)
        positive, compared = (
            pairs.positive[:, None] / self.temperature,
            pairs.compared / self.temperature,
        )
        if self.objective == "hinge":
            terms = hinge_terms(positive, compared, self.margin)
        else:
            terms = logistic_terms(positive, compared)
        return per_negative(terms.masked_fill(pairs.hidden, 0.0), batch, self.pairing)


def _checked_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of types; refuse none, equal ones, and a number in their place."""
    fix = "Pass graph.type_names."
    is_list = isinstance(names, Sequence) and not isinstance(names, str)
    check(is_list, "type_names", "a list of names", names, error=ConfigError, fix=fix)
    is_text = all(isinstance(name, str) for name in names)
    check(is_text, "type_names", "a list of texts", names, error=ConfigError, fix=fix)
    if not names:
        raise ConfigError(
            "`type_names` must hold at least one type, got none. Add a column `type` to the relations, or use an "
            "untyped loss, such as infonce."
        )
    different = len(set(names)) == len(names)
    check(different, "type_names", "different names", names, error=ConfigError)
    return tuple(names)
