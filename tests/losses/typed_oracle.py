"""Typed losses in plain Python numbers, one tuple at a time, straight from their formulas."""

import math

import numpy as np

from tests.losses.oracle import random_tuples

NAMES = ("broader", "narrower", "same")


def score(name, source, relation, target, distance="l2"):
    """The score of (source, type, target), each a list of floats."""
    if name == "distmult":
        return sum(s * r * t for s, r, t in zip(source, relation, target, strict=True))
    if name == "complex":
        s, r, t = (as_complex(vector) for vector in (source, relation, target))
        return sum((a * b * c.conjugate()).real for a, b, c in zip(s, r, t, strict=True))
    gap = [s + r - t for s, r, t in zip(source, relation, target, strict=True)]
    return -sum(map(abs, gap)) if distance == "l1" else -math.hypot(*gap)


def as_complex(vector):
    half = len(vector) // 2
    return [complex(vector[i], vector[half + i]) for i in range(half)]


def typed_oracle(rows, endpoints, mask, types, relations, name, **settings):
    """Losses of tuples (tuples, 2 + k, dim) of types, as a list."""
    return [
        _tuple_loss(r, e, m, relations[kind], name, **settings)
        for r, e, m, kind in zip(rows, endpoints, mask, types, strict=True)
    ]


def _tuple_loss(
    rows,
    endpoints,
    mask,
    relation,
    name,
    objective,
    temperature,
    margin,
    pairing,
    normalize,
    distance,
):
    if normalize:
        rows = [[x / math.hypot(*row) for x in row] for row in rows]

    def scored(source, target):
        return score(name, source, relation, target, distance) / temperature

    positive, found = scored(rows[0], rows[1]), []
    for j, left_out in enumerate(mask):
        if left_out:
            continue
        for endpoint in (0, 1):
            if pairing == "both" or endpoints[j] == endpoint:
                # Drawn for the source: the negative is another target; drawn for the target: another source.
                pair = (rows[0], rows[2 + j]) if endpoint == 0 else (rows[2 + j], rows[1])
                found.append(scored(*pair))
    if objective == "infonce":
        return -positive + math.log(math.exp(positive) + sum(math.exp(s) for s in found))
    if objective == "hinge":
        return sum(max(0.0, margin - positive + s) for s in found)
    return sum(math.log1p(math.exp(s - positive)) for s in found)


def random_typed(seed, tuples=5, k=4, dim=6):
    """Rows, endpoints, mask and types of random tuples, and vectors of the types."""
    rows, endpoints, mask = random_tuples(seed, tuples=tuples, k=k, dim=dim)
    generator = np.random.default_rng(seed + 1)
    types = generator.integers(0, len(NAMES), size=tuples)
    return rows, endpoints, mask, types, generator.normal(size=(len(NAMES), dim))
