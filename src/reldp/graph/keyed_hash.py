"""Random draws for relations and entities that depend on their ids and a seed, and on nothing else.

Capping order and splits must not change when rows are shuffled or other rows come and go, so their
random draws are keyed hashes of ids: a keyed BLAKE2b digest of 128 bits per entity, and for a relation a
64-bit mix of the digests of its two endpoints, the same in either order; the hash of a relation with a
type mixes source, type and target, in this order. An integer id
hashes like its decimal text, so a graph keeps its draws when it moves from a text file to Parquet.

Guarantees: deterministic across machines and versions; purposes never share draws. The mix of two
digests is a strong mixer, not a cryptographic function: whoever lacks the seed cannot steer it,
and nothing secret is at stake.

Public: `entity_digests`, `relation_hashes`, `priority_order`, `unit_interval`,
`seed_words`. See theory.md 2.2.

>>> import numpy as np, pyarrow as pa
>>> digests = entity_digests(pa.array(["ann", "bob"]), seed=7, purpose="example")
>>> one, other = relation_hashes(digests, np.array([[0, 1], [1, 0]]))
>>> bool(one == other)
True
"""

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from reldp._validate import as_integer, is_integer
from reldp.errors import GraphError

__all__ = [
    "entity_digests",
    "priority_order",
    "relation_hashes",
    "relation_words",
    "seed_words",
    "unit_interval",
]

_SLICE = 1 << 16  # ids hashed at a time: bounds the Python objects alive at once
_ROWS = (
    1 << 16
)  # relations hashed at a time: what is computed on the way stays in the processor's cache


def entity_digests(ids: Any, seed: int | bytes, purpose: str) -> npt.NDArray[np.uint64]:
    """Return the keyed digest of every id.

    Args:
        ids: Arrow array of strings or integers, in one piece or in chunks.
        seed: Any integer or any bytes.
        purpose: What the draws are for; different purposes give unrelated draws.

    Returns:
        (2, n) uint64: 128 bits per id.
    """
    import pyarrow as pa

    keyed = hashlib.blake2b(digest_size=16, key=_key(seed, purpose))
    digests = bytearray(16 * len(ids))
    for start in range(0, len(ids), _SLICE):
        names = ids.slice(start, _SLICE).cast(pa.large_string()).cast(pa.large_binary())
        for offset, name in enumerate(names.to_pylist(), start):
            state = keyed.copy()
            state.update(name)
            digests[16 * offset : 16 * offset + 16] = state.digest()
    words = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
    return np.ascontiguousarray(words.T, dtype=np.uint64)


def relation_hashes(
    digests: npt.NDArray[np.uint64],
    relations: npt.NDArray[np.int64],
    types: npt.NDArray[np.uint64] | None = None,
) -> npt.NDArray[np.uint64]:
    """Return one hash per relation, from the digests of its two endpoints in either order.

    Args:
        digests: (2, n) from `entity_digests`.
        relations: (m, 2) entity indices.
        types: (2, m) digests of the relations' types; then the order of the endpoints counts.

    Returns:
        (m,) uint64.
    """
    hashes = np.zeros(len(relations), dtype=np.uint64)
    for start in range(0, len(relations), _ROWS):
        rows = slice(start, start + _ROWS)
        kinds = None if types is None else types[:, rows]
        for word in relation_words(digests, relations[rows], kinds):
            hashes[rows] = _mix(hashes[rows] ^ word)
    return hashes


def priority_order(
    digests: npt.NDArray[np.uint64],
    relations: npt.NDArray[np.int64],
    types: npt.NDArray[np.uint64] | None = None,
) -> npt.NDArray[np.intp]:
    """Return the rows of relations by their hash, (m,), the one of highest priority first.

    Equal hashes are ordered by the digests themselves, never by row. The arguments are those of
    `relation_hashes`.
    """
    hashes = relation_hashes(digests, relations, types)
    order = np.argsort(hashes)
    ordered = hashes[order]
    if bool(np.any(ordered[1:] == ordered[:-1])):
        order = np.lexsort((*relation_words(digests, relations, types), hashes))
    return order


def seed_words(seed: int | bytes) -> str:
    """Return a seed as hexadecimal digits, different for different seeds."""
    return _named(seed).hex()


def unit_interval(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Return hashes as numbers in [0, 1), from their top 53 bits."""
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53


def relation_words(
    digests: npt.NDArray[np.uint64],
    relations: npt.NDArray[np.int64],
    types: npt.NDArray[np.uint64] | None = None,
) -> tuple[npt.NDArray[np.uint64], ...]:
    """Return words per relation, (m,) each: without a type the order of the endpoints does not matter."""
    one, other = relations[:, 0], relations[:, 1]
    head, tail = digests
    if types is not None:
        return head[one], tail[one], *types, head[other], tail[other]
    first, second = head[one], head[other]
    return np.minimum(first, second), np.maximum(first, second), tail[one] + tail[other]


def _key(seed: int | bytes, purpose: str) -> bytes:
    """Return a 64-byte key for one seed and one purpose."""
    purpose_key = hashlib.blake2b(b"reldp/graph/" + purpose.encode()).digest()
    return hashlib.blake2b(_named(seed), key=purpose_key).digest()


def _named(seed: int | bytes) -> bytes:
    """Return a seed as bytes; the tag keeps the integer 49 and the bytes b"49" apart."""
    if isinstance(seed, bytes):
        return b"bytes:" + seed
    number = as_integer(seed)
    if not is_integer(number):
        raise GraphError(f"`seed` must be an integer or bytes, got {type(seed).__name__}.")
    return b"int:" + str(number).encode()


def _mix(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Apply the finalizer of SplitMix64: flipping one bit of the input flips about half of the output."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: npt.NDArray[np.uint64] = state ^ (state >> np.uint64(31))
    return mixed
