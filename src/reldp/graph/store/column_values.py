"""The values of a store's columns: what a build never writes is refused, whoever made the hashes.

An entity whose `protected` is null would count as unprotected, and a repeated id as two entities. A batch is checked
when it is first read. Repeated ids are known once all are read: hashes of ids are sorted, with 8 bytes for each entity,
and ids of equal hashes are compared.

Inside the package: `check_batch`, `check_ids`, `check_finite`.

>>> check_batch(pa.record_batch({"id": ["a", None], "text": ["x", "y"]}), "entities.arrow")
Traceback (most recent call last):
reldp.errors.GraphError: entities.arrow must have a value in every row of column 'id', got nulls. Build the store again.
"""

import hashlib
import secrets
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reldp.errors import GraphError
from reldp.graph.columns import is_text
from reldp.graph.store.arrays import row_chunks

__all__ = ["check_batch", "check_finite", "check_ids"]

_NEEDED = ("id", "text", "protected")
_CHUNK = 1 << 20
_MAX_WORDS = 32  # longer ids are hashed one by one
_SOME = 1000  # equal hashes that are looked at together
_SEED = secrets.randbits(64)  # nobody can choose ids whose hashes are equal
_ODD = np.uint64(0xBF58476D1CE4E5B9)

_Hashes = npt.NDArray[np.uint64]


def check_batch(batch: pa.RecordBatch, name: str) -> None:
    """Refuse a batch of entities with nulls or blanks in a column that needs values, or with damaged arrays.

    Args:
        batch: The batch.
        name: The file's name.

    Raises:
        GraphError: It has such values.
    """
    try:
        # Offsets and UTF-8: reading would not stop at the end of a buffer.
        batch.validate(full=True)
    except pa.ArrowInvalid:
        raise GraphError(f"{name} must be as it was built. Build the store again.") from None
    for column in (column for column in _NEEDED if column in batch.schema.names):
        values = batch.column(column)
        if values.null_count:
            raise _refusal(name, f"have a value in every row of column {column!r}", "nulls")
        if is_text(values.type):
            empty = pc.or_(pc.equal(pc.binary_length(values), 0), pc.utf8_is_space(values))
            if pc.any(empty).as_py():
                rule = f"have a value in every row of column {column!r}"
                raise _refusal(name, rule, "blank ones")
            if pc.any(pc.match_substring(values, "\x00")).as_py():
                rule = f"be plain text in column {column!r}"
                raise _refusal(name, rule, "NUL characters")


def check_finite(matrix: npt.NDArray[np.float32], name: str) -> None:
    """Refuse feature vectors with values that are no numbers.

    Args:
        matrix: (n, d).
        name: The file's name.

    Raises:
        GraphError: It has some.
    """
    size = max(1, _CHUNK // max(matrix.shape[1], 1))
    for start, stop in row_chunks(len(matrix), size):
        if not bool(np.isfinite(matrix[start:stop]).all()):
            raise _refusal(name, "hold finite numbers", "others")


def check_ids(batch: Callable[[int], pa.Array], num_batches: int, rows: int, name: str) -> None:
    """Refuse ids that repeat.

    Args:
        batch: Returns the ids of a batch.
        num_batches: Number of batches.
        rows: Number of rows of all of them.
        name: The file's name.

    Raises:
        GraphError: Two entities have the same id.
    """
    hashes = np.empty(rows, dtype=np.uint64)
    filled = 0
    for number in range(num_batches):
        some = _hashes(batch(number))
        hashes[filled : filled + len(some)] = some
        filled += len(some)
    hashes.sort()
    equal = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
    del hashes
    for start, stop in row_chunks(len(equal), _SOME):
        if _are_repeated(batch, num_batches, equal[start:stop]):
            raise _refusal(name, "give every entity an id of its own", "repeated ids")


def _are_repeated(batch: Callable[[int], pa.Array], num_batches: int, equal: _Hashes) -> bool:
    """Return whether two ids whose hashes are among these are the same."""
    seen: set[object] = set()
    for number in range(num_batches):
        ids = batch(number)
        matches = ids.filter(pa.array(np.isin(_hashes(ids), equal))).to_pylist()
        before = len(seen)
        seen.update(matches)
        if len(seen) < before + len(matches):
            return True
    return False


def _hashes(ids: pa.Array) -> _Hashes:
    """Return a hash of each id, the same for the same id in this process."""
    if not is_text(ids.type):
        return np.asarray(ids).view(np.uint64)
    texts = ids.cast(pa.large_string())
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset :][: len(texts) + 1]
    data = texts.buffers()[2]
    plain = b"" if data is None else data.slice(offsets[0], offsets[-1] - offsets[0]).to_pybytes()
    return _text_hashes(plain + bytes(8), offsets[:-1] - offsets[0], np.diff(offsets))


def _text_hashes(
    data: bytes, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> _Hashes:
    """Return a hash of each text, eight bytes of all texts at a time.

    Args:
        data: All texts, and eight bytes after them.
        starts: (texts,) where each begins.
        lengths: (texts,) bytes of each.
    """
    # The eight bytes from each byte on.
    words = np.ndarray(len(data) - 7, "<u8", data, strides=(1,))
    state = lengths.astype(np.uint64) ^ np.uint64(_SEED)
    is_long = lengths > 8 * _MAX_WORDS
    rows = np.flatnonzero(~is_long & (lengths > 0))
    place = 0
    while len(rows):
        left = np.minimum(lengths[rows] - place, 8).astype(np.uint64)
        word = words[starts[rows] + place] & (~np.uint64(0) >> (np.uint64(64) - 8 * left))
        mixed = (state[rows] ^ word) * _ODD
        state[rows] = (mixed ^ (mixed >> np.uint64(29))) * _ODD
        place += 8
        rows = rows[lengths[rows] > place]
    for row in np.flatnonzero(is_long).tolist():
        text = data[starts[row] : starts[row] + lengths[row]]
        state[row] = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    return state


def _refusal(name: str, rule: str, got: str) -> GraphError:
    return GraphError(f"{name} must {rule}, got {got}. Build the store again.")
