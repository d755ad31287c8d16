"""Ranking metrics, as their expectation when equal scores are put in random order.

A query's answer has ``better`` candidates above it and ``ties`` candidates beside it, so its rank
is uniform on better + 1 .. better + 1 + ties. Every metric is the mean of its gain over those
ranks: an encoder that gives all entities one embedding scores like guessing, neither 0 nor 1.

Public: `Ranks`, `metric`, `IN_BATCH_METRICS`, `FULL_METRICS`.

>>> ranks = Ranks(better=np.array([0, 0, 9]), ties=np.array([0, 1, 0]))
>>> metric(ranks, "prec@1").tolist(), metric(ranks, "mrr").tolist()
([1.0, 0.5, 0.0], [1.0, 0.75, 0.1])
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reldp._validate import shown
from reldp.errors import InputError

__all__ = ["FULL_METRICS", "IN_BATCH_METRICS", "Ranks", "metric"]

IN_BATCH_METRICS = ("prec@1", "hits@10", "mrr", "ndcg")
FULL_METRICS = ("hits@1", "hits@10", "hits@100", "mrr", "ndcg")


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """Where each query's answer stands.

    Attributes:
        better: How many candidates score higher; any shape.
        ties: How many other candidates score the same; the same shape.
    """

    better: npt.NDArray[np.int64]
    ties: npt.NDArray[np.int64]


def metric(ranks: Ranks, name: str) -> npt.NDArray[np.float64]:
    """Return the expected value of a metric for every query.

    Args:
        ranks: Of the answers.
        name: ``"prec@1"``, ``"hits@N"``, ``"mrr"`` or ``"ndcg"`` (one answer per query, so the
            ideal gain is 1).
    """
    last = ranks.better + ranks.ties + 1
    gains = _gains(name, int(last.max(initial=1)))
    below = np.concatenate([[0.0], np.cumsum(gains)])  # below[r] = gain of ranks 1..r together
    values: npt.NDArray[np.float64] = (below[last] - below[ranks.better]) / (ranks.ties + 1)
    # A difference of sums is off by rounding only where there are ties.
    return np.where(ranks.ties == 0, gains[ranks.better], values)


def _gains(name: str, longest: int) -> npt.NDArray[np.float64]:
    """Return the gain of rank 1, 2, ..., longest."""
    ranks = np.arange(1, longest + 1, dtype=np.float64)
    if name == "mrr":
        return 1.0 / ranks
    if name == "ndcg":
        gains: npt.NDArray[np.float64] = 1.0 / np.log2(ranks + 1.0)
        return gains
    kind, _, depth = name.partition("@")
    if kind in ("prec", "hits") and depth.isdecimal() and (kind == "hits" or depth == "1"):
        return (ranks <= int(depth)).astype(np.float64)
    raise InputError(f"`name` must be prec@1, hits@N, mrr or ndcg, got {shown(name)}.")
