"""The included losses in plain Python floats, one tuple at a time, straight from their formulas."""

import math
from itertools import combinations

import numpy as np
import torch

from reldp.losses import LossBatch


def oracle(rows, endpoints, mask, loss, score, temperature, margin, pairing):
    """Losses of tuples (tuples, 2 + k, dim), as a list."""
    return [
        _tuple_loss(*one, loss, score, temperature, margin, pairing)
        for one in zip(rows, endpoints, mask, strict=True)
    ]


def _tuple_loss(rows, endpoints, mask, loss, score, temperature, margin, pairing):
    known = [j for j, left_out in enumerate(mask) if not left_out]
    pairs = [
        (rows[2 + j], rows[end])
        for j in known
        for end in ([endpoints[j]] if pairing == "one" else [0, 1])
    ]
    if pairing == "all":
        pairs += [(rows[2 + i], rows[2 + j]) for i, j in combinations(known, 2)]
    if loss == "triplet":
        near = math.dist(rows[0], rows[1])
        return sum(max(0.0, margin + near - math.dist(a, b)) for a, b in pairs)
    if loss == "cosine":
        far = 1 - _score(rows[0], rows[1], "cosine")
        return sum(far + max(0.0, _score(a, b, "cosine") - margin) for a, b in pairs)
    positive = _score(rows[0], rows[1], score) / temperature
    kept = [_score(a, b, score) / temperature for a, b in pairs]
    if loss == "infonce":
        return -positive + math.log(math.exp(positive) + sum(math.exp(s) for s in kept))
    if loss == "hinge":
        return sum(max(0.0, margin - positive + s) for s in kept)
    return sum(math.log1p(math.exp(s - positive)) for s in kept)


def _score(a, b, score):
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    if score == "cosine":
        dot /= math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    return dot


def random_tuples(seed, tuples=5, k=4, dim=6):
    """Rows (tuples, 2 + k, dim), endpoints and a mask, as arrays."""
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(tuples, k + 2, dim))
    endpoints = generator.integers(0, 2, size=(tuples, k)).astype(np.int8)
    mask = generator.random((tuples, k)) < 0.3
    return rows, endpoints, mask


def tuple_losses(loss, rows, endpoints, mask):
    """One value per tuple."""
    values = loss(torch.as_tensor(rows), LossBatch.of(endpoints, mask))
    return values if values.ndim == 1 else values.sum(1)
