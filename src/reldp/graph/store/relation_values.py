"""The values of a store's relations: what a build never writes is refused, whoever made the hashes.

The author of a store makes its hashes too, so they say nothing about what the arrays hold. An index out of range would
address another entity or none; stated degrees that are too small would let a promised bound hold that does not.

Relations are read in chunks. Repeated ones are found by sorting the keys of a range of entities at a time: a few passes
over mapped relations, with memory for a part of the keys.

Inside the package: `check_relations`.

>>> check_relations(np.array([[0, 1], [1, 0]]), None, np.array([2, 2]), "relations.npy", 1, Progress())
Traceback (most recent call last):
reldp.errors.GraphError: relations.npy must name a pair of entities once (in either direction), got repeats. ...
"""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from reldp.errors import GraphError
from reldp.graph.capping import degrees
from reldp.graph.store.arrays import row_chunks
from reldp.graph.store.lookahead import in_threads
from reldp.graph.store.progress import Progress
from reldp.graph.store.relation_pass import DEGREES, TYPES
from reldp.graph.store.settings import BuildSettings

__all__ = ["check_relations"]

_CHUNK = 1 << 20
_MAX_THREADS = 8
_MAX_PASSES = 8
_LEAST_KEYS = 1 << 24  # keys that are sorted together, at least
_LARGEST = 2**63 - 1

_Pairs = npt.NDArray[np.int64]
_Types = npt.NDArray[np.int32] | None
_Advance = Callable[[int], None]


def check_relations(
    relations: _Pairs,
    types: _Types,
    stated_degrees: npt.NDArray[np.int64],
    label: str,
    num_types: int,
    progress: Progress,
) -> None:
    """Refuse relations that no build writes.

    Args:
        relations: (m, 2) int64.
        types: (m,) int32, or None.
        stated_degrees: (n,) how many relations each entity is said to have.
        label: What errors call the file of relations.
        num_types: Number of types, at least 1.
        progress: Receives how far the work is.

    Raises:
        GraphError: An index or a type is out of range, an entity is related to itself, a relation is repeated, or
            the degrees are others.
    """
    num_entities = len(stated_degrees)
    with progress.phase("checking relations", len(relations), "relations") as advance:
        _check_rows(relations, types, label, num_entities, num_types, advance)
    counts = np.zeros(num_entities, dtype=np.int64)
    with progress.phase("counting relations", len(relations), "relations") as advance:
        for start, stop in row_chunks(len(relations), max(_CHUNK, num_entities)):
            counts += degrees(relations[start:stop], num_entities)
            advance(stop - start)
    if not np.array_equal(counts, stated_degrees):
        raise _refusal(
            label.replace("relations.npy", DEGREES), "count the relations of each entity", "others"
        )
    del counts
    _check_repeats(relations, types, label, num_entities, num_types, progress)


def _check_rows(
    relations: _Pairs,
    types: _Types,
    label: str,
    num_entities: int,
    num_types: int,
    advance: _Advance,
) -> None:
    """Check what can be seen of each relation alone."""

    def checked(span: tuple[int, int]) -> tuple[bool, bool, bool]:
        pairs = relations[slice(*span)]
        inside = 0 <= int(pairs.min()) <= int(pairs.max()) < num_entities
        codes = None if types is None else types[slice(*span)]
        known = codes is None or 0 <= int(codes.min()) <= int(codes.max()) < num_types
        return inside, known, not bool((pairs[:, 0] == pairs[:, 1]).any())

    results = in_threads(checked, row_chunks(len(relations), _CHUNK), _threads())
    for start, (inside, known, apart) in zip(
        range(0, len(relations), _CHUNK), results, strict=True
    ):
        if not inside:
            rule = f"hold entity indices in 0..{num_entities - 1}"
            raise _refusal(label, rule, "others")
        if not known:
            rule = f"hold codes of types in 0..{num_types - 1}"
            raise _refusal(label.replace("relations.npy", TYPES), rule, "others")
        if not apart:
            raise _refusal(label, "relate two different entities", "self-relations")
        advance(min(_CHUNK, len(relations) - start))


def _check_repeats(
    relations: _Pairs,
    types: _Types,
    label: str,
    num_entities: int,
    num_types: int,
    progress: Progress,
) -> None:
    """Sort the keys of a range of first entities at a time, and look for equal neighbors."""
    ranges = list(_ranges(relations, types is not None, num_entities, num_types))
    total = len(ranges) * len(relations)
    with progress.phase("looking for repeated relations", total, "relations") as advance:
        for low, high, count in ranges:
            keys = np.empty(count, dtype=np.int64)
            filled = 0
            chosen = _keys_in(relations, types, num_entities, num_types, low, high)
            for some in in_threads(chosen, row_chunks(len(relations), _CHUNK), _threads()):
                keys[filled : filled + len(some)] = some
                filled += len(some)
            advance(len(relations))
            keys = keys[:filled]
            keys.sort()
            if _has_equal_neighbors(keys):
                rule = (
                    "name a pair of entities once (in either direction)"
                    if types is None
                    else "name a source, type and target once"
                )
                raise _refusal(label, rule, "repeats")


def _has_equal_neighbors(ordered: npt.NDArray[np.int64]) -> bool:
    chunks = row_chunks(max(len(ordered) - 1, 0), _CHUNK)
    return any(bool((ordered[a + 1 : b + 1] == ordered[a:b]).any()) for a, b in chunks)


def _keys_in(
    relations: _Pairs, types: _Types, num_entities: int, num_types: int, low: int, high: int
) -> Callable[[tuple[int, int]], npt.NDArray[np.int64]]:
    """Return a function that gives the keys of the relations of some rows whose first entity is in a range."""

    def keys(span: tuple[int, int]) -> npt.NDArray[np.int64]:
        first, second = _in_order(relations[slice(*span)], types is not None)
        kinds = None if types is None else types[slice(*span)]
        if low > 0 or high < num_entities:
            rows = np.flatnonzero((first >= low) & (first < high))
            first, second = first[rows], second[rows]
            kinds = None if kinds is None else kinds[rows]
        key = (first - low) * num_entities + second
        return key if kinds is None else key * num_types + kinds

    return keys


def _in_order(pairs: _Pairs, directed: bool) -> tuple[npt.NDArray[np.int64], ...]:
    """Return the two entities of each relation; without a direction the smaller index comes first."""
    one, other = pairs[:, 0], pairs[:, 1]
    return (one, other) if directed else (np.minimum(one, other), np.maximum(one, other))


def _ranges(
    relations: _Pairs, directed: bool, num_entities: int, num_types: int
) -> Iterator[tuple[int, int, int]]:
    """Yield ranges of first entities, and how many relations each has.

    A range has a part of the relations, and its keys are below 2^63.
    """
    widest = max(1, _LARGEST // (num_entities * num_types))
    max_keys = max(_LEAST_KEYS, -(-len(relations) // _MAX_PASSES))
    if len(relations) <= max_keys and widest >= num_entities:
        yield 0, num_entities, len(relations)
        return
    totals = np.zeros(num_entities + 1, dtype=np.int64)
    for start, stop in row_chunks(len(relations), max(_CHUNK, num_entities)):
        first, _ = _in_order(relations[start:stop], directed)
        totals[1:] += np.bincount(first, minlength=num_entities)
    np.cumsum(totals, out=totals)
    low = 0
    while low < num_entities:
        # As many entities as fit, and at least one: an entity with more relations is a range of its own.
        high = int(np.searchsorted(totals, totals[low] + max_keys, side="right")) - 1
        high = min(max(high, low + 1), low + widest, num_entities)
        if totals[high] > totals[low]:
            yield low, high, int(totals[high] - totals[low])
        low = high


def _threads() -> int:
    return min(BuildSettings().num_threads, _MAX_THREADS)


def _refusal(label: str, rule: str, got: str) -> GraphError:
    return GraphError(f"{label} must {rule}, got {got}. Build the store again.")
