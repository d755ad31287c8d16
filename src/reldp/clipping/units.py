"""The rows of a batch laid out in clip units, with one threshold per unit.

A clip unit is the unit whose gradient is clipped: it has one gradient and one threshold. Rows
are entity indices, unit-major, so that one forward pass over ``units.entities.reshape(-1)`` gives
embeddings whose view ``(num_units, rows_per_unit, dim)`` needs no copy:

* tuple unit: ``[endpoint 0, endpoint 1, negative_1 .. negative_k]``, k + 2 rows, one unit per tuple;
* pair unit: ``[endpoint 0, endpoint 1, negative_j]``, 3 rows, k units per tuple, tuple-major.

Guarantees: everything is computed from entity indices over the whole logical batch, before it
is split into microbatches; a pair's threshold is ``clip_norm / k`` with the public k, never the number of unmasked
negatives (theory.md 2). Public: `ClipUnits`. Inside the package: `clip_units`, which
`reldp.clipping.rules` calls. Needs numpy only.

>>> units = clip_units([[0, 1]], [[2, 3]], None, None, np.ones(1), split_tuples=False)
>>> units.entities.tolist(), units.rows_per_unit
([[0, 1, 2, 3]], 4)
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reldp.errors import InputError

__all__ = ["ClipUnits", "check_batch", "clip_units", "max_frequencies"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class ClipUnits:
    """Clip units of one logical batch.

    Attributes:
        entities: Entity index of every row, (units, rows) int64.
        endpoints: Endpoint of the positive that each negative of the unit is paired with, (units,
            negatives) int8 in {0, 1}.
        mask: True where a negative is an endpoint of its tuple's positive and is left out of the
            loss, (units, negatives) bool.
        thresholds: Largest norm that the unit's gradient may keep, (units,) float64.
        tuple_index: The tuple that the unit belongs to, (units,) int64.
        types: Type of the tuple's positive, (units,) int64; None where relations have no types.
    """

    entities: IntArray
    endpoints: npt.NDArray[np.int8]
    mask: npt.NDArray[np.bool_]
    thresholds: FloatArray
    tuple_index: IntArray
    types: IntArray | None = None

    @property
    def num_units(self) -> int:
        """Number of gradients that are clipped."""
        return int(self.entities.shape[0])

    @property
    def rows_per_unit(self) -> int:
        """Number of consecutive rows of the forward pass that belong to one unit."""
        return int(self.entities.shape[1])

    def take(self, order: npt.ArrayLike) -> "ClipUnits":
        """Return the same units in another order; their thresholds move along."""
        index = np.asarray(order, dtype=np.int64)
        if not np.array_equal(np.sort(index), np.arange(self.num_units)):
            raise InputError(
                f"`order` must name each of the {self.num_units} units once, "
                f"got {index.size} entries. "
                "Leaving a unit out, or doubling it, would change the clipped sum."
            )
        return ClipUnits(
            entities=self.entities[index],
            endpoints=self.endpoints[index],
            mask=self.mask[index],
            thresholds=self.thresholds[index],
            tuple_index=self.tuple_index[index],
            types=None if self.types is None else self.types[index],
        )


def check_batch(
    positives: npt.ArrayLike,
    negatives: npt.ArrayLike,
    endpoints: npt.ArrayLike | None,
    mask: npt.ArrayLike | None,
) -> tuple[IntArray, IntArray, npt.NDArray[np.int8], npt.NDArray[np.bool_]]:
    """Return the batch as arrays of the right shape, or refuse it."""
    pos, neg = np.asarray(positives), np.asarray(negatives)
    for name, array in (("positives", pos), ("negatives", neg)):
        if array.ndim != 2 or not np.issubdtype(array.dtype, np.integer):
            raise InputError(
                f"`{name}` must be a two-dimensional array of entity indices, "
                f"got shape {array.shape} of {array.dtype}."
            )
    if pos.shape[1] != 2 or pos.shape[0] != neg.shape[0]:
        raise InputError(
            f"`positives` must have two columns and one row per row of `negatives`, "
            f"got shapes {pos.shape} and {neg.shape}."
        )
    chosen = (
        np.zeros(neg.shape, np.int8) if endpoints is None else np.asarray(endpoints, dtype=np.int8)
    )
    masked = np.zeros(neg.shape, np.bool_) if mask is None else np.asarray(mask, dtype=np.bool_)
    if chosen.shape != neg.shape or masked.shape != neg.shape:
        raise InputError(
            f"`endpoints` and `mask` must have the shape of `negatives`, {neg.shape}, "
            f"got {chosen.shape} and {masked.shape}."
        )
    return pos.astype(np.int64), neg.astype(np.int64), chosen, masked


def clip_units(
    positives: npt.ArrayLike,
    negatives: npt.ArrayLike,
    endpoints: npt.ArrayLike | None,
    mask: npt.ArrayLike | None,
    thresholds: FloatArray,
    *,
    split_tuples: bool,
    types: npt.ArrayLike | None = None,
) -> ClipUnits:
    """Lay out a batch in clip units.

    Args:
        positives: (tuples, 2) entity indices.
        negatives: (tuples, k) entity indices.
        endpoints: See `ClipUnits`, (tuples, k); endpoint 0 throughout if None.
        mask: See `ClipUnits`, (tuples, k); nothing is masked if None.
        thresholds: One per unit.
        split_tuples: Whether a tuple is k units, both endpoints and one negative each, instead of one unit.
        types: Type of each positive, (tuples,), if relations have types.
    """
    pos, neg, chosen, masked = check_batch(positives, negatives, endpoints, mask)
    tuples, k = neg.shape
    kinds = None if types is None else np.asarray(types, dtype=np.int64)
    if kinds is not None and kinds.shape != (tuples,):
        raise InputError(f"`types` must have shape ({tuples},), got {kinds.shape}.")
    if split_tuples:
        if k < 1:
            raise InputError(
                "`num_negatives` must be at least 1 for the pair rule, got 0. "
                "A pair is a positive and one negative; use the tuple rule without negatives."
            )
        pos = np.repeat(pos, k, axis=0)
        neg, chosen, masked = neg.reshape(-1, 1), chosen.reshape(-1, 1), masked.reshape(-1, 1)
        kinds = None if kinds is None else np.repeat(kinds, k)
    return ClipUnits(
        entities=np.concatenate([pos, neg], axis=1),  # (tuples, 2 + k) or (tuples k, 3)
        endpoints=chosen,
        mask=masked,
        thresholds=thresholds,
        tuple_index=np.repeat(np.arange(tuples, dtype=np.int64), k if split_tuples else 1),
        types=kinds,
    )


def max_frequencies(positives: npt.ArrayLike, negatives: npt.ArrayLike) -> IntArray:
    """Return, for each tuple, the largest number of tuples in which any of its entities occurs.

    An entity that occurs twice in one tuple (a loop, or a masked negative) counts once for that
    tuple.

    >>> max_frequencies(np.array([[0, 1], [1, 2]]), np.array([[3], [4]])).tolist()
    [2, 2]
    """
    pos, neg, _, _ = check_batch(positives, negatives, None, None)
    rows = np.sort(np.concatenate([pos, neg], axis=1), axis=1)  # (l, k + 2)
    first = np.ones(rows.shape, dtype=np.bool_)
    first[:, 1:] = rows[:, 1:] != rows[:, :-1]
    _, inverse = np.unique(rows, return_inverse=True)
    inverse = inverse.reshape(rows.shape)
    counts = np.bincount(inverse[first], minlength=1)
    if rows.shape[0] == 0:
        return np.zeros(0, dtype=np.int64)
    return np.asarray(counts[inverse].max(axis=1), dtype=np.int64)
