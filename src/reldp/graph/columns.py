"""The columns of an entities table, brought to the few types a graph keeps.

Ids become strings or 64-bit integers, text becomes strings, features fixed-size lists of 32-bit
floats, `protected` booleans; other columns become strings, 64-bit numbers or booleans. Each result
is one contiguous Arrow array: no Python object per row, and a memory-mapped column stays mapped.

Public: the functions below; each takes a column as read and returns the array, and where rows can
be wrong, which.

>>> import pyarrow as pa
>>> id_column(pa.chunked_array([["a"], ["b"]]), "entities", "id").type
DataType(string)
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reldp.errors import GraphError
from reldp.graph.disclosure import type_words

__all__ = [
    "extra_column",
    "features_column",
    "first_length",
    "id_chunks",
    "id_column",
    "is_text",
    "protected_column",
    "single",
    "text_column",
    "values_at",
    "vectors",
]

_INT32_LIMIT = 2**31 - 1  # bytes that offsets of 32 bits can address
_TRUE, _FALSE = ["true", "1", "yes"], ["false", "0", "no"]
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"

Rows = npt.NDArray[np.int64]


def single(column: Any) -> Any:
    """Return a column as one contiguous array; strings beyond 2 GiB get 64-bit offsets."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if pa.types.is_string(column.type) and column.nbytes > _INT32_LIMIT:
        column = column.cast(pa.large_string())
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def values_at(column: Any, indices: npt.ArrayLike | None) -> list[Any]:
    """Return the values of some rows of a column, in the order asked for, or of all rows.

    Raises:
        GraphError: An index is not a row.
    """
    if indices is None:
        return list(column.to_pylist())
    rows = np.asarray(indices, dtype=np.int64).reshape(-1)
    if rows.min(initial=0) < 0 or rows.max(initial=0) >= len(column):
        raise GraphError(
            f"`indices` must lie in 0..{len(column) - 1}, got {rows.min()}..{rows.max()}."
        )
    return list(column.take(pa.array(rows)).to_pylist())


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type holds strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def id_column(column: Any, table: str, name: str) -> Any:
    """Return ids as strings or 64-bit integers, in one array, with nulls preserved.

    Raises:
        GraphError: The column holds something else.
    """
    return single(id_chunks(column, table, name))


def id_chunks(column: Any, table: str, name: str) -> Any:
    """Return ids as `id_column` does, in the chunks in which they came: nothing is copied.

    Raises:
        GraphError: The column holds something else.
    """
    column = _decoded(column, table, f"column {name!r}")
    if is_text(column.type):
        return column
    if pa.types.is_integer(column.type):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            raise GraphError(
                f"{table} must have ids below 2**63 in column {name!r}. Store them as text."
            ) from None
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    hint = (
        " A program turned integers into floats, as pandas does where a cell is empty, or they are beyond 64 bits. "
        "Write integers below 2**63, or strings."
        if pa.types.is_floating(column.type)
        else ""
    )
    raise GraphError(
        f"{table} must hold strings or integers in column {name!r}, got "
        f"{type_words(column.type)}.{hint}"
    )


def vectors(matrix: npt.ArrayLike) -> Any:
    """Return an (n, d) matrix as an Arrow array of n vectors, a copy: a graph does not change."""
    try:  # imaginary parts would be dropped
        is_complex = np.iscomplexobj(matrix)
        values = None if is_complex else np.array(matrix, dtype=np.float32, order="C")
    except (ValueError, TypeError, OverflowError):  # it would quote the value
        values = None
    if values is None:
        raise GraphError(
            "`features` must be an (n, d) matrix of numbers, got rows of several lengths or values "
            "that are no numbers."
        )
    if values.ndim != 2 or not values.shape[1]:
        raise GraphError(f"`features` must be an (n, d) matrix, got shape {values.shape}.")
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def text_column(column: Any, table: str) -> tuple[Any, Rows]:
    """Return texts, and the rows that are empty or hold only spaces."""
    column = _decoded(column, table, "column 'text'")
    if pa.types.is_null(column.type):
        column = column.cast(pa.string())
    if not is_text(column.type):
        raise GraphError(
            f"{table} must hold strings in column 'text', got {type_words(column.type)}."
        )
    text = single(column)
    blank = pc.or_(pc.equal(pc.binary_length(text), 0), pc.utf8_is_space(text))
    return text, _rows(pc.fill_null(blank, True))


def features_column(column: Any, table: str, length: int | None = None) -> tuple[Any, Rows, Rows]:
    """Features as a fixed-size list of float32.

    Args:
        column: The column as read, or some rows of it.
        table: What errors call the table.
        length: Length of the vectors (default: of the first one here).

    Returns:
        The array (rows without a usable vector hold zeros); the rows that are missing or not
        finite; the rows of another length than the first (then the array is None).
    """
    lists, lengths = _lists(column, table)
    present = np.flatnonzero(lengths > 0)
    if length is None and not len(present):
        raise GraphError(f"{table} must hold a vector per entity in column 'features', got none.")
    dim = int(lengths[present[0]]) if length is None else length
    ragged = np.flatnonzero((lengths > 0) & (lengths != dim))
    if len(ragged):
        return None, np.empty(0, np.int64), ragged
    matrix = _matrix(lists, present, dim)  # (n, d)
    with np.errstate(invalid="ignore"):  # inf - inf: not finite, which is the question
        finite = np.isfinite(matrix.sum(axis=1, dtype=np.float64))
    bad = np.flatnonzero((lengths <= 0) | ~finite)
    return vectors(matrix), bad, ragged


def first_length(column: Any, table: str) -> int:
    """Return the length of the first feature vector of some rows; 0 if they have none."""
    _, lengths = _lists(column, table)
    return int(lengths[lengths > 0][0]) if (lengths > 0).any() else 0


def _lists(column: Any, table: str) -> tuple[Any, npt.NDArray[np.int64]]:
    """Return feature vectors as Arrow lists, and the length of each, -1 where it is missing."""
    lists = single(column)
    if is_text(lists.type):
        lists = _parsed_vectors(lists)
    if not (pa.types.is_fixed_size_list(lists.type) or _is_list(lists.type)):
        raise GraphError(
            f"{table} must hold lists of numbers in column 'features', got "
            f"{type_words(lists.type)}."
        )
    inner = lists.type.value_type
    if not (
        pa.types.is_floating(inner) or pa.types.is_integer(inner) or pa.types.is_boolean(inner)
    ):
        raise GraphError(
            f"{table} must hold numbers in column 'features', got lists of {type_words(inner)}."
        )
    return lists, pc.fill_null(pc.list_value_length(lists), -1).to_numpy(zero_copy_only=False)


def protected_column(column: Any, table: str) -> tuple[Any, Rows]:
    """`protected` as booleans, and the rows that are neither true nor false."""
    flags = single(_decoded(column, table, "column 'protected'"))
    if pa.types.is_boolean(flags.type):
        return flags, _rows(pc.is_null(flags))
    if not (is_text(flags.type) or pa.types.is_integer(flags.type) or pa.types.is_null(flags.type)):
        raise GraphError(
            f"{table} must hold true or false in column 'protected', got {type_words(flags.type)}."
        )
    words = pc.utf8_lower(pc.utf8_trim_whitespace(pc.fill_null(flags.cast(pa.string()), "")))
    yes = pc.is_in(words, value_set=pa.array(_TRUE))
    return yes, _rows(pc.invert(pc.or_(yes, pc.is_in(words, value_set=pa.array(_FALSE)))))


def extra_column(column: Any, table: str, label: str) -> Any | None:
    """Return a further column as strings, 64-bit numbers or booleans; None if its type cannot be kept."""
    column = _decoded(column, table, label)
    kind = column.type
    if is_text(kind) or pa.types.is_boolean(kind):
        return single(column)
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return single(column.cast(pa.int64()))
    if pa.types.is_floating(kind):
        return single(column.cast(pa.float64()))
    return single(column.cast(pa.string())) if pa.types.is_null(kind) else None


def _decoded(column: Any, table: str, label: str) -> Any:
    """Return a column without dictionary encoding; strings, and bytes taken for strings, are UTF-8."""
    if pa.types.is_dictionary(column.type):
        column = _undictionaried(column)
    try:
        if pa.types.is_string_view(column.type) or _is_binary(column.type):
            return column.cast(pa.large_string())
        if is_text(column.type):
            column.validate(full=True)
    except pa.ArrowInvalid:
        raise GraphError(
            f"{table} must be UTF-8 text in {label}, got other bytes. Convert it."
        ) from None
    return column


def _undictionaried(column: Any) -> Any:
    """Return a column without dictionary encoding; Polars encodes views of strings, which Arrow does not cast."""
    if not pa.types.is_string_view(column.type.value_type):
        return column.cast(column.type.value_type)
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    plain = [
        pa.DictionaryArray.from_arrays(part.indices, part.dictionary.cast(pa.large_string()))
        for part in chunks
    ]
    return pa.chunked_array([part.cast(pa.large_string()) for part in plain], pa.large_string())


def _is_binary(kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _rows(mask: Any) -> Rows:
    """Row numbers where an Arrow mask is true."""
    return np.flatnonzero(mask.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)


def _parsed_vectors(texts: Any) -> Any:
    """Vectors written as text, numbers between spaces, commas or brackets; NaN for other words."""
    plain = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, r"[\[\](),;]", " "))
    plain = pc.if_else(pc.equal(plain, ""), pa.scalar(None, plain.type), plain)
    fields = pc.utf8_split_whitespace(plain)
    readable = pc.match_substring_regex(fields.values, _NUMBER)
    numbers = pc.if_else(readable, fields.values, "nan").cast(pa.float32())
    return pa.ListArray.from_arrays(fields.offsets, numbers, mask=pc.is_null(fields))


def _matrix(lists: Any, present: Rows, dim: int) -> npt.NDArray[np.float32]:
    """(n, d) float32; rows that are not present are zero. A view where Arrow's memory allows it."""
    flat = lists.flatten()
    values = flat.cast(pa.float32(), safe=False).to_numpy(zero_copy_only=False)
    values = values.astype(np.float32, copy=False).reshape(-1, dim)
    if len(present) == len(lists):
        return values  # type: ignore[no-any-return]
    matrix = np.zeros((len(lists), dim), dtype=np.float32)
    matrix[present] = values
    return matrix
