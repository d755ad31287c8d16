"""The pairs of a tuple that a loss compares: which ones, how similar, and which are masked.

In the paper, negative j is compared with one random endpoint of the positive (theory.md 1, step
3). `pairing` may ask for both endpoints, or for all pairs of a tuple. That costs no privacy: the loss
stays a function of the tuple alone.

Private to the package: `Pairs`, `dot_pairs`, `distance_pairs`, `compared_pairs`, `distance`, `per_negative`.

>>> import torch
>>> rows = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])  # (tuples 1, rows 3, dim 2)
>>> pairs = dot_pairs(rows, LossBatch.of([[0]], [[False]]), pairing="one", score="cosine")
>>> pairs.positive, pairs.compared
(tensor([1.]), tensor([[0.]]))
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from reldp.losses.loss import LossBatch, check_batch
from reldp.losses.unit_length import NORM_FLOOR, unit_length

__all__ = ["Pairs", "compared_pairs", "distance", "distance_pairs", "dot_pairs", "per_negative"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Similarities or distances of the pairs of many tuples.

    Attributes:
        positive: Value of the positive, (tuples,).
        compared: Values of the pairs that it is compared with, (tuples, pairs).
        hidden: True where a pair holds a masked negative, (tuples, pairs).
    """

    positive: Tensor
    compared: Tensor
    hidden: Tensor


def dot_pairs(embeddings: Tensor, batch: LossBatch, *, pairing: str, score: str) -> Pairs:
    """Return cosines or dot products of the pairs, in float32 or better."""
    check_batch(embeddings, batch)
    rows = embeddings if embeddings.dtype == torch.float64 else embeddings.float()
    if score == "cosine":
        rows = unit_length(rows)
    positive = (rows[:, 0] * rows[:, 1]).sum(dim=-1)
    return compared_pairs(rows, batch, pairing, positive, lambda a, b: a @ b.transpose(1, 2))


def distance_pairs(embeddings: Tensor, batch: LossBatch, *, pairing: str) -> Pairs:
    """Return Euclidean distances of the pairs, in float32 or better, of at least `NORM_FLOOR`.

    Equal embeddings have a distance without a gradient; the floor gives them a gradient of zero.
    """
    check_batch(embeddings, batch)
    rows = embeddings if embeddings.dtype == torch.float64 else embeddings.float()
    positive = distance(rows[:, 0], rows[:, 1])
    return compared_pairs(
        rows, batch, pairing, positive, lambda a, b: distance(a[:, :, None], b[:, None, :])
    )


def per_negative(terms: Tensor, batch: LossBatch, pairing: str) -> Tensor:
    """Return the terms of a sum over pairs, (tuples, pairs), by negative where each belongs to one.

    Two negatives that are compared with each other belong to no single negative, so ``"all"`` gives
    a value per tuple, which pair clipping refuses.
    """
    if pairing == "one":
        return terms
    # A tuple with one negative may be a clip unit of pair clipping, which asks for the dimension.
    return terms.sum(dim=1, keepdim=pairing == "both" and batch.num_negatives == 1)


def compared_pairs(
    rows: Tensor,
    batch: LossBatch,
    pairing: str,
    positive: Tensor,
    compare: Callable[[Tensor, Tensor], Tensor],
) -> Pairs:
    """Return the pairs that a pairing names.

    Args:
        rows: What negatives are compared with, for endpoint 0 and 1, then the negatives, (tuples, 2 + k, dim).
        batch: Endpoints and mask of the tuples.
        pairing: ``"one"``, ``"both"`` or ``"all"``.
        positive: Value of the positive, (tuples,).
        compare: Returns the values of all pairs of two lists of rows, (tuples, a, b).
    """
    mask = batch.mask
    pair, negatives = rows[:, :2], rows[:, 2:]  # (tuples, 2, dim), (tuples, k, dim)
    # Both endpoints are compared, then one is chosen: (tuples, k, 2) is small, gathered rows are not.
    with_endpoints = compare(negatives, pair)
    if pairing == "one":
        chosen = with_endpoints.gather(2, batch.endpoints[:, :, None]).squeeze(2)
        return Pairs(positive, chosen, mask)
    compared, hidden = with_endpoints.flatten(1), mask.repeat_interleave(2, dim=1)
    if pairing == "all":
        count = mask.shape[1]
        first, second = torch.triu_indices(count, count, offset=1, device=mask.device)
        among = compare(negatives, negatives)[:, first, second]
        compared = torch.cat([compared, among], dim=1)
        hidden = torch.cat([hidden, mask[:, first] | mask[:, second]], dim=1)
    return Pairs(positive, compared, hidden)


def distance(left: Tensor, right: Tensor) -> Tensor:
    """Return Euclidean distances over the last dimension, of at least `NORM_FLOOR`."""
    return (left - right).square().sum(dim=-1).clamp_min(NORM_FLOOR**2).sqrt()
