"""A batch of tuples, as entity indices only: no text, no tensors.

A tuple is one positive relation with its negatives (theory.md 1). ``TupleBatch`` is what
a sampler gives and what clipping and encoders read.

Guarantees: shapes and types are checked on construction; arrays are read-only; the mask is computed
from the tuple alone, never given. An empty batch is an ordinary batch with zero rows. Batches are sensitive: never log
their content or size without marking them so.

Public: ``TupleBatch``.

>>> batch = TupleBatch(positives=np.array([[4, 7]]), negatives=np.array([[2, 7, 9]]),
...                    endpoints=np.array([[0, 1, 1]]), relation_ids=np.array([31]))
>>> batch.num_tuples, batch.num_negatives, batch.mask.tolist()
(1, 3, [[False, True, False]])
>>> batch.entities.tolist()
[[4, 7, 2, 7, 9]]
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reldp.errors import InputError

__all__ = ["TupleBatch"]


@dataclass(frozen=True, kw_only=True, eq=False)
class TupleBatch:
    """l tuples with k negatives each.

    Attributes:
        positives: Both endpoints of each positive relation; (l, 2) int64.
        negatives: Negative entities of each tuple; (l, k) int64. Entities of a public pool are
            numbered on from those of the graph.
        endpoints: Endpoint of the positive that each negative is paired with; (l, k) int8 in {0, 1}.
        relation_ids: Row of each positive in the capped graph's relations; (l,) int64.
        types: Type of each positive, as index of the graph's type names; (l,) int32, or None
            without types. Then endpoint 0 is the source.
        overflow: The batch could not be drawn, because it would have needed more negatives than
            there are; it is empty instead, and the ledger must say so.
        in_relations: Whether negatives are the endpoints of other relations, one relation after the other.
        mask: Where a negative is left out of the loss, (l, k) bool: an endpoint of its tuple's positive, and of
            other relations both endpoints of one that shares an entity with the positive or with one before it.
    """

    positives: NDArray[np.int64]
    negatives: NDArray[np.int64]
    endpoints: NDArray[np.int8]
    relation_ids: NDArray[np.int64]
    types: NDArray[np.int32] | None = None
    overflow: bool = False
    in_relations: bool = False
    mask: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        for name, kind in (
            ("positives", np.int64),
            ("negatives", np.int64),
            ("endpoints", np.int8),
        ):
            self._store(name, kind)
        self._store("relation_ids", np.int64)
        if self.types is not None:
            self._store("types", np.int32)
        num_tuples = self.relation_ids.size
        shapes = {
            "relation_ids": (num_tuples,),
            "positives": (num_tuples, 2),
            "negatives": (num_tuples, *self.negatives.shape[1:2]),
            "endpoints": self.negatives.shape,
        }
        if self.types is not None:
            shapes["types"] = (num_tuples,)
        for name, shape in shapes.items():
            got = getattr(self, name).shape
            if got != shape or (name == "negatives" and len(got) != 2):
                raise InputError(f"`{name}` must have shape {shape}, got {got}.")
        if self.endpoints.size and not 0 <= self.endpoints.min() <= self.endpoints.max() <= 1:
            raise InputError("`endpoints` must be 0 or 1, got other values.")
        if self.overflow and num_tuples:
            raise InputError(f"`overflow` must mean an empty batch, got {num_tuples} tuples.")
        if self.in_relations and self.negatives.shape[1] % 2:
            raise InputError(
                "`negatives` must be the endpoints of relations, got an odd number of them."
            )
        left, right = self.positives[:, :1], self.positives[:, 1:]  # (l, 1)
        mask = (self.negatives == left) | (self.negatives == right)
        if self.in_relations:
            mask = _repeated(self.positives, self.negatives)
        object.__setattr__(self, "mask", mask)
        for name in (*shapes, "mask"):
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    def _store(self, name: str, kind: type[np.signedinteger]) -> None:
        """Store the field as an array of the right integer type; refuse fractions."""
        array = np.asarray(getattr(self, name))
        if array.size and array.dtype.kind not in "iu":
            raise InputError(f"`{name}` must be integers, got {array.dtype}.")
        object.__setattr__(self, name, array.astype(kind, copy=False))

    def __repr__(self) -> str:
        note = ", overflow" if self.overflow else ""
        return f"TupleBatch(num_tuples={self.num_tuples}, num_negatives={self.num_negatives}{note})"

    @property
    def num_tuples(self) -> int:
        """l, the realized batch size: sensitive."""
        return int(self.positives.shape[0])

    @property
    def num_negatives(self) -> int:
        """k, negatives per tuple."""
        return int(self.negatives.shape[1])

    @property
    def entities(self) -> NDArray[np.int64]:
        """Rows of each tuple in order: endpoint 0, endpoint 1, negatives; (l, k + 2)."""
        return np.concatenate([self.positives, self.negatives], axis=1)


def _repeated(positives: NDArray[np.int64], negatives: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return where negatives belong to a relation that shares an entity with one before it, the positive first.

    Compared with itself, an entity would be its own nearest negative, and compared with the other endpoint of its
    relation, a true one. Only an unprotected entity can have several relations where others are drawn as negatives.
    """
    rows = np.concatenate([positives, negatives], axis=1)  # (l, 2 + k)
    relations = rows.reshape(len(rows), rows.shape[1] // 2, 2)
    mask = np.zeros(negatives.shape, dtype=np.bool_)
    for place in range(1, relations.shape[1]):
        earlier = rows[:, None, : 2 * place]  # (l, 1, 2 * place)
        shares = (relations[:, place, :, None] == earlier).any(axis=(1, 2))  # (l,)
        mask[:, 2 * place - 2 : 2 * place] = shares[:, None]
    return mask
