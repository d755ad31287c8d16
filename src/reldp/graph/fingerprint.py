"""One sha256 over the content of a graph, whatever file format or chunking it came in.

Covers every column of the entities, the relations and their types, in row order: training addresses entities
and relations by row, so two graphs of equal fingerprint behave alike to the last bit. A
fingerprint is computed from private data: whoever can guess the whole graph can confirm the guess
with it, so it is sensitive.

Public: `fingerprint`.

>>> import numpy as np, pyarrow as pa
>>> table = pa.table({"id": ["a", "b"], "text": ["x", "y"]})
>>> fingerprint(table, np.array([[0, 1]]))[:8] == fingerprint(table, np.array([[1, 0]]))[:8]
False
"""

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["fingerprint"]

_SLICE = 1 << 16  # rows hashed at a time


def fingerprint(
    entities: Any,
    relations: npt.NDArray[np.int64],
    types: npt.NDArray[np.int32] | None = None,
    type_names: tuple[str, ...] = (),
) -> str:
    """Return the sha256 of a graph's content.

    Args:
        entities: Arrow table of string, integer, floating, boolean and fixed-size float list
            columns.
        relations: (m, 2) entity indices.
        types: (m,) codes of the relations' types, if they have some.
        type_names: The names that the codes stand for.

    Returns:
        64 hexadecimal digits.
    """
    total = hashlib.sha256(b"reldp graph 1\n")
    for name in sorted(entities.column_names):
        total.update(f"{len(name.encode())}:{name}:".encode())
        total.update(_column_digest(entities.column(name)))
    total.update(f"relations:{len(relations)}:".encode())
    total.update(np.ascontiguousarray(relations, dtype="<i8").data)
    if types is not None:
        total.update(f"types:{len(type_names)}:".encode())
        for name in type_names:
            total.update(f"{len(name.encode())}:{name}:".encode())
        total.update(np.ascontiguousarray(types, dtype="<i4").data)
    return total.hexdigest()


def _column_digest(column: Any) -> bytes:
    """Return the digest of one column: its kind, its length, its nulls and its values."""
    kind = _kind(column.type)
    parts = [hashlib.sha256(), hashlib.sha256(), hashlib.sha256()]
    for start in range(0, len(column), _SLICE):
        chunk = column.slice(start, _SLICE)
        for part, data in zip(parts, _plain(chunk, kind), strict=True):
            part.update(data)
    head = f"{kind}:{len(column)}:".encode()
    return hashlib.sha256(head + b"".join(part.digest() for part in parts)).digest()


def _kind(kind: Any) -> str:
    """Return the column's kind, where types that hold the same values count as one."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if pa.types.is_fixed_size_list(kind):
        return f"features[{kind.list_size}]"
    return "number" if pa.types.is_floating(kind) else str(kind)


def _plain(chunk: Any, kind: str) -> tuple[Any, Any, Any]:
    """Return a slice as plain bytes: which rows are null, how long values are, the values end to end."""
    chunk = chunk.combine_chunks() if isinstance(chunk, pa.ChunkedArray) else chunk
    nulls = np.packbits(pc.is_null(chunk).to_numpy(zero_copy_only=False))
    if kind == "text":
        filled = pc.fill_null(chunk, "")
        lengths = pc.binary_length(filled).to_numpy(zero_copy_only=False).astype("<i8")
        return nulls, lengths, _text_bytes(filled)
    if kind.startswith("features"):
        return nulls, b"", chunk.flatten().to_numpy(zero_copy_only=False).astype("<f4")
    zero = False if pa.types.is_boolean(chunk.type) else 0
    values = pc.fill_null(chunk, zero).to_numpy(zero_copy_only=False)
    plain = np.dtype("<f8") if kind == "number" else values.dtype.newbyteorder("<")
    return nulls, b"", np.ascontiguousarray(values.astype(plain))


def _text_bytes(texts: Any) -> memoryview:
    """Return the bytes of all strings end to end, without making Python strings."""
    if not len(texts):
        return memoryview(b"")
    joined = texts.cast(pa.large_string())
    offsets = np.frombuffer(joined.buffers()[1], dtype=np.int64)
    offsets = offsets[joined.offset : joined.offset + len(joined) + 1]
    data = joined.buffers()[2]
    return memoryview(b"") if data is None else memoryview(data)[offsets[0] : offsets[-1]]
